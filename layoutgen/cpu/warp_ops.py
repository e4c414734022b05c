"""What the lanes of a warp do together, without saying in which instruction set: shuffles, votes, matrix products.

Values are arrays over all threads of a machine, or of size 1 where all threads agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import tensor_core, watch
from layoutgen.cpu.fragments import Fragments
from layoutgen.cpu.machine import LANES, Machine

Array = NDArray[Any]

SHUFFLES = ("up", "down", "bfly", "idx")


def check_members(machine: Machine, what: str, members: Array) -> None:
    """Report lanes that execute `what` without being named by its member mask, and named ones that are missing."""
    if members.size == 1 and int(members[0]) == 0xFFFFFFFF:
        machine.converged(what, None)
        return
    bits = np.broadcast_to(members, (machine.size,)) >> machine.lane & np.uint32(1)
    named: Array = bits != 0
    strangers = ~named if machine.mask is None else ~named & machine.mask
    if strangers.any():
        machine.report(watch.DIVERGENCE, strangers, lambda: f"{what} by a lane outside its member mask", "members")
    machine.converged(what, named.reshape(LANES, machine.warps))


def shuffle(machine: Machine, mode: str, value: Array, distance: Array, clamp: Array, what: str) -> tuple[Array, Array]:
    """The value of another lane, and whether that lane is within the segment (PTX ISA, "shfl.sync", pseudo-code).

    `mode` is one of SHUFFLES; `distance` is the operand b, `clamp` the operand c. A lane outside keeps its own value.
    Reading from a lane that takes no part is reported.
    """
    lane = machine.lane.astype(np.int64)
    b = distance.astype(np.int64) & 31
    c = clamp.astype(np.int64)
    segment = c >> 8 & 31
    maximum = (lane & segment) | (c & 31 & ~segment)
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
        source = (lane & segment) | (b & ~segment)
        inside = source <= maximum
    index = np.where(inside, source, lane) * machine.warps + np.arange(machine.size) % machine.warps
    if machine.mask is not None:
        asleep = machine.mask & ~machine.mask[index]
        if asleep.any():
            machine.report(watch.DIVERGENCE, asleep, lambda: f"{what} from a lane that takes no part", "asleep")
    return (value if value.size == 1 else value[index]), inside


def ballot(machine: Machine, predicate: Array) -> Array:
    """For every thread the word whose bit i says whether lane i of its warp is active and votes yes."""
    votes = np.broadcast_to(predicate, (machine.size,)).reshape(LANES, machine.warps)
    if machine.mask is not None:
        votes = votes & machine.mask.reshape(LANES, machine.warps)
    weights = np.uint32(1) << np.arange(LANES, dtype=np.uint32)
    word = (votes * weights[:, None]).sum(axis=0, dtype=np.uint32)
    return np.tile(word, LANES)


def multiply(
    machine: Machine,
    table: Fragments,
    a: Sequence[Array],
    b: Sequence[Array],
    c: Sequence[Array],
    accumulator: str,
    operand: str,
) -> list[Array]:
    """D = A B + C of every warp, in the machine's arithmetic, from and to registers of 32 bits.

    `a`, `b`, `c` are the registers in order, two halves each but for an f32 accumulator. `accumulator` is "f32" or
    "f16", `operand` "f16" or "bf16". Returns the registers of D. A diverged warp is reported.
    """
    machine.converged("mma.sync", None)
    a_bits, b_bits = _halves(machine, a), _halves(machine, b)
    if accumulator == "f32":
        words = np.empty((table.c_elements, LANES, machine.warps), np.uint32)
        for number, word in enumerate(c):
            words[number] = _rows(machine, word)
        held: Array = words.reshape(-1, machine.warps)
    else:
        held = _halves(machine, c)
    addend = np.take(held, table.c, axis=0)
    if machine.arithmetic == "v100":
        cores = tensor_core.Operand(a_bits), tensor_core.Operand(b_bits)
        for core, rows in zip(cores, (table.a, table.b), strict=True):
            core.value = np.take(core.value, rows, axis=0)
            core.exponent = np.take(core.exponent, rows, axis=0)
        d = tensor_core.v100(*cores, addend, accumulator)
    else:
        d = tensor_core.exact(
            np.take(a_bits, table.a, axis=0), np.take(b_bits, table.b, axis=0), addend, accumulator, operand
        )
    flat = np.empty((table.c.size, machine.warps), d.dtype)
    flat[table.c.ravel()] = d.reshape(-1, machine.warps)
    registers = flat.reshape(table.c_elements, machine.size)
    if accumulator == "f32":
        return list(registers)
    return [
        low | (high.astype(np.uint32) << np.uint32(16))
        for low, high in zip(registers[0::2], registers[1::2], strict=True)
    ]


def _rows(machine: Machine, value: Array) -> Array:
    return value if value.size == 1 else value.reshape(LANES, machine.warps)


def _halves(machine: Machine, words: Sequence[Array]) -> Array:
    """Registers of two halves -> [2 x registers x 32 lanes, warps], low half first."""
    out = np.empty((len(words), 2, LANES, machine.warps), np.uint16)
    for number, word in enumerate(words):
        rows = _rows(machine, word)
        out[number, 0] = (rows & np.uint32(0xFFFF)).astype(np.uint16)
        out[number, 1] = (rows >> np.uint32(16)).astype(np.uint16)
    return out.reshape(-1, machine.warps)
