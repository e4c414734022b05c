"""The register file of machine code, and its operands read and written as NumPy arrays.

Every register is an array of uint32 with one entry a thread, or a single one where all threads agree; every predicate
one of bool. Arrays are never changed in place, so that a move is an alias. Uniform registers hold one value a warp
but are kept alike: what makes them uniform is checked where they are written from others (R2UR).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.machine import LANES, Machine
from layoutgen.cpu.sass_code import (
    CONSTANT,
    IMMEDIATE,
    PREDICATE,
    PT,
    REGISTER,
    RZ,
    UNIFORM,
    UNIFORM_PREDICATE,
    URZ,
    Instruction,
    Operand,
)

Array = NDArray[Any]
Reader = Callable[[Machine], Array]
Writer = Callable[[Machine, Array], None]
Pair = tuple[Reader, Reader]

ZERO: Array = np.zeros(1, np.uint32)
TRUE: Array = np.ones(1, np.bool_)
SIGN = np.uint32(0x80000000)

_PREDICATES = 256
_UNIFORM = 264
_UNIFORM_PREDICATES = 328
_SLOTS = 336

FILLS = ((0x7FFF7FFF, 0, False), (0x3C013801, 0x00100010, True))
"""What undefined registers hold: first word, what every further register adds, predicates. The first is NaN whether
read as fp16 or fp32; the second are ordinary numbers, all different."""


def slot(operand: Operand, plus: int = 0) -> int:
    """Return where a register or predicate lies in the machine's `regs`."""
    start = {REGISTER: 0, PREDICATE: _PREDICATES, UNIFORM: _UNIFORM, UNIFORM_PREDICATE: _UNIFORM_PREDICATES}
    return start[operand.kind] + operand.value + plus


def undefined(fill: int) -> list[Array]:
    """A register file in which nothing has been written; RZ, URZ, PT and UPT are what they always are."""
    predicate = FILLS[fill][2]
    regs = [undefined_word(fill, n) for n in range(_SLOTS)]
    for first in (_PREDICATES, _UNIFORM_PREDICATES):
        for n in range(PT):
            regs[first + n] = np.array([predicate])
        regs[first + PT] = TRUE
    regs[RZ] = regs[_UNIFORM + URZ] = ZERO
    return regs


def undefined_word(fill: int, number: int) -> Array:
    """What a register or a word of local memory holds before it is written; `number` tells words apart."""
    word, step, _ = FILLS[fill]
    return np.array([(word + step * number) & 0xFFFFFFFF], np.uint32)


def undefined_half(fill: int) -> np.uint32:
    """The high half of a register of which an instruction writes the low half alone."""
    return np.uint32(FILLS[fill][0] & 0xFFFF0000)


def is_zero(operand: Operand) -> bool:
    """Whether the operand is RZ or URZ."""
    return operand.kind in (REGISTER, UNIFORM) and operand.value == (RZ if operand.kind == REGISTER else URZ)


def constant(value: Array) -> Reader:
    """A reader of the same array always."""
    return lambda _machine: value


