"""Operands of SASS instructions, from the text that nvdisasm prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from layoutgen.errors import LayoutgenError

RZ = 255
"""The register that reads as zero and is never written."""
URZ = 63
"""The same among the uniform registers."""
PT = 7
"""The predicate that is always true."""


@dataclass(frozen=True)
class Register:
    """A 32-bit register, or the first of several. `modifiers` are what follows the dot, `.reuse` left out.

    `uniform`: one value for the whole warp (sm_75 on); there, number 63 is the one that reads as zero.
    """

    index: int
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    modifiers: tuple[str, ...] = ()
    uniform: bool = False


@dataclass(frozen=True)
class Predicate:
    """A predicate register."""

    index: int
    negated: bool = False
    uniform: bool = False


@dataclass(frozen=True)
class Immediate:
    """A literal: an integer as printed, or a float (nvdisasm prints both)."""

    value: int | float


@dataclass(frozen=True)
class Constant:
    """A word of a constant bank."""

    bank: int
    offset: int
    index: int = RZ
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Address:
    """A memory operand: base register + uniform register + offset. `modifiers` belong to the base, for example X4."""

    base: int
    offset: int
    modifiers: tuple[str, ...] = ()
    uniform: int = URZ


@dataclass(frozen=True)
class Name:
    """A special register, a scoreboard, the predicate file, ...: whatever goes by a name of its own."""

    text: str


Operand = Register | Predicate | Immediate | Constant | Address | Name

_NUMBER = r"-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_REGISTER = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)(?P<uniform>U?)R(?P<index>\d+|Z)(?P<mods>(?:\.\w+)*)\|?(?P<after>(?:\.\w+)*)"
)
_PREDICATE = re.compile(r"(?P<not>!?)(?P<uniform>U?)P(?P<index>\d|T)")
_CONSTANT = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)c\[(?P<bank>0x[0-9a-f]+)\]\[(?:R(?P<index>\d+|Z)\+?)?(?P<offset>-?0x[0-9a-f]+)?\]"
    r"(?P<mods>(?:\.\w+)*)\|?"
)
_ADDRESS = re.compile(
    r"\[(?:R(?P<base>\d+|Z)(?P<mods>(?:\.\w+)*))?(?:\+?UR(?P<uniform>\d+|Z))?(?:\+?(?P<offset>-?0x[0-9a-f]+))?\]"
)
_NAME = re.compile(r"SRZ|SR_[A-Z0-9_.]+|PR|UPR|SB\d|B\d|\{[\d,]+\}")
"""Special registers, the predicate file, scoreboards, convergence barriers, sets of scoreboards."""
_FLOATS = {"INF": float("inf"), "QNAN": float("nan"), "SNAN": float("nan")}


def parse_operand(text: str) -> Operand:
    """Read one operand. Raises LayoutgenError on what is none.

    >>> parse_operand("-R12.reuse.H0_H0")
    Register(index=12, negated=True, absolute=False, inverted=False, modifiers=('H0_H0',), uniform=False)
    >>> parse_operand("[R2+0x40]")
    Address(base=2, offset=64, modifiers=(), uniform=63)
    >>> parse_operand("c[0x0][0x160]").offset, parse_operand("!PT")
    (352, Predicate(index=7, negated=True, uniform=False))
    """
    if match := _REGISTER.fullmatch(text):
        modifiers = tuple(m for m in (match["mods"] + match["after"]).split(".") if m and m != "reuse")
        uniform = bool(match["uniform"])
        index = URZ if uniform and match["index"] == "Z" else _index(match["index"])
        return Register(index, match["sign"] == "-", bool(match["bar"]), match["sign"] == "~", modifiers, uniform)
    if match := _PREDICATE.fullmatch(text):
        number = PT if match["index"] == "T" else int(match["index"])
        return Predicate(number, bool(match["not"]), bool(match["uniform"]))
    if re.fullmatch(_NUMBER, text):
        return Immediate(int(text, 16) if "0x" in text else float(text) if re.search(r"[.e]", text) else int(text))
    if match := _CONSTANT.fullmatch(text):
        return Constant(
            int(match["bank"], 16),
            int(match["offset"] or "0", 16),
            _index(match["index"] or "Z"),
            match["sign"] == "-",
            bool(match["bar"]),
            match["sign"] == "~",
            tuple(m for m in match["mods"].split(".") if m and m != "reuse"),
        )
    if match := _ADDRESS.fullmatch(text):
        modifiers = tuple(m for m in (match["mods"] or "").split(".") if m)
        uniform_base = URZ if match["uniform"] in (None, "Z") else int(match["uniform"])
        return Address(_index(match["base"] or "Z"), int(match["offset"] or "0", 16), modifiers, uniform_base)
    sign, word = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if word in _FLOATS:
        return Immediate(sign * _FLOATS[word])
    if _NAME.fullmatch(text):
        return Name(text)
    raise LayoutgenError(f"sass: operand {text!r} has no known form; known are R, P, c[][], [R+offset], numbers, names")


def _index(text: str) -> int:
    return RZ if text == "Z" else int(text)
