"""Machine code in which the lanes of a warp work together: SHFL, VOTE, WARPSYNC, HMMA."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.fragments import LANES, Fragments, Rows, fragments
from layoutgen.cpu.machine import Machine, Step
from layoutgen.cpu.sass_code import Instruction, Operand
from layoutgen.cpu.sass_operands import Operands, is_zero
from layoutgen.cpu.warp_ops import ballot, check_members, multiply, shuffle

Array = NDArray[Any]

_MODES = {"IDX": "idx", "UP": "up", "DOWN": "down", "BFLY": "bfly"}


def decode_shfl(instruction: Instruction, operands: Operands) -> Step:
    """SHFL p, d, a, lane, clamp: as PTX's shfl, which says so."""
    if len(instruction.modifiers) != 1 or instruction.modifiers[0] not in _MODES or len(instruction.operands) != 5:
        raise instruction.refuse()
    mode = _MODES[instruction.modifiers[0]]
    inside_operand, target, *sources = instruction.operands
    value, distance, clamp = (operands.integer(o, instruction) for o in sources)
    put, put_inside = operands.write(target, instruction), operands.write_predicate(inside_operand, instruction)

    def step(machine: Machine) -> None:
        got, inside = shuffle(machine, mode, value(machine), distance(machine), clamp(machine), f"SHFL.{mode.upper()}")
        put(machine, got)
        put_inside(machine, inside)

    return step


def decode_vote(instruction: Instruction, operands: Operands) -> Step:
    """VOTE.{ANY,ALL,EQ} [d,] p, q: p says whether any lane, all lanes, or equal lanes vote q; d is the ballot."""
    if instruction.modifiers not in (("ANY",), ("ALL",), ("EQ",)):
        raise instruction.refuse()
    mode = instruction.modifiers[0]
    rest = list(instruction.operands)
    put_word = operands.write(rest.pop(0), instruction) if rest and rest[0].kind == "R" else None
    if len(rest) != 2:
        raise instruction.refuse()
    put, vote = operands.write_predicate(rest[0], instruction), operands.predicate(rest[1], instruction)

    def step(machine: Machine) -> None:
        yes, everyone = ballot(machine, vote(machine)), ballot(machine, np.ones(1, np.bool_))
        if put_word is not None:
            put_word(machine, yes)
        alike = yes == everyone
        put(machine, {"ANY": yes != 0, "ALL": alike, "EQ": alike | (yes == 0)}[mode])

    return step


def decode_warpsync(instruction: Instruction, operands: Operands) -> Step:
    """WARPSYNC members."""
    if instruction.modifiers or len(instruction.operands) != 1:
        raise instruction.refuse()
    members = operands.integer(instruction.operands[0], instruction)

    def step(machine: Machine) -> None:
        check_members(machine, "WARPSYNC", members(machine))
        machine.warp_barrier()

    return step


# HMMA -----------------------------------------------------------------------------------------------------

STEPS = {"F32": 4, "F16": 2}


@cache
def step_fragments(a_layout: str, b_layout: str, accumulator: str, step: int) -> Fragments:
    """The part of m8n8k4 that HMMA.884...STEPi computes: of every lane the accumulator's registers 2i and 2i + 1.

    With an f32 accumulator these are 4 x 4 elements of each quadpair's 8 x 8 (STEP0 rows 0, 1, 4, 5 and columns 0 to
    3), with an f16 accumulator all rows of four columns. Source: PTX executed beside the SASS that ptxas makes of it.
    """
    whole = fragments("m8n8k4", a_layout, b_layout, accumulator)
    held = 2 if accumulator == "f32" else 4
    first = step * held
    mine = (whole.c[0] // LANES) // held == step
    rows, columns = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
    c: Rows = whole.c[:, rows][:, :, columns] - first * LANES
    return Fragments(
        "m8n8k4", rows.size, columns.size, 4, 4,
        np.ascontiguousarray(whole.a[:, rows]), np.ascontiguousarray(whole.b[:, :, columns]), np.ascontiguousarray(c),
        4, 4, held,
    )  # fmt: skip


def _layout(operand: Operand, instruction: Instruction) -> str:
    if operand.modifiers not in (("ROW",), ("COL",)) or operand.negated or operand.kind != "R" or is_zero(operand):
        raise instruction.refuse("operand of a matrix product")
    return operand.modifiers[0].lower()


def decode_hmma(instruction: Instruction, operands: Operands) -> Step:
    """HMMA.884.{F32.F32,F16.F16}.STEPi d, a, b, c: registers in pairs."""
    modifiers = instruction.modifiers
    if len(modifiers) != 4 or modifiers[0] != "884" or modifiers[1] != modifiers[2] or instruction.form != "RRRR":
        raise instruction.refuse()
    kind, number = modifiers[1], modifiers[3].removeprefix("STEP")
    if kind not in STEPS or not number.isdigit() or int(number) >= STEPS[kind]:
        raise instruction.refuse()
    d_operand, a_operand, b_operand, c_operand = instruction.operands
    accumulator = kind.lower()
    table = step_fragments(_layout(a_operand, instruction), _layout(b_operand, instruction), accumulator, int(number))
    if not c_operand.plain or not d_operand.plain:
        raise instruction.refuse()
    a, b = ([operands.raw(Operand("R", o.value), instruction, n) for n in range(2)] for o in (a_operand, b_operand))
    c = [operands.raw(c_operand, instruction, n) for n in range(2)]
    puts = operands.write_all(d_operand, instruction, 2)

    def step(machine: Machine) -> None:
        got = multiply(
            machine,
            table,
            [r(machine) for r in a],
            [r(machine) for r in b],
            [r(machine) for r in c],
            accumulator,
            "f16",
        )
        for put, register in zip(puts, got, strict=True):
            put(machine, register)

    return step
