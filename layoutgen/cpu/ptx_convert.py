"""PTX cvt and mov: conversions, packing and unpacking (PTX ISA, "Data Movement and Conversion")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.ptx_integer import compute
from layoutgen.cpu.ptx_operands import Slots
from layoutgen.cpu.ptx_program import Instruction, Operand, Register, UnsupportedInstructionError, Vector
from layoutgen.cpu.ptx_types import BITS, is_float, numpy_type, storage
from layoutgen.cpu.rounding import canonical, flush

Array = NDArray[Any]
Function = Callable[[Array], Array]

_WHOLE: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _narrow(value: Array, rounding: str, target: Any) -> Array:
    """Round float `value` to the float type `target`: rn, rz, rm or rp."""
    result: Array = value.astype(target)
    if rounding == "rn":
        return result
    back = result.astype(np.float64)
    exact = value.astype(np.float64)
    infinite = target(np.inf)
    if rounding == "rz":
        wrong, goal = np.abs(back) > np.abs(exact), target(0)
    elif rounding == "rm":
        wrong, goal = back > exact, -infinite
    else:
        wrong, goal = back < exact, infinite
    return np.where(wrong, np.nextafter(result, goal), result).astype(target)


def _bf16(value: Array, rounding: str) -> Array:
    bits = value.view(np.uint32)
    if rounding == "rn":
        bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    half = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(value != value, np.uint16(0x7FFF), half)


def _to_integer(value: Array, target: Any) -> Array:
    limits = np.iinfo(target)
    low, high = float(limits.min), float(limits.max)
    wide = value.astype(np.float64)
    inside = (wide >= low) & (wide < high + (0.0 if limits.bits > 32 else 1.0))
    number = np.where(inside, wide, 0.0).astype(target)
    number = np.where(wide >= high + (0.0 if limits.bits > 32 else 1.0), target(limits.max), number)
    return np.where(wide < low, target(limits.min), number).astype(target)


def _saturate(value: Array, target: Any) -> Array:
    limits = np.iinfo(target)
    own = np.iinfo(value.dtype)
    clipped = np.clip(value, max(limits.min, own.min), min(limits.max, own.max))
    result: Array = clipped.astype(target)
    return result


def decode_convert(instruction: Instruction, slots: Slots) -> Step:
    """cvt between integers, f16, bf16, f32 and f64, and cvt.rn.f16x2.f32 of two values."""
    *modifiers, target, source = instruction.op[1:]
    if target == "f16x2" and source == "f32" and modifiers in (["rn"], ["rz"]):
        how = modifiers[0]

        def pack(high: Array, low: Array) -> Array:
            top, bottom = (canonical(_narrow(v, how, np.float16)).view(np.uint16) for v in (high, low))
            return (top.astype(np.uint32) << np.uint32(16)) | bottom

        return compute(instruction, slots, ["f32", "f32"], "b32", pack)
    if target not in BITS or source not in BITS or "x2" in target + source:
        raise UnsupportedInstructionError(instruction.text)
    function = _conversion(target, source, modifiers)
    if function is None:
        raise UnsupportedInstructionError(instruction.text)
    read = f"u{BITS[source]}" if source[0] == "b" and source != "bf16" else source
    return compute(instruction, slots, [read], target, function)


def _conversion(target: str, source: str, modifiers: list[str]) -> Function | None:
    rounding = [m for m in modifiers if m in ("rn", "rz", "rm", "rp")]
    whole = [m for m in modifiers if m in _WHOLE]
    ftz, sat = "ftz" in modifiers, "sat" in modifiers
    if len(rounding) + len(whole) > 1 or any(m not in (*rounding, *whole, "ftz", "sat") for m in modifiers):
        return None
    goal = numpy_type(target)
    if not is_float(source):
        if is_float(target):
            if rounding != ["rn"] or sat or target == "bf16":
                return None
            return lambda v: v.astype(goal)
        if rounding or whole or ftz:
            return None
        return (lambda v: _saturate(v, goal)) if sat else (lambda v: v.astype(goal))
    if source == "bf16":
        if target != "f32" or modifiers:
            return None
        return lambda v: (v.astype(np.uint32) << np.uint32(16)).view(np.float32)
    before: Function = flush if ftz and source == "f32" else lambda v: v
    if not is_float(target):
        if len(whole) != 1:
            return None
        round_off = _WHOLE[whole[0]]
        return lambda v: _to_integer(round_off(before(v)), goal)
    if target == "bf16":
        if source != "f32" or sat or ftz or rounding not in (["rn"], ["rz"]):
            return None
        return lambda v: _bf16(v, rounding[0])
    narrows = BITS[target] < BITS[source]
    if narrows != bool(rounding) or (whole and target != source):
        return None

    def convert(value: Array) -> Array:
        value = before(value)
        if whole:
            value = _WHOLE[whole[0]](value)
        result: Array = _narrow(value, rounding[0], goal) if narrows else value.astype(goal)
        if ftz and target == "f32":
            result = flush(result)
        if sat:
            result = np.where(result > 0, np.minimum(result, goal(1)), goal(0))
        return canonical(result)

    return convert


# mov ------------------------------------------------------------------------------------------------------


def decode_move(instruction: Instruction, slots: Slots) -> Step:
    """mov: a copy, `{a, b} -> d` (the first item has the lowest bits) or `d -> {a, b}`."""
    if len(instruction.op) != 2 or instruction.op[1] not in BITS or len(instruction.operands) != 2:
        raise UnsupportedInstructionError(instruction.text)
    kind = instruction.op[1]
    target, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(instruction, slots, kind, target, source)
    if isinstance(target, Vector):
        return _unpack(instruction, slots, kind, target, source)
    if kind != "pred":
        kind = f"b{BITS[kind]}" if not is_float(kind) else kind
    read, put = slots.read(source, kind, instruction), slots.write(target, kind, instruction)

    def step(machine: Machine) -> None:
        put(machine, read(machine))

    return step


def _piece(instruction: Instruction, kind: str, vector: Vector) -> int:
    bits = BITS[kind] // len(vector.items)
    if bits * len(vector.items) != BITS[kind] or bits not in (8, 16, 32):
        raise UnsupportedInstructionError(instruction.text)
    return bits


def _pack(instruction: Instruction, slots: Slots, kind: str, target: Operand, source: Vector) -> Step:
    bits = _piece(instruction, kind, source)
    read = [slots.read(item, f"b{bits}", instruction) for item in source.items]
    put = slots.write(target, f"b{BITS[kind]}", instruction)
    whole = storage(BITS[kind])

    def step(machine: Machine) -> None:
        result = read[0](machine).astype(whole)
        for number, item in enumerate(read[1:], 1):
            result = result | (item(machine).astype(whole) << whole(number * bits))
        put(machine, result)

    return step


def _unpack(instruction: Instruction, slots: Slots, kind: str, target: Vector, source: Operand) -> Step:
    bits = _piece(instruction, kind, target)
    read = slots.read(source, f"b{BITS[kind]}", instruction)
    put = [slots.write(item, f"b{bits}", instruction) for item in target.items]
    whole, small = storage(BITS[kind]), storage(bits)

    def step(machine: Machine) -> None:
        value = read(machine)
        for number, write in enumerate(put):
            piece = value >> whole(number * bits) if number else value
            write(machine, piece.astype(small))

    return step


def register_operands(operands: tuple[Operand, ...]) -> list[Register]:
    """The registers among `operands`, vectors opened."""
    found: list[Register] = []
    for operand in operands:
        if isinstance(operand, Register):
            found.append(operand)
        elif isinstance(operand, Vector):
            found += register_operands(operand.items)
    return found
