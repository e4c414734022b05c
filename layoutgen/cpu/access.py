"""Loads and stores of a machine's threads with every check and count: what all instruction sets share.

Addresses are bytes, one a thread (or one for all). A lane whose access is not allowed is reported, reads a
NaN and stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import watch as rules
from layoutgen.cpu.machine import LANES, Machine

Array = NDArray[Any]

_POISON = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFF7FFF, 8: 0x7FFF7FFF7FFF7FFF}


def _spread(machine: Machine, value: Array, dtype: Any) -> Array:
    if value.size == 1:
        return np.full(machine.size, value[0], dtype)
    return value.astype(dtype, copy=False)


def _aligned(machine: Machine, address: Array, lanes: Array | None, width: int) -> tuple[Array, Array | None]:
    """Drop misaligned lanes: the addresses and numbers of the lanes left (numbers None: all)."""
    picked = address if lanes is None else address[lanes]
    low = picked & (width - 1)
    if not low.any():
        return picked, lanes
    numbers = np.arange(machine.size) if lanes is None else lanes
    bad = low != 0
    first = int(picked[bad][0])
    machine.report(rules.MISALIGNED, numbers[bad], lambda: f"address {first:#x} is not a multiple of {width}")
    return picked[~bad], numbers[~bad]


def _active(machine: Machine) -> Array | None:
    return None if machine.mask is None else np.flatnonzero(machine.mask)


def _scatter(machine: Machine, lanes: Array | None, values: Sequence[Array], width: int) -> list[Array]:
    if lanes is None:
        return list(values)
    out = []
    for value in values:
        whole = np.full(machine.size, _POISON[width], value.dtype)
        whole[lanes] = value
        out.append(whole)
    return out


# Global memory --------------------------------------------------------------------------------------------


def load_global(machine: Machine, address: Array, width: int, count: int) -> list[Array]:
    """Load `count` items of `width` bytes a thread: arrays over all threads; inactive ones hold garbage."""
    address = _spread(machine, address, np.uint64)
    lanes = _active(machine)
    _count_global(machine, address, width * count)
    picked, lanes = _aligned(machine, address, lanes, width * count)
    if not picked.size:
        return [np.full(machine.size, _POISON[width], f"u{width}") for _ in range(count)]
    got = machine.glob.read(picked, width, count)
    for kind, bad, what in (
        (rules.OUT_OF_BOUNDS, got.outside, "reads"),
        (rules.UNINITIALISED, got.uninitialised, "reads memory that nobody wrote:"),
    ):
        if bad is not None and bad.any():
            _report_global(machine, kind, picked, lanes, bad, f"{what}", width * count)
    return _scatter(machine, lanes, got.values, width)


def store_global(machine: Machine, address: Array, width: int, values: Sequence[Array]) -> None:
    """Store one item of `width` bytes for every array in `values` (over all threads, or of size 1)."""
    address = _spread(machine, address, np.uint64)
    lanes = _active(machine)
    whole = width * len(values)
    _count_global(machine, address, whole)
    picked, lanes = _aligned(machine, address, lanes, whole)
    if not picked.size:
        return
    full = [_spread(machine, value, f"u{width}") for value in values]
    items = full if lanes is None else [value[lanes] for value in full]
    block = machine.block if lanes is None else machine.block[lanes]
    done = machine.glob.write(picked, width, items, block, machine.pc)
    for kind, bad, what in (
        (rules.OUT_OF_BOUNDS, done.outside, "writes"),
        (rules.UNOWNED, done.unowned, "writes what this launch does not own:"),
        (rules.RACE, done.clash, "writes what another thread has written:"),
    ):
        if bad is not None and bad.any():
            _report_global(machine, kind, picked, lanes, bad, what, whole)


def _count_global(machine: Machine, address: Array, width: int) -> None:
    mask = None if machine.mask is None else machine.mask.reshape(LANES, machine.warps)
    machine.counters.global_access(machine.pc, address.reshape(LANES, machine.warps), mask, width)


def _report_global(
    machine: Machine, kind: str, address: Array, lanes: Array | None, bad: Array, what: str, width: int
) -> None:
    numbers = np.flatnonzero(bad) if lanes is None else lanes[bad]
    first = int(address[bad][0])
    machine.report(kind, numbers, lambda: f"{what} {width} bytes at {machine.glob.describe(first)}")


# Shared memory --------------------------------------------------------------------------------------------


def load_shared(machine: Machine, address: Array, width: int, count: int) -> list[Array]:
    """As `load_global`, from the shared memory of each thread's block."""
    address, lanes, _ = _shared(machine, address, width * count, None, width)
    if not address.size:
        return [np.full(machine.size, _POISON[width], f"u{width}") for _ in range(count)]
    rows = machine.block_row if lanes is None else machine.block_row[lanes]
    return _scatter(machine, lanes, machine.shared.read(rows, address, width, count), width)


