"""Machine code that moves words: MOV, S2R, constants, selections, predicates as bits, uniform registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import watch
from layoutgen.cpu.machine import LANES, Machine, Step
from layoutgen.cpu.sass_code import CONSTANT, PREDICATE, RZ, Instruction, Operand
from layoutgen.cpu.sass_operands import Operands, constant, is_zero

Array = NDArray[Any]


def decode_mov(instruction: Instruction, operands: Operands) -> Step:
    """MOV, UMOV: a word. A write mask other than "all bytes" is not known."""
    if instruction.modifiers or len(instruction.operands) not in (2, 3):
        raise instruction.refuse()
    if len(instruction.operands) == 3 and instruction.operands[2].value != 0xF:
        raise instruction.refuse("a write mask")
    read, put = (
        operands.integer(instruction.operands[1], instruction),
        operands.write(instruction.operands[0], instruction),
    )
    return lambda machine: put(machine, read(machine))


def decode_sel(instruction: Instruction, operands: Operands) -> Step:
    """SEL, USEL d, a, b, p: a where p holds, else b."""
    if instruction.modifiers or len(instruction.operands) != 4:
        raise instruction.refuse()
    a, b = (operands.integer(o, instruction) for o in instruction.operands[1:3])
    put, p = (
        operands.write(instruction.operands[0], instruction),
        operands.predicate(instruction.operands[3], instruction),
    )
    return lambda machine: put(machine, np.where(p(machine), a(machine), b(machine)))


def special_register(name: str, instruction: Instruction) -> Any:
    """How to read a special register. Blocks are one-dimensional, as Triton's are."""
    if name == "SRZ":
        return constant(np.zeros(1, np.uint32))
    if name == "SR_LANEID":
        return lambda machine: machine.lane
    if name in ("SR_TID.Y", "SR_TID.Z"):
        return constant(np.zeros(1, np.uint32))
    if name == "SR_TID.X":
        return lambda machine: machine.thread.astype(np.uint32)
    if name in ("SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z"):
        axis = "XYZ".index(name[-1])

        def ctaid(machine: Machine) -> Array:
            x, y, _ = machine.grid
            before = (1, x, x * y)[axis]
            found: Array = (machine.block // before % machine.grid[axis]).astype(np.uint32)
            return found[:1] if (found == found[0]).all() else found

        return ctaid
    raise instruction.refuse(f"special register {name}")


def decode_s2r(instruction: Instruction, operands: Operands) -> Step:
    """S2R, S2UR, CS2R[.32]: a special register; CS2R writes a pair."""
    wide = instruction.opcode == "CS2R" and instruction.modifiers == ()
    if instruction.modifiers not in ((), ("32",)) or instruction.form not in ("RN", "UN"):
        raise instruction.refuse()
    name = instruction.operands[1].name
    if wide and name != "SRZ":
        raise instruction.refuse("a 64-bit special register")
    read = special_register(name, instruction)
    puts = operands.write_all(instruction.operands[0], instruction, 2 if wide else 1)

    def step(machine: Machine) -> None:
        value = read(machine)
        for put in puts:
            put(machine, value)

    return step


def decode_r2ur(instruction: Instruction, operands: Operands) -> Step:
    """R2UR: a register whose lanes agree, to a uniform register. Lanes that differ are a finding."""
    if instruction.modifiers or instruction.form != "UR":
        raise instruction.refuse()
    read, put = (
        operands.integer(instruction.operands[1], instruction),
        operands.write(instruction.operands[0], instruction),
    )

    def step(machine: Machine) -> None:
        value = read(machine)
        if value.size > 1:
            rows = value.reshape(LANES, machine.warps)
            awake = machine.active().reshape(LANES, machine.warps)
            first = np.take_along_axis(rows, awake.argmax(axis=0)[None], 0)
            differs = awake & (rows != first)
            if differs.any():
                machine.report(watch.DIVERGENCE, differs.ravel(), lambda: "a uniform register from lanes that differ")
        put(machine, value)

    return step


def decode_ldc(instruction: Instruction, operands: Operands) -> Step:
    """LDC, ULDC[.64]: words of a constant bank, the place of which may lie in a register."""
    count = {(): 1, ("64",): 2}.get(instruction.modifiers)
    if count is None or len(instruction.operands) != 2 or instruction.operands[1].kind != CONSTANT:
        raise instruction.refuse()
    source = instruction.operands[1]
    if not source.plain:
        raise instruction.refuse()
    puts = operands.write_all(instruction.operands[0], instruction, count)
    if source.base == RZ:
        values = [operands.word(source.bank, source.value + 4 * n, instruction) for n in range(count)]

        def fixed(machine: Machine) -> None:
            for put, value in zip(puts, values, strict=True):
                put(machine, value)

        return fixed
    index = operands.integer(Operand("R", source.base), instruction)
    data = operands.banks.get(source.bank, b"")
    words = np.frombuffer(data[: len(data) // 4 * 4], np.uint32)
    known = np.frombuffer(operands.known, np.uint8)

    def indexed(machine: Machine) -> None:
        place = (index(machine).view(np.int32).astype(np.int64) + source.value) & 0xFFFFFFFF
        for n, put in enumerate(puts):
            at = place + 4 * n
            bad = (at % 4 != 0) | (at + 4 > 4 * words.size)
            if source.bank == 0:
                bad |= known[np.where(bad, 0, at)] == 0
            if np.broadcast_to(bad, (machine.size,))[machine.active()].any():
                raise instruction.refuse(f"it reads a word of constant bank {source.bank} of which nothing is known")
            put(machine, words[np.where(bad, 0, at // 4)])

    return indexed


def _bit_mask(instruction: Instruction, operand: Operand) -> int:
    if operand.kind != "I" or operand.value & ~0x7F:
        raise instruction.refuse("mask of predicates")
    return operand.value


def decode_p2r(instruction: Instruction, operands: Operands) -> Step:
    """P2R d, PR, a, mask: the predicates as bits where the mask has ones, the bits of a elsewhere."""
    if instruction.modifiers or instruction.form != "RNRI" or instruction.operands[1].name != "PR":
        raise instruction.refuse()
    mask = _bit_mask(instruction, instruction.operands[3])
    a, put = (
        operands.integer(instruction.operands[2], instruction),
        operands.write(instruction.operands[0], instruction),
    )
    reads = [(n, operands.predicate(Operand(PREDICATE, n), instruction)) for n in range(7) if mask >> n & 1]

    def step(machine: Machine) -> None:
        word = a(machine) & np.uint32(~mask & 0xFFFFFFFF)
        for n, read in reads:
            word = word | read(machine).astype(np.uint32) << np.uint32(n)
        put(machine, word)

    return step


def decode_r2p(instruction: Instruction, operands: Operands) -> Step:
    """R2P PR, a, mask: bits of a to the predicates where the mask has ones."""
    if instruction.modifiers or instruction.form != "NRI" or instruction.operands[0].name != "PR":
        raise instruction.refuse()
    mask = _bit_mask(instruction, instruction.operands[2])
    a = operands.integer(instruction.operands[1], instruction)
    puts = [(n, operands.write_predicate(Operand(PREDICATE, n), instruction)) for n in range(7) if mask >> n & 1]

    def step(machine: Machine) -> None:
        word = a(machine)
        for n, put in puts:
            put(machine, (word >> np.uint32(n) & np.uint32(1)) != 0)

    return step


def decode_bmov(instruction: Instruction, operands: Operands) -> Step:  # noqa: ARG001
    """BMOV.32.CLEAR RZ, Bn: clears a convergence barrier that is about to be set; a copy of one is not known."""
    if instruction.modifiers != ("32", "CLEAR") or instruction.form != "RN" or not is_zero(instruction.operands[0]):
        raise instruction.refuse()
    return lambda _machine: None


def decode_nothing(instruction: Instruction, operands: Operands) -> Step:  # noqa: ARG001
    """NOP and YIELD."""
    if instruction.operands or instruction.modifiers:
        raise instruction.refuse()
    return lambda _machine: None
