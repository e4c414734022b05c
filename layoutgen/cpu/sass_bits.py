"""Shifts, bitwise functions, permutations of bytes and bit counts in machine code of sm_70 and sm_75."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.sass_code import IMMEDIATE, PREDICATE, PT, UNIFORM_PREDICATE, Instruction
from layoutgen.cpu.sass_operands import Operands

Array = NDArray[Any]

_U32 = np.uint64(32)
_PREDICATES = (PREDICATE, UNIFORM_PREDICATE)


def decode_shf(instruction: Instruction, operands: Operands) -> Step:
    """SHF.{L,R}[.W].{U32,S32,U64,S64}[.HI] d, low, s, high: the pair {high, low} shifted, of which .HI gives the
    high word, else the low one. The distance is cut at 32 (64 for the 64-bit types), with .W taken modulo that."""
    modifiers = list(instruction.modifiers)
    high_word = "HI" in modifiers
    wrap = "W" in modifiers
    rest = [m for m in modifiers if m not in ("HI", "W")]
    if len(rest) != 2 or rest[0] not in ("L", "R") or rest[1] not in ("U32", "S32", "U64", "S64"):
        raise instruction.refuse()
    if len(instruction.operands) != 4 or (rest[0] == "L" and rest[1][0] == "S"):
        raise instruction.refuse()
    left, signed, limit = rest[0] == "L", rest[1][0] == "S", int(rest[1][1:])
    low, distance, high = (operands.integer(o, instruction) for o in instruction.operands[1:])
    put = operands.write(instruction.operands[0], instruction)

    def step(machine: Machine) -> None:
        by = distance(machine)
        by = by & np.uint32(limit - 1) if wrap else np.minimum(by, np.uint32(limit))
        pair = (high(machine).astype(np.uint64) << _U32) | low(machine)
        inside = np.minimum(by, np.uint32(63)).astype(np.uint64)
        if signed:
            shifted = (pair.view(np.int64) >> inside.astype(np.int64)).view(np.uint64)
        else:
            shifted = pair << inside if left else pair >> inside
            if limit == 64 and not wrap:
                shifted = np.where(by > 63, np.uint64(0), shifted)
        put(machine, (shifted >> _U32 if high_word else shifted).astype(np.uint32))

    return step


def lut3(a: Array, b: Array, c: Array, table: int) -> Array:
    """The bitwise function of three whose truth table is `table`, with a = 0xF0, b = 0xCC, c = 0xAA."""
    if table in _OF_TWO:
        return _OF_TWO[table](a, b)
    if table in _OF_THREE:
        return _OF_THREE[table](a, b, c)
    result: Array = np.zeros(1, a.dtype)
    for row in range(8):
        if table >> row & 1:
            result = result | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


_OF_TWO: dict[int, Callable[[Array, Array], Array]] = {
    0xC0: lambda a, b: a & b,
    0xFC: lambda a, b: a | b,
    0x3C: lambda a, b: a ^ b,
}
_OF_THREE: dict[int, Callable[[Array, Array, Array], Array]] = {
    0xFE: lambda a, b, c: a | b | c,
    0x80: lambda a, b, c: a & b & c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xF8: lambda a, b, c: a | (b & c),
    0xEA: lambda a, b, c: (a & b) | c,
}


def decode_lop3(instruction: Instruction, operands: Operands) -> Step:
    """LOP3.LUT: a bitwise function of three; a leading predicate says whether the result is not zero."""
    rest = list(instruction.operands)
    put_flag = operands.write_predicate(rest.pop(0), instruction) if rest[0].kind in _PREDICATES else None
    if instruction.modifiers != ("LUT",) or len(rest) != 6 or rest[4].kind != IMMEDIATE:
        raise instruction.refuse()
    if rest[5].kind not in _PREDICATES or rest[5].value != PT or not rest[5].negated:
        raise instruction.refuse("a predicate that joins in")
    a, b, c = (operands.integer(o, instruction) for o in rest[1:4])
    table, put = rest[4].value, operands.write(rest[0], instruction)

    def step(machine: Machine) -> None:
        result = lut3(a(machine), b(machine), c(machine), table)
        put(machine, result)
        if put_flag is not None:
            put_flag(machine, result != 0)

    return step


def decode_plop3(instruction: Instruction, operands: Operands) -> Step:
    """PLOP3.LUT: two functions of three predicates."""
    if instruction.modifiers != ("LUT",) or len(instruction.operands) != 7:
        raise instruction.refuse()
    first, second, *sources, table, other = instruction.operands
    if table.kind != IMMEDIATE or other.kind != IMMEDIATE:
        raise instruction.refuse()
    a, b, c = (operands.predicate(p, instruction) for p in sources)
    puts = [(operands.write_predicate(p, instruction), t.value) for p, t in ((first, table), (second, other))]

    def step(machine: Machine) -> None:
        x, y, z = a(machine), b(machine), c(machine)
        results = [lut3(x, y, z, lut) for _, lut in puts]
        for (put, _), result in zip(puts, results, strict=True):
            put(machine, result)

    return step


def decode_sgxt(instruction: Instruction, operands: Operands) -> Step:
    """SGXT[.U32][.W] d, a, n: the low n bits of a, sign- or zero-extended; n is cut at 32, with .W taken modulo 32."""
    if any(m not in ("U32", "W") for m in instruction.modifiers) or len(instruction.operands) != 3:
        raise instruction.refuse()
    unsigned, wrap = "U32" in instruction.modifiers, "W" in instruction.modifiers
    a, n = (operands.integer(o, instruction) for o in instruction.operands[1:])
    put = operands.write(instruction.operands[0], instruction)

    def step(machine: Machine) -> None:
        bits = n(machine)
        bits = (bits & np.uint32(31) if wrap else np.minimum(bits, np.uint32(32))).astype(np.uint64)
        away = np.uint64(64) - bits  # through 64 bits, so that a width of 0 and of 32 need no care
        value = a(machine).astype(np.uint64)
        gone = np.minimum(away, np.uint64(63))
        left = np.where(bits == 0, np.uint64(0), value << gone)
        result = left >> gone if unsigned else (left.view(np.int64) >> gone.astype(np.int64)).view(np.uint64)
        put(machine, result.astype(np.uint32))

    return step


def decode_prmt(instruction: Instruction, operands: Operands) -> Step:
    """PRMT d, a, selector, b: four bytes of {b, a}; a set high bit of a selector's digit takes the byte's sign."""
    if instruction.modifiers or len(instruction.operands) != 4:
        raise instruction.refuse()
    a, selector, b = (operands.integer(o, instruction) for o in instruction.operands[1:])
    put = operands.write(instruction.operands[0], instruction)
    fixed = instruction.operands[2].value if instruction.operands[2].kind == IMMEDIATE else None
    quick = {0x5410: _low_halves, 0x7632: _high_halves, 0x7610: _high_of_second}.get(-1 if fixed is None else fixed)
    if quick is not None:
        return lambda machine: put(machine, quick(a(machine), b(machine)))

    def step(machine: Machine) -> None:
        pair = (b(machine).astype(np.uint64) << _U32) | a(machine)
        choice = selector(machine).astype(np.uint64)
        result: Array = np.zeros(1, np.uint64)
        for byte in range(4):
            digit = choice >> np.uint64(4 * byte)
            picked = pair >> ((digit & np.uint64(7)) << np.uint64(3)) & np.uint64(0xFF)
            sign = (picked >> np.uint64(7)) * np.uint64(0xFF)
            picked = np.where(digit & np.uint64(8), sign, picked)
            result = result | picked << np.uint64(8 * byte)
        put(machine, result.astype(np.uint32))

    return step


def _low_halves(a: Array, b: Array) -> Array:
    return (a & np.uint32(0xFFFF)) | (b << np.uint32(16))


def _high_halves(a: Array, b: Array) -> Array:
    return (a >> np.uint32(16)) | (b & np.uint32(0xFFFF0000))


def _high_of_second(a: Array, b: Array) -> Array:
    return (a & np.uint32(0xFFFF)) | (b & np.uint32(0xFFFF0000))


def decode_bits(instruction: Instruction, operands: Operands) -> Step:
    """POPC, BREV, IABS and FLO[.U32][.SH] (the number of the highest set bit, or with .SH its distance from the top;
    all ones when there is none; signed: of the highest bit that differs from the sign)."""
    name, modifiers = instruction.opcode.removeprefix("U"), instruction.modifiers
    if len(instruction.operands) != 2 or (
        modifiers and (name != "FLO" or any(m not in ("U32", "SH") for m in modifiers))
    ):
        raise instruction.refuse()
    a, put = (
        operands.integer(instruction.operands[1], instruction),
        operands.write(instruction.operands[0], instruction),
    )
    if name == "IABS":
        return lambda machine: put(machine, np.abs(a(machine).view(np.int32)).view(np.uint32))
    if name == "POPC":
        return lambda machine: put(machine, _octets(a(machine)).sum(axis=-1, dtype=np.uint32))
    if name == "BREV":
        return lambda machine: put(
            machine, np.packbits(_octets(a(machine))[..., ::-1], -1, "little").view(np.uint32)[..., 0]
        )
    unsigned, from_top = "U32" in modifiers, "SH" in modifiers

    def step(machine: Machine) -> None:
        value = a(machine)
        if not unsigned:
            value = value ^ (value.view(np.int32) >> np.int32(31)).view(np.uint32)
        top = np.frexp(value.astype(np.float64))[1] - 1  # -1 for zero
        found = np.where(top < 0, -1, 31 - top if from_top else top)
        put(machine, found.astype(np.int32).view(np.uint32))

    return step


def _octets(value: Array) -> Array:
    """The 32 bits of every word along a last axis, lowest first."""
    return np.unpackbits(np.ascontiguousarray(value).view(np.uint8).reshape(-1, 4), axis=-1, bitorder="little")
