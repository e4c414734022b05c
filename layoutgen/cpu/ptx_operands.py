"""Operands of PTX instructions as slots of a register file, read and written as NumPy arrays.

Registers hold one array a register: `size` entries, or a single one where all threads agree. Arrays are
never changed in place, so that a move is an alias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import Machine
from layoutgen.cpu.ptx_flow import reads
from layoutgen.cpu.ptx_program import (
    Immediate,
    Instruction,
    Operand,
    Program,
    Register,
    Sink,
    Special,
    Symbol,
    UnsupportedInstructionError,
)  # fmt: skip
from layoutgen.cpu.ptx_types import BITS, is_float, is_signed, numpy_type, storage

Array = NDArray[Any]
Reader = Callable[[Machine], Array]
Writer = Callable[[Machine, Array], None]

GARBAGE: dict[int, Array] = {
    1: np.array([False]),
    8: np.array([0x7F], np.uint8),
    16: np.array([0x7FFF], np.uint16),
    32: np.array([0x7FFF7FFF], np.uint32),
    64: np.array([0x7FFF7FFF7FFF7FFF], np.uint64),
}
"""What a register holds before it is written: told apart by identity, a NaN by value."""


def constant_reader(value: Array) -> Reader:
    """A reader of the same array always."""
    return lambda _machine: value


class Slots:
    """The register file's plan: a slot for every register name of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._slots: dict[str, int] = {}
        self._bits: list[int] = []

    def slot(self, register: Register) -> int:
        """The number of the register's slot."""
        found = self._slots.get(register.name)
        if found is None:
            found = self._slots[register.name] = len(self._bits)
            self._bits.append(self.program.registers[register.name])
        return found

    def name(self, slot: int) -> str:
        """The name of the register in a slot."""
        return next(name for name, number in self._slots.items() if number == slot)

    def bits(self, register: Register) -> int:
        """The register's width."""
        return self.program.registers[register.name]

    def initial(self) -> list[Array]:
        """A register file in which nothing has been written."""
        return [GARBAGE[bits] for bits in self._bits]

    # Reading ----------------------------------------------------------------------------------------------

    def read(self, operand: Operand, kind: str, instruction: Instruction) -> Reader:
        """How to read `operand` as PTX type `kind`: an array of `numpy_type(kind)`.

        A register may be wider than the type, as in stores and conversions: its low bits are taken.
        """
        want = numpy_type(kind)
        if isinstance(operand, Immediate):
            return constant_reader(self._constant(operand, kind, instruction))
        if isinstance(operand, Symbol):
            if operand.name in self.program.shared and kind != "pred":
                address = np.array([self.program.shared[operand.name]], storage(BITS[kind]))
                return constant_reader(address)
            raise UnsupportedInstructionError(instruction.text, f"symbol {operand.name}")
        if isinstance(operand, Special):
            special = special_register(operand.name, instruction)
            return lambda machine: special(machine).astype(want)
        if not isinstance(operand, Register):
            raise UnsupportedInstructionError(instruction.text)
        slot, bits = self.slot(operand), self.bits(operand)
        if kind == "pred":
            if bits != 1:
                raise UnsupportedInstructionError(instruction.text, f"{operand.name} is no predicate")
            if operand.negated:
                return lambda machine: ~machine.regs[slot]
            return lambda machine: machine.regs[slot]
        if operand.negated or bits < BITS[kind] or bits == 1:
            raise UnsupportedInstructionError(instruction.text, f"{operand.name} has {bits} bits")
        if bits > BITS[kind]:
            narrow = storage(BITS[kind])
            return lambda machine: machine.regs[slot].astype(narrow).view(want)
        if want == storage(bits):
            return lambda machine: machine.regs[slot]
        return lambda machine: machine.regs[slot].view(want)

    def _constant(self, operand: Immediate, kind: str, instruction: Instruction) -> Array:
        bits = BITS[kind]
        if kind == "pred":
            return np.array([bool(operand.value)])
        if operand.float_bits and operand.float_bits != bits:
            if operand.float_bits == 64 and kind == "f32":
                with np.errstate(all="ignore"):
                    return np.array([operand.value], np.uint64).view(np.float64).astype(np.float32)
            raise UnsupportedInstructionError(instruction.text, "literal of another width")
        if is_float(kind) and not operand.float_bits and operand.value:
            raise UnsupportedInstructionError(instruction.text, "integer literal for a float")
        return np.array([operand.value & ((1 << bits) - 1)], storage(bits)).view(numpy_type(kind))

    # Writing ----------------------------------------------------------------------------------------------

    def write(self, operand: Operand, kind: str, instruction: Instruction) -> Writer:
        """How to write a result of PTX type `kind`; a wider register gets it sign- or zero-extended."""
        if isinstance(operand, Sink):
            return lambda _machine, _value: None
        if not isinstance(operand, Register):
            raise UnsupportedInstructionError(instruction.text)
        slot, bits = self.slot(operand), self.bits(operand)
        own = storage(bits)
        if (kind == "pred") != (bits == 1) or bits < BITS[kind]:
            raise UnsupportedInstructionError(instruction.text, f"{operand.name} has {bits} bits")
        extend: Any = None
        if bits > BITS[kind]:
            extend = {32: np.int32, 64: np.int64, 16: np.int16}[bits] if is_signed(kind) else own
            if is_float(kind) or kind[0] == "b":
                extend = own

        def put(machine: Machine, value: Array) -> None:
            if extend is not None:
                value = value.astype(extend)
            value = value.view(own)
            mask = machine.mask
            machine.regs[slot] = value if mask is None else np.where(mask, value, machine.regs[slot])

        return put

    def sources(self, instruction: Instruction) -> list[int]:
        """Slots of the registers that the instruction reads, its guard and addresses included."""
        return sorted({self.slot(register) for register in reads(instruction)})


def special_register(name: str, instruction: Instruction) -> Reader:
    """How to read a special register: %tid, %ntid, %ctaid, %nctaid (.x .y .z), %laneid, %warpid, %nwarpid.

    Blocks are one-dimensional, as Triton's are.
    """
    base, _, axis = name.partition(".")
    if base == "%laneid":
        return lambda machine: machine.lane
    if base == "%tid":
        return (lambda machine: machine.thread) if axis == "x" else (constant_reader(np.zeros(1, np.uint32)))
    if base == "%ntid":
        if axis == "x":
            return lambda machine: np.array([machine.warps_per_block * 32])
        return constant_reader(np.ones(1, np.uint32))
    if base == "%warpid":
        return lambda machine: machine.thread >> 5
    if base == "%nwarpid":
        return lambda machine: np.array([machine.warps_per_block])
    if base in ("%ctaid", "%nctaid") and axis in ("x", "y", "z"):
        index = "xyz".index(axis)
        if base == "%nctaid":
            return lambda machine: np.array([machine.grid[index]])

        def ctaid(machine: Machine) -> Array:
            x, y, _ = machine.grid
            return (machine.block, machine.block // x, machine.block // (x * y))[index] % machine.grid[index]

        return ctaid
    raise UnsupportedInstructionError(instruction.text, f"special register {name}")
