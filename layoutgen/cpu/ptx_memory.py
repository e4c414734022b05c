"""PTX ld and st in the param, global and shared spaces (PTX ISA, "Data Movement": ld, ld.global.nc, st)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import access
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.ptx_operands import Reader, Slots, constant_reader
from layoutgen.cpu.ptx_program import (
    Address,
    Instruction,
    Operand,
    Register,
    Symbol,
    UnsupportedInstructionError,
    Vector,
)  # fmt: skip
from layoutgen.cpu.ptx_types import BITS

Array = NDArray[Any]

_HINTS = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "volatile", "cta")


def _parts(instruction: Instruction) -> tuple[str, int, str]:
    """(space, items, type) of a load or store."""
    *modifiers, kind = instruction.op[1:]
    space, count = "", 1
    for modifier in modifiers:
        name = modifier.partition("::")[0]
        if name in ("global", "shared", "param") and not space and modifier in (name, "shared::cta"):
            space = name
        elif modifier in ("v2", "v4"):
            count = int(modifier[1])
        elif modifier not in _HINTS and name not in ("L1", "L2"):
            raise UnsupportedInstructionError(instruction.text, f".{modifier}")
    if not space or kind not in BITS or kind == "pred" or BITS[kind] * count > 128:
        raise UnsupportedInstructionError(instruction.text)
    return space, count, kind


def _address(instruction: Instruction, slots: Slots, operand: Operand, bits: int) -> Reader:
    if not isinstance(operand, Address):
        raise UnsupportedInstructionError(instruction.text)
    kind = f"u{bits}"
    own: Any = np.uint64 if bits == 64 else np.uint32
    if operand.base is None:
        constant = np.array([operand.offset], own)
        return constant_reader(constant)
    if isinstance(operand.base, Register) and bits == 32 and slots.bits(operand.base) == 64:
        bits, kind, own = 64, "u64", np.uint64
    base = slots.read(operand.base, kind, instruction)
    if not operand.offset:
        return base
    offset = own(operand.offset & ((1 << bits) - 1))
    return lambda machine: base(machine) + offset


def _items(instruction: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise UnsupportedInstructionError(instruction.text, f"{count} items expected")
    return items


def decode_load(instruction: Instruction, slots: Slots) -> Step:
    """ld.param, ld.global, ld.shared; scalar, v2 and v4."""
    space, count, kind = _parts(instruction)
    if len(instruction.operands) != 2:
        raise UnsupportedInstructionError(instruction.text)
    target, source = instruction.operands
    put = [slots.write(item, kind, instruction) for item in _items(instruction, target, count)]
    width = BITS[kind] // 8
    if space == "param":
        if count != 1 or not isinstance(source, Address) or not isinstance(source.base, Symbol):
            raise UnsupportedInstructionError(instruction.text)
        name = source.base.name
        widths = {parameter.name: BITS[parameter.type] // 8 for parameter in slots.program.parameters}
        if widths.get(name) != width or source.offset:
            raise UnsupportedInstructionError(instruction.text, "no such parameter of this width")
        return lambda machine: put[0](machine, machine.own[name])
    address = _address(instruction, slots, source, 64 if space == "global" else 32)
    load = access.load_global if space == "global" else access.load_shared
    narrow = BITS[kind] < 32 and (kind[0] == "s")

    def step(machine: Machine) -> None:
        values = load(machine, address(machine), width, count)
        for write, value in zip(put, values, strict=True):
            write(machine, value.view(f"i{width}") if narrow else value)

    return step


def decode_store(instruction: Instruction, slots: Slots) -> Step:
    """st.global and st.shared; scalar, v2 and v4."""
    space, count, kind = _parts(instruction)
    if len(instruction.operands) != 2 or space == "param":
        raise UnsupportedInstructionError(instruction.text)
    target, source = instruction.operands
    raw = f"b{BITS[kind]}"
    read = [slots.read(item, raw, instruction) for item in _items(instruction, source, count)]
    width = BITS[kind] // 8
    address = _address(instruction, slots, target, 64 if space == "global" else 32)
    store = access.store_global if space == "global" else access.store_shared

    def step(machine: Machine) -> None:
        store(machine, address(machine), width, [value(machine) for value in read])

    return step


def narrowest_shared_access(instructions: tuple[Instruction, ...]) -> int:
    """Bytes of the narrowest shared access of a program, at most 4: the grain of the race detector."""
    widths = [
        BITS[i.op[-1]] // 8
        for i in instructions
        if i.op[0] in ("ld", "st") and "shared" in i.op[1:2] and i.op[-1] in BITS
    ]
    return min([4, *widths])
