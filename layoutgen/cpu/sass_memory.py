"""Loads and stores in machine code: LDG, STG, LDS, STS, and LDL, STL for spilled registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import access
from layoutgen.cpu.machine import LANES, ExecutionError, Machine, Step
from layoutgen.cpu.sass_code import ADDRESS, RZ, UNIFORM, URZ, Instruction, Operand
from layoutgen.cpu.sass_operands import Operands, Reader, undefined_word

Array = NDArray[Any]

_SIZES = {"U8": (1, 1), "S8": (1, 1), "U16": (2, 1), "S16": (2, 1), "": (4, 1), "64": (4, 2), "128": (4, 4)}
"""Modifier -> (bytes of an item, items)."""
_CACHING = ("SYS", "GPU", "CTA", "CONSTANT", "STRONG", "WEAK", "EF", "EL", "LU", "NA")
"""Which caches are asked, and how soon others must see it: nothing that one executor of one launch could tell."""

STACK_TOP = 0xFFFF00
"""What c[0x0][0x28], the initial stack pointer, holds here; local memory lies below it."""


def _size(instruction: Instruction, allowed: tuple[str, ...]) -> str:
    sizes = [m for m in instruction.modifiers if m in _SIZES]
    if any(m not in _SIZES and m not in allowed for m in instruction.modifiers) or len(sizes) > 1:
        raise instruction.refuse()
    return sizes[0] if sizes else ""


def item_bytes(instruction: Instruction) -> int:
    """Bytes of one item of a load or store."""
    return next((_SIZES[m][0] for m in instruction.modifiers if m in _SIZES), 4)


def _global_address(operand: Operand, instruction: Instruction, operands: Operands) -> Reader:
    offset = np.uint64(operand.value & (1 << 64) - 1)
    if operand.kind != ADDRESS or operand.modifiers not in ((), ("64",), ("U32",)):
        raise instruction.refuse("address of another form")
    narrow = operand.modifiers == ("U32",)
    if operand.base == RZ and operand.uniform == URZ:
        raise instruction.refuse("an address without a register")
    parts = []
    if operand.base != RZ:
        base = Operand("R", operand.base)
        parts.append(operands.integer(base, instruction) if narrow else operands.wide(base, instruction))
    if operand.uniform != URZ:
        parts.append(operands.wide(Operand(UNIFORM, operand.uniform), instruction))

    def read(machine: Machine) -> Array:
        address = parts[0](machine).astype(np.uint64)
        for part in parts[1:]:
            address = address + part(machine)
        return address + offset

    return read


def _near_address(operand: Operand, instruction: Instruction, operands: Operands) -> Reader:
    """An address of shared or local memory: 32 bits."""
    scale = {(): 0, ("X4",): 2, ("X8",): 3, ("X16",): 4}.get(operand.modifiers)
    if operand.kind != ADDRESS or scale is None:
        raise instruction.refuse("address of another form")
    base = operands.integer(Operand("R", operand.base), instruction)
    uniform = operands.integer(Operand(UNIFORM, operand.uniform), instruction)
    offset, shift = np.uint32(operand.value & 0xFFFFFFFF), np.uint32(scale)
    added = operand.uniform != URZ

    def read(machine: Machine) -> Array:
        address: Array = (base(machine) << shift) + offset
        return address + uniform(machine) if added else address

    return read


Load = Callable[[Machine, Array, int, int], list[Array]]


def _load(instruction: Instruction, operands: Operands, size: str, address: Reader, load: Load) -> Step:
    if len(instruction.operands) != 2:
        raise instruction.refuse()
    width, count = _SIZES[size]
    puts = operands.write_all(instruction.operands[0], instruction, count)
    signed: Any = {"S8": np.int8, "S16": np.int16}.get(size)

    def step(machine: Machine) -> None:
        values = load(machine, address(machine), width, count)
        for put, value in zip(puts, values, strict=True):
            if width < 4:
                value = value.view(signed).astype(np.int32).view(np.uint32) if signed else value.astype(np.uint32)
            put(machine, value)

    return step


def _stored(instruction: Instruction, operands: Operands, size: str) -> Callable[[Machine], list[Array]]:
    if len(instruction.operands) != 2 or not instruction.operands[1].plain:
        raise instruction.refuse()
    width, count = _SIZES[size]
    reads = [operands.raw(instruction.operands[1], instruction, n) for n in range(count)]
    kind = np.dtype(f"u{width}")
    return lambda machine: [read(machine).astype(kind, copy=False) for read in reads]


def decode_ldg(instruction: Instruction, operands: Operands) -> Step:
    """LDG.E: global memory, addressed with 64 bits."""
    size = _size(instruction, ("E", *_CACHING))
    if "E" not in instruction.modifiers:
        raise instruction.refuse("a 32-bit global address")
    address = _global_address(instruction.operands[1], instruction, operands)
    return _load(instruction, operands, size, address, access.load_global)


def decode_stg(instruction: Instruction, operands: Operands) -> Step:
    """STG.E."""
    size = _size(instruction, ("E", *_CACHING))
    if "E" not in instruction.modifiers:
        raise instruction.refuse("a 32-bit global address")
    address = _global_address(instruction.operands[0], instruction, operands)
    values = _stored(instruction, operands, size)
    width = _SIZES[size][0]
    return lambda machine: access.store_global(machine, address(machine), width, values(machine))


def decode_lds(instruction: Instruction, operands: Operands) -> Step:
    """LDS[.U]: shared memory."""
    size = _size(instruction, ("U",))
    address = _near_address(instruction.operands[1], instruction, operands)
    return _load(instruction, operands, size, address, access.load_shared)


def decode_sts(instruction: Instruction, operands: Operands) -> Step:
    """STS."""
    size = _size(instruction, ())
    address = _near_address(instruction.operands[0], instruction, operands)
    values = _stored(instruction, operands, size)
    width = _SIZES[size][0]
    return lambda machine: access.store_shared(machine, address(machine), width, values(machine))


def in_order(step: Step) -> Step:
    """Before a shared access of a warp whose lanes are together: what that warp did before has happened.

    PTX wants a barrier between lanes of a warp even then. Machine code has none left where ptxas knows that the lanes
    are together, and needs none: a warp's shared accesses are served in their order.
    """

    def run(machine: Machine) -> int | None:
        if machine.mask is None:
            machine.shared_watch.warp_barrier(None, None)
        else:
            here = machine.mask.reshape(LANES, machine.warps)
            there = here if machine.exited is None else here | machine.exited.reshape(LANES, machine.warps)
            warps = np.flatnonzero(there.all(axis=0) & here.any(axis=0))
            if warps.size:
                per_block = machine.warps_per_block
                machine.shared_watch.warp_barrier(warps // per_block, warps % per_block)
        return step(machine)

    return run


# Local memory ---------------------------------------------------------------------------------------------


def _place(machine: Machine, address: Array, size: int, instruction: Instruction) -> int:
    """The place in local memory of an access of `size` bytes, which all threads address alike."""
    if address.size > 1:
        chosen = address[machine.active()]
        if (chosen != chosen[0]).any():
            raise instruction.refuse("a local address that differs between threads")
        address = chosen
    start = int(address[0])
    if start % size or not 0 <= start <= STACK_TOP - size:
        raise ExecutionError(f"{instruction.source}: `{instruction.text}` at local address {start:#x}")
    return start


def decode_ldl(instruction: Instruction, operands: Operands) -> Step:
    """LDL: what was spilled. Every word of local memory is kept as a register is: one array for all threads.

    ptxas reloads words that it never spilled where their value does not matter: what a fill is for, and no finding.
    """
    size = _size(instruction, ("LU",))
    address = _near_address(instruction.operands[1], instruction, operands)

    def load(machine: Machine, at: Array, width: int, count: int) -> list[Array]:
        place = _place(machine, at, width * count, instruction)
        first = place & -4
        words = [_word(machine, word, operands.fill) for word in range(first, place + width * count, 4)]
        return words if width == 4 else [(words[0] >> np.uint32(8 * (place & 3))).astype(f"u{width}")]

    return _load(instruction, operands, size, address, load)


def _word(machine: Machine, place: int, fill: int) -> Array:
    return np.asarray(machine.own.local.get(place, undefined_word(fill, place)), np.uint32)


def decode_stl(instruction: Instruction, operands: Operands) -> Step:
    """STL: a spill."""
    size = _size(instruction, ())
    width, count = _SIZES[size]
    address = _near_address(instruction.operands[0], instruction, operands)
    values = _stored(instruction, operands, size)

    def step(machine: Machine) -> None:
        start = _place(machine, address(machine), width * count, instruction)
        for place, value in zip(range(start, start + width * count, width), values(machine), strict=True):
            word = place & -4
            before = _word(machine, word, operands.fill)
            if width < 4:  # the rest of the word stays
                shift, kept = np.uint32(8 * (place & 3)), ~np.uint32(((1 << 8 * width) - 1) << 8 * (place & 3))
                value = before & kept | value.astype(np.uint32) << shift
            if machine.mask is not None:
                value = np.where(machine.mask, value, before)
            machine.own.local[word] = value

    return step
