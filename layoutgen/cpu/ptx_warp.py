"""PTX instructions that look beyond one thread: branches, barriers, shuffles, votes, mma.sync."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.fragments import FragmentError, fragments
from layoutgen.cpu.machine import ExecutionError, Machine, Step
from layoutgen.cpu.ptx_operands import Reader, Slots
from layoutgen.cpu.ptx_program import (
    Immediate,
    Instruction,
    Operand,
    Pair,
    Symbol,
    UnsupportedInstructionError,
    Vector,
)  # fmt: skip
from layoutgen.cpu.warp_ops import SHUFFLES, ballot, check_members, multiply, shuffle

Array = NDArray[Any]


def _guard(instruction: Instruction, slots: Slots) -> Reader | None:
    return None if instruction.guard is None else slots.read(instruction.guard, "pred", instruction)


# Control --------------------------------------------------------------------------------------------------


def decode_branch(instruction: Instruction, slots: Slots) -> Step:
    """bra and bra.uni, guarded or not."""
    if instruction.op[1:] not in ((), ("uni",)) or not isinstance(instruction.operands[0], Symbol):
        raise UnsupportedInstructionError(instruction.text)
    target = slots.program.labels[instruction.operands[0].name]
    guard = _guard(instruction, slots)
    if guard is None:
        return lambda machine: machine.branch(None, target)
    taken = guard
    return lambda machine: machine.branch(taken(machine), target)


def decode_return(instruction: Instruction, slots: Slots) -> Step:
    """ret and exit, guarded or not."""
    if instruction.op[1:] not in ((), ("uni",)):
        raise UnsupportedInstructionError(instruction.text)
    guard = _guard(instruction, slots)
    if guard is None:
        return lambda machine: machine.exit(None)
    leaving = guard
    return lambda machine: machine.exit(leaving(machine))


def decode_trap(instruction: Instruction, slots: Slots) -> Step:  # noqa: ARG001
    """trap: ends the execution with an ExecutionError."""

    def step(_machine: Machine) -> None:
        raise ExecutionError(f"{instruction.source}: the kernel executed `{instruction.text}`")

    return step


def decode_fence(instruction: Instruction, slots: Slots) -> Step:  # noqa: ARG001
    """membar and fence order nothing here: memory is sequentially consistent, and the race rules ask for
    barriers."""
    return lambda _machine: None


def decode_barrier(instruction: Instruction, slots: Slots) -> Step:
    """bar.sync, barrier.sync of the whole block; bar.warp.sync."""
    if instruction.op[1:] == ("warp", "sync"):
        member = slots.read(instruction.operands[0], "b32", instruction)

        def warp_step(machine: Machine) -> None:
            check_members(machine, "bar.warp.sync", member(machine))
            machine.warp_barrier()

        return warp_step
    if instruction.op[1:] not in (
        ("sync",),
        ("cta", "sync"),
        ("sync", "aligned"),
        ("cta", "sync", "aligned"),
    ):
        raise UnsupportedInstructionError(instruction.text)
    if len(instruction.operands) > 1:
        threads = instruction.operands[1]
        if not isinstance(threads, Immediate) or threads.value != slots.program.threads:
            raise UnsupportedInstructionError(instruction.text, "a barrier of a part of the block")
    return lambda machine: machine.block_barrier()


# Shuffles and votes ---------------------------------------------------------------------------------------


def decode_shuffle(instruction: Instruction, slots: Slots) -> Step:
    """shfl.sync.{up,down,bfly,idx}.b32 with an optional predicate (PTX ISA, "shfl.sync")."""
    if len(instruction.op) != 4 or instruction.op[1] != "sync" or instruction.op[3] != "b32":
        raise UnsupportedInstructionError(instruction.text)
    mode = instruction.op[2]
    if mode not in SHUFFLES or len(instruction.operands) != 5:
        raise UnsupportedInstructionError(instruction.text)
    target, *sources = instruction.operands
    value, distance, clamp, members = (slots.read(s, "b32", instruction) for s in sources)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put = slots.write(first, "b32", instruction)
    put_inside = None if second is None else slots.write(second, "pred", instruction)
    what = f"shfl.sync.{mode}"

    def step(machine: Machine) -> None:
        check_members(machine, what, members(machine))
        got, inside = shuffle(machine, mode, value(machine), distance(machine), clamp(machine), what)
        put(machine, got)
        if put_inside is not None:
            put_inside(machine, inside)

    return step


def decode_vote(instruction: Instruction, slots: Slots) -> Step:
    """vote.sync.{all,any,uni}.pred, vote.sync.ballot.b32 and activemask.b32."""
    if instruction.op == ("activemask", "b32"):
        put = slots.write(instruction.operands[0], "b32", instruction)
        return lambda machine: put(machine, ballot(machine, np.ones(1, np.bool_)))
    if instruction.op[:2] != ("vote", "sync") or len(instruction.operands) != 3:
        raise UnsupportedInstructionError(instruction.text)
    mode, kind = instruction.op[2:]
    if kind != ("b32" if mode == "ballot" else "pred") or mode not in ("all", "any", "uni", "ballot"):
        raise UnsupportedInstructionError(instruction.text)
    put = slots.write(instruction.operands[0], kind, instruction)
    predicate = slots.read(instruction.operands[1], "pred", instruction)
    members = slots.read(instruction.operands[2], "b32", instruction)

    def step(machine: Machine) -> None:
        check_members(machine, f"vote.sync.{mode}", members(machine))
        yes = ballot(machine, predicate(machine))
        if mode == "ballot":
            put(machine, yes)
            return
        everyone = ballot(machine, np.ones(1, np.bool_))
        result: Array = yes != 0 if mode == "any" else yes == everyone
        if mode == "uni":
            result = result | (yes == 0)
        put(machine, result)

    return step


# mma.sync -------------------------------------------------------------------------------------------------


def decode_mma(instruction: Instruction, slots: Slots) -> Step:
    """mma.sync.aligned of m8n8k4 (four storage orders; f32 or f16 accumulators), m16n8k8 and m16n8k16."""
    op = instruction.op
    if len(op) != 10:
        raise UnsupportedInstructionError(instruction.text)
    if op[1:3] != ("sync", "aligned") or len(instruction.operands) != 4:
        raise UnsupportedInstructionError(instruction.text)
    shape, a_layout, b_layout, d_type, a_type, b_type, c_type = op[3:]
    if d_type != c_type or a_type != b_type or a_type not in ("f16", "bf16"):
        raise UnsupportedInstructionError(instruction.text)
    if a_type == "bf16" and (shape == "m8n8k4" or d_type != "f32"):
        raise UnsupportedInstructionError(instruction.text)
    try:
        table = fragments(shape, a_layout, b_layout, d_type)
    except FragmentError as error:
        raise UnsupportedInstructionError(instruction.text, str(error)) from None
    packed = d_type == "f16"
    sizes = (table.c_elements, table.a_elements, table.b_elements, table.c_elements)
    halved = (packed, True, True, packed)
    vectors = []
    for operand, size, half in zip(instruction.operands, sizes, halved, strict=True):
        if not isinstance(operand, Vector) or len(operand.items) != (size // 2 if half else size):
            raise UnsupportedInstructionError(instruction.text, "wrong number of registers")
        vectors.append(operand.items)
    read = [_read_all(slots, items, instruction) for items in vectors[1:]]
    put = [slots.write(item, "b32", instruction) for item in vectors[0]]

    def step(machine: Machine) -> None:
        a, b, c = ([one(machine) for one in group] for group in read)
        for write, register in zip(put, multiply(machine, table, a, b, c, d_type, a_type), strict=True):
            write(machine, register)

    return step


def _read_all(slots: Slots, items: tuple[Operand, ...], instruction: Instruction) -> list[Reader]:
    return [slots.read(item, "b32", instruction) for item in items]
