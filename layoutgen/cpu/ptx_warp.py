"""PTX instructions that look beyond one thread: branches, barriers, shuffles, votes, mma.sync."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import tensor_core, watch
from layoutgen.cpu.fragments import FragmentError, Fragments, fragments
from layoutgen.cpu.machine import LANES, ExecutionError, Machine, Step
from layoutgen.cpu.ptx_operands import Reader, Slots
from layoutgen.cpu.ptx_parser import (
    Immediate,
    Instruction,
    Operand,
    Pair,
    Symbol,
    UnsupportedInstructionError,
    Vector,
)  # fmt: skip
from layoutgen.cpu.tensor_core import ArithmeticUnavailableError
from layoutgen.cpu.tensor_core import Operand as CoreOperand

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
            _check_members(machine, "bar.warp.sync", member(machine))
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


def _check_members(machine: Machine, what: str, members: Array) -> None:
    """Report lanes that execute a warp instruction without being named by its member mask, or named and
    missing."""
    if members.size == 1 and int(members[0]) == 0xFFFFFFFF:
        machine.converged(what, None)
        return
    bits = np.broadcast_to(members, (machine.size,)) >> machine.lane & np.uint32(1)
    named: Array = bits != 0
    strangers = ~named if machine.mask is None else ~named & machine.mask
    if strangers.any():
        machine.report(watch.DIVERGENCE, strangers, lambda: f"{what} by a lane outside its member mask", "members")
    machine.converged(what, named.reshape(LANES, machine.warps))


# Shuffles and votes ---------------------------------------------------------------------------------------


def decode_shuffle(instruction: Instruction, slots: Slots) -> Step:
    """shfl.sync.{up,down,bfly,idx}.b32 with an optional predicate (PTX ISA, "shfl.sync")."""
    if len(instruction.op) != 4 or instruction.op[1] != "sync" or instruction.op[3] != "b32":
        raise UnsupportedInstructionError(instruction.text)
    mode = instruction.op[2]
    if mode not in ("up", "down", "bfly", "idx") or len(instruction.operands) != 5:
        raise UnsupportedInstructionError(instruction.text)
    target, *sources = instruction.operands
    value, distance, clamp, members = (slots.read(s, "b32", instruction) for s in sources)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put = slots.write(first, "b32", instruction)
    put_inside = None if second is None else slots.write(second, "pred", instruction)
    what = f"shfl.sync.{mode}"

    def step(machine: Machine) -> None:
        _check_members(machine, what, members(machine))
        lane = machine.lane.astype(np.int64)
        b = distance(machine).astype(np.int64) & 31
        c = clamp(machine).astype(np.int64)
        segment = c >> 8 & 31
        maximum = (lane & segment) | (c & 31 & ~segment)
        minimum = lane & segment
        if mode == "up":
            source = lane - b
            inside = source >= maximum
        elif mode == "down":
            source = lane + b
            inside = source <= maximum
        elif mode == "bfly":
            source = lane ^ b
            inside = source <= maximum
        else:
            source = minimum | (b & ~segment)
            inside = source <= maximum
        source = np.where(inside, source, lane)
        index = source * machine.warps + np.arange(machine.size) % machine.warps
        if machine.mask is not None:
            asleep = machine.mask & ~machine.mask[index]
            if asleep.any():
                machine.report(watch.DIVERGENCE, asleep, lambda: f"{what} from a lane that takes no part", "asleep")
        held = value(machine)
        put(machine, held if held.size == 1 else held[index])
        if put_inside is not None:
            put_inside(machine, inside)

    return step


def decode_vote(instruction: Instruction, slots: Slots) -> Step:
    """vote.sync.{all,any,uni}.pred, vote.sync.ballot.b32 and activemask.b32."""
    if instruction.op == ("activemask", "b32"):
        put = slots.write(instruction.operands[0], "b32", instruction)
        return lambda machine: put(machine, _ballot(machine, np.ones(1, np.bool_)))
    if instruction.op[:2] != ("vote", "sync") or len(instruction.operands) != 3:
        raise UnsupportedInstructionError(instruction.text)
    mode, kind = instruction.op[2:]
    if kind != ("b32" if mode == "ballot" else "pred") or mode not in ("all", "any", "uni", "ballot"):
        raise UnsupportedInstructionError(instruction.text)
    put = slots.write(instruction.operands[0], kind, instruction)
    predicate = slots.read(instruction.operands[1], "pred", instruction)
    members = slots.read(instruction.operands[2], "b32", instruction)

    def step(machine: Machine) -> None:
        _check_members(machine, f"vote.sync.{mode}", members(machine))
        yes = _ballot(machine, predicate(machine))
        if mode == "ballot":
            put(machine, yes)
            return
        everyone = _ballot(machine, np.ones(1, np.bool_))
        result: Array = yes != 0 if mode == "any" else yes == everyone
        if mode == "uni":
            result = result | (yes == 0)
        put(machine, result)

    return step


def _ballot(machine: Machine, predicate: Array) -> Array:
    votes = np.broadcast_to(predicate, (machine.size,)).reshape(LANES, machine.warps)
    if machine.mask is not None:
        votes = votes & machine.mask.reshape(LANES, machine.warps)
    weights = np.uint32(1) << np.arange(LANES, dtype=np.uint32)
    word = (votes * weights[:, None]).sum(axis=0, dtype=np.uint32)
    return np.tile(word, LANES)


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
    read_a, read_b, read_c = (_read_all(slots, items, instruction) for items in vectors[1:])
    put = [slots.write(item, "b32", instruction) for item in vectors[0]]
    return _mma_step(table, a_type, read_a, read_b, read_c, put)


def _read_all(slots: Slots, items: tuple[Operand, ...], instruction: Instruction) -> list[Reader]:
    return [slots.read(item, "b32", instruction) for item in items]


def _mma_step(
    table: Fragments,
    operand: str,
    read_a: list[Reader],
    read_b: list[Reader],
    read_c: list[Reader],
    put: list[Any],
) -> Step:
    inverse = np.empty(table.c.size, np.intp)
    inverse[table.c.ravel()] = np.arange(table.c.size)
    accumulator = "f32" if len(read_c) == table.c_elements else "f16"

    def step(machine: Machine) -> None:
        if machine.arithmetic == "v100" and table.shape != "m8n8k4":
            raise ArithmeticUnavailableError(
                f"--mma v100 with mma.sync.{table.shape}: no V100 has it; m8n8k4 is the one it has, or use --mma exact"
            )
        machine.converged("mma.sync", None)
        a_bits, b_bits = _halves(machine, read_a), _halves(machine, read_b)
        if accumulator == "f32":
            held = np.empty((table.c_elements, LANES, machine.warps), np.uint32)
            for register, read in enumerate(read_c):
                held[register] = _rows(machine, read)
        else:
            held = _halves(machine, read_c)
        c = np.take(held.reshape(-1, machine.warps), table.c, axis=0)
        if machine.arithmetic == "v100":
            a, b = CoreOperand(a_bits), CoreOperand(b_bits)
            for core, rows in ((a, table.a), (b, table.b)):
                core.value = np.take(core.value, rows, axis=0)
                core.exponent = np.take(core.exponent, rows, axis=0)
            d = tensor_core.v100(a, b, c, accumulator)
        else:
            a_matrix, b_matrix = np.take(a_bits, table.a, axis=0), np.take(b_bits, table.b, axis=0)
            d = tensor_core.exact(a_matrix, b_matrix, c, accumulator, operand)
        flat = np.take(d.reshape(-1, machine.warps), inverse, axis=0).reshape(table.c_elements, -1)
        if accumulator == "f32":
            for write, value in zip(put, flat, strict=True):
                write(machine, value)
        else:
            for number, write in enumerate(put):
                high = flat[2 * number + 1].astype(np.uint32) << np.uint32(16)
                write(machine, high | flat[2 * number])

    return step


def _rows(machine: Machine, read: Reader) -> Array:
    value = read(machine)
    return value if value.size == 1 else value.reshape(LANES, machine.warps)


def _halves(machine: Machine, readers: list[Reader]) -> Array:
    """Registers of two halves -> [2 x registers x 32 lanes, warps], low half first."""
    out = np.empty((len(readers), 2, LANES, machine.warps), np.uint16)
    for number, read in enumerate(readers):
        word = _rows(machine, read)
        out[number, 0] = word  # keeps the low 16 bits
        out[number, 1] = word >> np.uint32(16)
    return out.reshape(-1, machine.warps)