class Operands:
    """How the operands of one launch's code are read and written. `bank0` are the bytes of constant bank 0, of which
    `known` says which mean something."""

    def __init__(self, banks: dict[int, bytes], known: bytes, fill: int) -> None:
        self.banks, self.known, self.fill = banks, known, fill

    # Reading ----------------------------------------------------------------------------------------------

    def raw(self, operand: Operand, instruction: Instruction, plus: int = 0) -> Reader:
        """The word of an operand as it stands: register, constant or immediate; `plus` counts further words.

        Words of RZ and of an immediate beyond the first are zero and the sign.
        """
        if operand.kind in (REGISTER, UNIFORM):
            if is_zero(operand):
                return constant(ZERO)
            if operand.value + plus >= (RZ if operand.kind == REGISTER else URZ):
                raise instruction.refuse("a register pair that runs over the file's end")
            index = slot(operand, plus)
            return lambda machine: machine.regs[index]
        if operand.kind == IMMEDIATE:
            value = operand.value if not plus else (0xFFFFFFFF if operand.value >> 31 else 0)
            return constant(np.array([value], np.uint32))
        if operand.kind == CONSTANT and operand.base == RZ:
            return constant(self.word(operand.bank, operand.value + 4 * plus, instruction))
        raise instruction.refuse("operand of another kind")

    def word(self, bank: int, offset: int, instruction: Instruction) -> Array:
        """A word of a constant bank. Refuses the words of bank 0 whose meaning is not known."""
        data = self.banks.get(bank)
        if data is None or offset % 4 or offset + 4 > len(data) or (bank == 0 and not self.known[offset]):
            raise instruction.refuse(f"nothing is known of c[{bank:#x}][{offset:#x}]")
        return np.frombuffer(data, np.uint32, 1, offset)

    def integer(self, operand: Operand, instruction: Instruction) -> Reader:
        """A word as uint32, negated (modulo 2^32) or inverted as the operand says."""
        read = self.raw(operand, instruction)
        if operand.absolute or operand.modifiers:
            raise instruction.refuse("integer operand with a modifier")
        if operand.inverted:
            return lambda machine: ~read(machine)
        if operand.negated:
            return lambda machine: np.negative(read(machine))
        return read

    def float32(self, operand: Operand, instruction: Instruction) -> Reader:
        """A word as float32, with its absolute value and sign taken as the operand says."""
        if operand.inverted or operand.modifiers:
            raise instruction.refuse("float operand with a modifier")
        bits = self.signed_bits(operand, instruction, SIGN)
        return lambda machine: bits(machine).view(np.float32)

    def signed_bits(self, operand: Operand, instruction: Instruction, sign: np.uint32) -> Reader:
        """A word whose sign bits, given by `sign`, are cleared for |x| and flipped for -x."""
        read = self.raw(operand, instruction)
        if operand.absolute and operand.negated:
            return lambda machine: read(machine) | sign
        if operand.absolute:
            return lambda machine: read(machine) & ~sign
        if operand.negated:
            return lambda machine: read(machine) ^ sign
        return read

    def wide(self, operand: Operand, instruction: Instruction) -> Reader:
        """Two consecutive words as uint64, negated modulo 2^64 when the operand says so."""
        if operand.absolute or operand.inverted or operand.modifiers:
            raise instruction.refuse("64-bit operand with a modifier")
        if is_zero(operand):
            zero = np.zeros(1, np.uint64)
            return lambda _machine: zero
        low, high = self.raw(operand, instruction), self.raw(operand, instruction, 1)
        negated = operand.negated

        def read(machine: Machine) -> Array:
            value: Array = (high(machine).astype(np.uint64) << np.uint64(32)) | low(machine)
            return np.negative(value) if negated else value

        return read

    def predicate(self, operand: Operand, instruction: Instruction) -> Reader:
        """A predicate, negated when the operand says so."""
        if operand.kind not in (PREDICATE, UNIFORM_PREDICATE):
            raise instruction.refuse("a predicate is wanted")
        if operand.value == PT:
            return constant(TRUE if not operand.negated else ~TRUE)
        index = slot(operand)
        if operand.negated:
            return lambda machine: ~machine.regs[index]
        return lambda machine: machine.regs[index]

    # Writing ----------------------------------------------------------------------------------------------

    def write(self, operand: Operand, instruction: Instruction, plus: int = 0) -> Writer:
        """How to write a word to a register; `plus` counts registers behind the first."""
        if operand.kind not in (REGISTER, UNIFORM) or not operand.plain:
            raise instruction.refuse("the result wants a register")
        if is_zero(operand):
            return lambda _machine, _value: None
        if operand.value + plus >= (RZ if operand.kind == REGISTER else URZ):
            raise instruction.refuse("a result that runs over the register file's end")
        index = slot(operand, plus)
        return _whole_warps(index) if operand.kind == UNIFORM else _masked(index)

    def write_predicate(self, operand: Operand, instruction: Instruction) -> Writer:
        """How to write a predicate."""
        if operand.kind not in (PREDICATE, UNIFORM_PREDICATE) or operand.negated:
            raise instruction.refuse("the result wants a predicate")
        if operand.value == PT:
            return lambda _machine, _value: None
        index = slot(operand)
        return _whole_warps(index) if operand.kind == UNIFORM_PREDICATE else _masked(index)

    def write_wide(self, operand: Operand, instruction: Instruction) -> Writer:
        """How to write a uint64 to two consecutive registers."""
        low, high = self.write(operand, instruction), self.write(operand, instruction, 1)

        def put(machine: Machine, value: Array) -> None:
            low(machine, value.astype(np.uint32))
            high(machine, (value >> np.uint64(32)).astype(np.uint32))

        return put

    def write_all(self, operand: Operand, instruction: Instruction, count: int) -> Sequence[Writer]:
        """How to write `count` consecutive registers."""
        return [self.write(operand, instruction, n) for n in range(count)]


def _masked(index: int) -> Writer:
    def put(machine: Machine, value: Array) -> None:
        mask = machine.mask
        machine.regs[index] = value if mask is None else np.where(mask, value, machine.regs[index])

    return put


def _whole_warps(index: int) -> Writer:
    """A uniform register belongs to its warp, whichever lanes are awake."""

    def put(machine: Machine, value: Array) -> None:
        if machine.mask is None:
            machine.regs[index] = value
            return
        awake = machine.mask.reshape(LANES, machine.warps)
        first = awake.argmax(axis=0) * machine.warps + np.arange(machine.warps)
        chosen = np.tile(np.broadcast_to(value, (machine.size,))[first], LANES)
        machine.regs[index] = np.where(np.tile(awake.any(axis=0), LANES), chosen, machine.regs[index])

    return put