def store_shared(machine: Machine, address: Array, width: int, values: Sequence[Array]) -> None:
    """As `store_global`, to the shared memory of each thread's block."""
    full = [_spread(machine, value, f"u{width}") for value in values]
    address, lanes, clash = _shared(machine, address, width * len(values), full, width)
    if not address.size:
        return
    rows = machine.block_row if lanes is None else machine.block_row[lanes]
    items = full if lanes is None else [value[lanes] for value in full]
    machine.shared.write(rows, address, width, items)
    if clash:  # two lanes of this store met: whose value is not there has lost a race
        lost = np.zeros(address.size, np.bool_)
        for held, value in zip(machine.shared.read(rows, address, width, len(items)), items, strict=True):
            lost |= held != value
        if lost.any():
            place = int(address[lost][0])
            numbers = np.flatnonzero(lost) if lanes is None else lanes[lost]
            machine.report(
                rules.RACE,
                numbers,
                lambda: f"two lanes of one store write different values to shared address {place}",
            )


def _shared(
    machine: Machine, address: Array, whole: int, values: list[Array] | None, width: int
) -> tuple[Array, Array | None, bool]:
    """Check, count and record a shared access: the addresses and lanes that may be made, and whether lanes
    meet."""
    address = _spread(machine, address, np.int64)
    blocks, warps = machine.blocks, machine.warps_per_block
    shape = (LANES, blocks, warps)
    mask = machine.mask
    alike = blocks == 1
    if not alike:
        grid = address.reshape(shape)
        alike = bool((grid[:, 1:] == grid[:, :1]).all())
        if alike and mask is not None:
            active = mask.reshape(shape)
            alike = bool((active[:, 1:] == active[:, :1]).all())
    if alike:  # one block stands for all
        one = address.reshape(shape)[:, 0, :].reshape(LANES, warps)
        one_mask = None if mask is None else mask.reshape(shape)[:, 0, :].reshape(LANES, warps)
        machine.counters.shared_access(machine.pc, one, one_mask, whole, blocks)
    else:
        machine.shared_watch.split()
        flat = None if mask is None else mask.reshape(LANES, machine.warps)
        machine.counters.shared_access(machine.pc, address.reshape(LANES, machine.warps), flat, whole, 1)
    lanes = _active(machine)
    picked, lanes = _aligned(machine, address, lanes, whole)
    if picked.size and (int(picked.max()) + whole > machine.shared.size or int(picked.min()) < 0):
        outside = (picked < 0) | (picked + whole > machine.shared.size)
        numbers = np.arange(machine.size) if lanes is None else lanes
        first = int(picked[outside][0])
        machine.report(
            rules.OUT_OF_BOUNDS,
            numbers[outside],
            lambda: f"{whole} bytes at shared address {first} of {machine.shared.size}",
        )
        picked, lanes = picked[~outside], numbers[~outside]
    clash = bool(picked.size) and _judge(machine, picked, lanes, whole, values, width)
    return picked, lanes, clash


def _judge(
    machine: Machine, address: Array, lanes: Array | None, whole: int, values: list[Array] | None, width: int
) -> bool:
    shadow = machine.shared_watch
    numbers = lanes
    if shadow.rows == 1:  # then every block does the same: look at the first
        if lanes is None:
            chosen = np.arange(machine.size).reshape(LANES, machine.blocks, machine.warps_per_block)[:, 0, :].ravel()
            address = address[chosen]
            numbers = chosen
        else:
            first = machine.block_row[lanes] == 0
            address, numbers = address[first], lanes[first]
    elif lanes is None:
        numbers = np.arange(machine.size)
    assert numbers is not None
    rows, thread = machine.block_row[numbers], machine.thread[numbers]

    def unchanged() -> Array:
        assert values is not None
        same = np.ones(numbers.size, np.bool_)
        spread = range(machine.blocks) if shadow.rows == 1 else (0,)
        for block in spread:  # numbers of the same lanes in that block
            there = numbers + block * machine.warps_per_block
            held = machine.shared.read(rows + block, address, width, len(values))
            for old, new in zip(held, values, strict=True):
                same &= old == new[there]
        return same

    verdict = shadow.access(rows, thread, address, whole, None if values is None else unchanged)
    times = machine.blocks if shadow.rows == 1 else 1
    if verdict.uninitialised is not None:
        bad = np.flatnonzero(verdict.uninitialised)
        place = int(address[bad[0]])
        machine.report(
            rules.UNINITIALISED,
            np.repeat(numbers[bad], times),
            lambda: f"reads {whole} bytes at shared address {place} that nobody wrote",
        )
    if verdict.race is not None:
        bad = np.flatnonzero(verdict.race)
        place, mine = int(address[bad[0]]), int(thread[bad[0]])
        other = -1 if verdict.other is None else int(verdict.other[bad[0]])
        what = "reads" if values is None else "writes"
        whom = f"thread {other} wrote" if other >= 0 else "another thread read"
        machine.report(
            rules.RACE,
            np.repeat(numbers[bad], times),
            lambda: f"thread {mine} {what} shared address {place}, which {whom}, with no barrier between them",
        )
    return verdict.clash
