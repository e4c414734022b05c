"""What must not happen while a kernel runs, and the record of it when it does.

Findings are values; equal ones (same kind, same instruction) are merged, keep their first witness and count
the lanes. Nothing here knows an instruction set: an instruction is a number, its source and its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.source import Source

Array = NDArray[Any]

OUT_OF_BOUNDS = "out of bounds"
MISALIGNED = "misaligned"
UNINITIALISED = "uninitialised"
UNOWNED = "unowned write"
DIVERGENCE = "divergence"
RACE = "race"
UNWRITTEN = "unwritten"

KINDS = (OUT_OF_BOUNDS, MISALIGNED, UNINITIALISED, UNOWNED, DIVERGENCE, RACE, UNWRITTEN)


@dataclass(frozen=True)
class Finding:
    """Something that the watch saw: what, where in the kernel's source, and who did it first.

    `count` is in lanes (elements for UNWRITTEN); `block` is the block's (x, y, z), `thread` its first
    thread at fault.
    """

    kind: str
    detail: str
    source: Source | None
    instruction: str
    count: int = 1
    block: tuple[int, int, int] | None = None
    thread: int | None = None

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        who = "" if self.block is None else f" [block {self.block}, thread {self.thread}; {self.count} in all]"
        what = f" in `{self.instruction}`" if self.instruction else ""
        return f"{where}{self.kind}: {self.detail}{what}{who}"


class Watch:
    """Collects findings of one launch."""

    def __init__(self, sources: list[Source], texts: list[str]) -> None:
        self._sources, self._texts = sources, texts
        self._found: dict[tuple[str, int, str], Finding] = {}

    def report(
        self, kind: str, pc: int, count: int, block: tuple[int, int, int], thread: int,
        detail: Callable[[], str], rule: str = "",
    ) -> None:  # fmt: skip
        """Record `count` lanes that broke `rule` at instruction `pc`; `detail` is asked only the first
        time."""
        key = (kind, pc, rule)
        known = self._found.get(key)
        if known is None:
            self._found[key] = Finding(kind, detail(), self._sources[pc], self._texts[pc], count, block, thread)
        else:
            self._found[key] = replace(known, count=known.count + count)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, in the order in which it was first seen."""
        return tuple(self._found.values())


@dataclass(frozen=True)
class SharedVerdict:
    """Which of the lanes of a shared access broke a rule (None: none did), and the thread each raced with.

    `clash`: lanes of this very store overwrite each other, which is a race unless they store the same bytes.
    """

    uninitialised: Array | None = None
    race: Array | None = None
    other: Array | None = None
    clash: bool = False


