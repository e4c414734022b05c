"""Conversions in machine code: F2F, F2I, I2F, FRND."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.rounding import canonical, flush
from layoutgen.cpu.sass_code import Instruction
from layoutgen.cpu.sass_operands import Operands, undefined_half

Array = NDArray[Any]

_FLOATS: dict[str, Any] = {"F16": np.float16, "F32": np.float32}
_INTEGERS: dict[str, Any] = {
    "S32": np.int32, "U32": np.uint32, "S16": np.int16, "U16": np.uint16, "S8": np.int8, "U8": np.uint8,
}  # fmt: skip
_WHOLE: dict[str, Callable[[Array], Array]] = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "": np.rint}
_DIRECTIONS = ("RZ", "RM", "RP")


def round_to(value: Array, kind: Any, direction: str = "") -> Array:
    """float64 -> float16 or float32, to nearest even, or toward zero (RZ), below (RM), above (RP)."""
    nearest = value.astype(kind)
    if not direction:
        return nearest
    back = nearest.astype(np.float64)
    over = {
        "RZ": np.abs(back) > np.abs(value),
        "RM": back > value,
        "RP": back < value,
    }[direction]
    goal = {"RZ": kind(0), "RM": kind(-np.inf), "RP": kind(np.inf)}[direction]
    return np.where(over, np.nextafter(nearest, goal), nearest).astype(kind)


def decode_f2f(instruction: Instruction, operands: Operands) -> Step:
    """F2F.to.from of fp16 and fp32; of an fp16 result the register's high half is undefined."""
    kinds = [m for m in instruction.modifiers if m in _FLOATS]
    rest = [m for m in instruction.modifiers if m not in _FLOATS]
    directions = [m for m in rest if m in _DIRECTIONS]
    if len(kinds) != 2 or any(m != "FTZ" and m not in _DIRECTIONS for m in rest) or len(instruction.operands) != 2:
        raise instruction.refuse()
    if len(directions) > 1 or kinds == ["F32", "F32"]:
        raise instruction.refuse()
    target, source = kinds
    ftz, direction = "FTZ" in rest, directions[0] if directions else ""
    read = _float_source(instruction, operands, source)
    put = operands.write(instruction.operands[0], instruction)
    high = undefined_half(operands.fill)

    def step(machine: Machine) -> None:
        value = read(machine)
        if ftz and value.dtype == np.float32:
            value = flush(value)
        result = canonical(round_to(value.astype(np.float64), _FLOATS[target], direction))
        put(machine, result.view(np.uint32) if target == "F32" else result.view(np.uint16) | high)

    return step


def _float_source(instruction: Instruction, operands: Operands, kind: str) -> Callable[[Machine], Array]:
    operand = instruction.operands[1]
    if kind == "F32":
        return operands.float32(operand, instruction)
    if operand.modifiers not in ((), ("H0_H0",), ("H1_H1",)) or operand.inverted or operand.absolute or operand.negated:
        raise instruction.refuse("fp16 operand with a modifier")
    shift = np.uint32(16 if operand.modifiers == ("H1_H1",) else 0)
    word = operands.raw(operand, instruction)
    return lambda machine: (word(machine) >> shift).astype(np.uint16).view(np.float16)


def decode_frnd(instruction: Instruction, operands: Operands) -> Step:
    """FRND[.FTZ][.FLOOR, .CEIL, .TRUNC]: fp32 to a whole number in fp32."""
    ways = [m for m in instruction.modifiers if m in _WHOLE]
    if (
        any(m not in _WHOLE and m != "FTZ" for m in instruction.modifiers)
        or len(instruction.operands) != 2
        or len(ways) > 1
    ):
        raise instruction.refuse()
    way = _WHOLE[ways[0] if ways else ""]
    ftz = "FTZ" in instruction.modifiers
    read, put = (
        operands.float32(instruction.operands[1], instruction),
        operands.write(instruction.operands[0], instruction),
    )

    def step(machine: Machine) -> None:
        value = read(machine)
        put(machine, canonical(way(flush(value) if ftz else value)).view(np.uint32))

    return step


def decode_f2i(instruction: Instruction, operands: Operands) -> Step:
    """F2I: fp32 or fp16 to an integer of at most 32 bits, clamped; .NTZ (a NaN gives 0) is wanted."""
    modifiers = instruction.modifiers
    kinds = [m for m in modifiers if m in _INTEGERS]
    ways = [m for m in modifiers if m in _WHOLE]
    known = all(m in (*_INTEGERS, *_WHOLE, "FTZ", "NTZ", "F16") for m in modifiers)
    if not known or len(kinds) > 1 or len(ways) > 1 or "NTZ" not in modifiers or len(instruction.operands) != 2:
        raise instruction.refuse()
    kind, way, ftz = _INTEGERS[kinds[0] if kinds else "S32"], _WHOLE[ways[0] if ways else ""], "FTZ" in modifiers
    read = _float_source(instruction, operands, "F16" if "F16" in modifiers else "F32")
    put = operands.write(instruction.operands[0], instruction)
    limits = np.iinfo(kind)

    def step(machine: Machine) -> None:
        value = read(machine)
        if ftz and value.dtype == np.float32:
            value = flush(value)
        whole = way(value.astype(np.float64))
        clamped = np.clip(np.where(whole != whole, 0.0, whole), float(limits.min), float(limits.max))
        number = clamped.astype(np.int64)
        put(machine, number.astype(np.uint32 if limits.min == 0 else np.int32).view(np.uint32))

    return step


def decode_i2f(instruction: Instruction, operands: Operands) -> Step:
    """I2F: an integer of at most 32 bits to fp32 or, as .F16, to fp16, whose register's high half is undefined."""
    modifiers = instruction.modifiers
    kinds = [m for m in modifiers if m in _INTEGERS]
    directions = [m for m in modifiers if m in _DIRECTIONS]
    known = all(m in (*_INTEGERS, *_DIRECTIONS, "F16") for m in modifiers)
    if not known or len(kinds) > 1 or len(directions) > 1 or len(instruction.operands) != 2:
        raise instruction.refuse()
    kind, direction = _INTEGERS[kinds[0] if kinds else "S32"], directions[0] if directions else ""
    source = instruction.operands[1]
    if source.modifiers not in ((), ("B1",), ("B2",), ("B3",), ("H1",)) or source.negated or source.absolute:
        raise instruction.refuse("integer operand with a modifier")
    lowest = {(): 0, ("B1",): 8, ("B2",): 16, ("B3",): 24, ("H1",): 16}[source.modifiers]
    word, put = operands.raw(source, instruction), operands.write(instruction.operands[0], instruction)
    unsigned: Any = np.dtype(f"u{np.dtype(kind).itemsize}")
    half = "F16" in modifiers
    high = undefined_half(operands.fill)

    def step(machine: Machine) -> None:
        number = (word(machine) >> np.uint32(lowest)).astype(unsigned).view(kind)
        if half:
            put(machine, round_to(number.astype(np.float64), np.float16, direction).view(np.uint16) | high)
        else:
            put(machine, round_to(number.astype(np.float64), np.float32, direction).view(np.uint32))

    return step