class SharedWatch:
    """Shadow of the shared memories of a launch: who touched each location last, and since which barrier.

    A *location* is `grain` bytes, the narrowest shared access of the program. Two accesses to one location,
    at least one a write, are ordered when a block barrier lies between them, when one thread made both, or,
    within a warp, when a warp barrier lies between them. All else is a race (lanes of a Volta warp progress
    independently), but for a write of the bytes that are there already, which is counted in `redundant`
    instead.

    While all blocks behave alike, one row of shadow stands for all of them; the first access that differs
    between blocks gives each its own.
    """

    def __init__(self, blocks: int, warps: int, size: int, grain: int) -> None:
        self.blocks, self.warps, self.grain = blocks, warps, grain
        self.cells = -(-size // grain) + 1
        self.rows = 1
        self.redundant = 0
        self._epoch: Array = np.zeros(1, np.int32)
        self._sync: Array = np.zeros((1, warps), np.int32)
        cells = self.cells
        self._writer: Array = np.full(cells, -1, np.int32)  # thread of the last write, -1: never written
        self._written: Array = np.full(cells, -1, np.int32)  # block epoch of the last write
        self._write_sync: Array = np.zeros(cells, np.int32)  # warp epoch of the last write
        self._read: Array = np.full(cells, -1, np.int32)  # block epoch of the reads below
        self._readers: Array = np.zeros(cells, np.uint32)  # warps that read since
        self._lane_key: Array = np.full(cells, -1, np.int64)  # warp and warp epoch of the lanes below
        self._lanes: Array = np.zeros(cells, np.uint32)  # lanes of that warp that read since

    def split(self) -> None:
        """Give every block its own row of shadow."""
        if self.rows == self.blocks:
            return
        self.rows = self.blocks
        self._epoch = np.repeat(self._epoch, self.blocks)
        self._sync = np.repeat(self._sync, self.blocks, axis=0)
        for name in ("_writer", "_written", "_write_sync", "_read", "_readers", "_lane_key", "_lanes"):
            setattr(self, name, np.tile(getattr(self, name), self.blocks))

    def block_barrier(self, blocks: Array | None) -> None:
        """A barrier of all threads of the blocks given (None: of all blocks)."""
        if blocks is None:
            self._epoch += 1
        else:
            self.split()
            self._epoch[blocks] += 1

    def warp_barrier(self, blocks: Array | None, warps: Array | None) -> None:
        """A barrier of all lanes of the warps given, warp i of block i (None: of all warps)."""
        if blocks is None:
            self._sync += 1
        else:
            self.split()
            self._sync[blocks, warps] += 1

    def _cells(self, block: Array, address: Array) -> Array:
        cell: Array = address // self.grain
        return cell if self.rows == 1 else cell + block * self.cells

    def access(
        self, block: Array, thread: Array, address: Array, width: int, unchanged: Callable[[], Array] | None
    ) -> SharedVerdict:
        """Judge and record one access of `width` bytes a lane.

        `block` (row numbers), `thread` (in its block) and `address` (bytes; aligned, inside) have one entry
        a lane. `unchanged` is None for a read; for a write it says which lanes store the bytes that are
        there already.
        """
        count = max(width // self.grain, 1)
        cells = self._cells(block, address)
        warp = thread >> 5
        epoch = self._epoch[block] if self.rows > 1 else self._epoch[0]
        sync = self._sync[block, warp] if self.rows > 1 else self._sync[0][warp]
        race = np.zeros(thread.size, np.bool_)
        other = np.full(thread.size, -1, np.int32)
        fresh = np.zeros(thread.size, np.bool_)
        for part in range(count):
            cell = cells + part
            writer = self._writer[cell]
            hit = (self._written[cell] == epoch) & (writer != thread)
            if hit.any():
                hit &= ((writer >> 5) != warp) | (self._write_sync[cell] == sync)
                race |= hit
                np.copyto(other, writer, where=hit)
            if unchanged is None:
                fresh |= writer < 0
                self._note_read(cell, thread, warp, epoch, sync)
            else:
                hit = self._read_before(cell, thread, warp, epoch, sync)
                race |= hit
        clash = False
        if unchanged is not None:
            for part in range(count):
                cell = cells + part
                self._writer[cell] = thread
                self._written[cell] = epoch
                self._write_sync[cell] = sync
                clash = clash or bool((self._writer[cell] != thread).any())
            if race.any():
                same = race & unchanged()
                self.redundant += int(np.count_nonzero(same))
                race &= ~same
        return SharedVerdict(fresh if fresh.any() else None, race if race.any() else None, other, clash)

    def _note_read(self, cell: Array, thread: Array, warp: Array, epoch: Array, sync: Array) -> None:
        stale = self._read[cell] != epoch
        if stale.any():
            old = cell[stale]
            self._readers[old] = 0
            self._read[old] = epoch if self.rows == 1 else epoch[stale]
            self._lane_key[old] = -1
        bit = np.uint32(1) << warp.astype(np.uint32)
        np.bitwise_or.at(self._readers, cell, bit)
        key = (sync.astype(np.int64) << 8) | warp
        moved = self._lane_key[cell] != key
        if moved.any():
            self._lanes[cell[moved]] = 0
            self._lane_key[cell[moved]] = key[moved]
        np.bitwise_or.at(self._lanes, cell, np.uint32(1) << (thread & 31).astype(np.uint32))

    def _read_before(self, cell: Array, thread: Array, warp: Array, epoch: Array, sync: Array) -> Array:
        recent: Array = self._read[cell] == epoch
        if not recent.any():
            return recent
        mine = np.uint32(1) << warp.astype(np.uint32)
        elsewhere = (self._readers[cell] & ~mine) != 0
        key = (sync.astype(np.int64) << 8) | warp
        lanes = self._lanes[cell] & ~(np.uint32(1) << (thread & 31).astype(np.uint32))
        beside = (self._lane_key[cell] == key) & (lanes != 0)
        result: Array = recent & (elsewhere | beside)
        return result
