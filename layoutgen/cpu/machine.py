"""All threads of some blocks as one vector: geometry, masks, reconvergence, barriers.

Thread arrays are flat, lane-major: entry lane * warps + warp, so that `reshape(32, warps)` has one row a
lane and a shuffle or a fragment is a gather of rows. Warps count block by block. A mask is a bool array of
that form, or None for "every thread". Nothing here knows an instruction set: code is a list of steps, and a
step takes the machine.

Divergence: of all groups of threads that wait at different places, the one at the lowest instruction number
runs, and groups that meet merge. For the forward-laid, structured control flow that Triton emits this
reconverges where the hardware would at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import watch as rules
from layoutgen.cpu.counters import Counters
from layoutgen.cpu.memory import GlobalMemory, SharedMemory
from layoutgen.cpu.watch import SharedWatch, Watch
from layoutgen.errors import LayoutgenError

Array = NDArray[Any]
Step = Callable[["Machine"], "int | None"]
"""Executes one instruction. Returns None to go on, an instruction number to jump to, DIVERGED or EXITED."""

DIVERGED = -1
"""The step has split the group: go on behind it with what is left."""
EXITED = -2
"""The group has ended."""

LANES = 32


class ExecutionError(LayoutgenError):
    """A program that cannot be executed to its end: an endless loop, a trap, a bad launch."""


class Machine:
    """State of an execution of `blocks` (linear block numbers) of a launch of `grid` blocks (x, y, z)."""

    def __init__(
        self, blocks: Array, grid: tuple[int, int, int], warps: int, glob: GlobalMemory, shared_bytes: int,
        grain: int, watch: Watch, counters: Counters, arithmetic: str, step_limit: int,
    ) -> None:  # fmt: skip
        self.grid, self.warps_per_block = grid, warps
        self.blocks = int(blocks.size)
        self.warps = self.blocks * warps
        self.size = LANES * self.warps
        lane, warp = np.divmod(np.arange(self.size), self.warps)
        self.lane: Array = lane.astype(np.uint32)
        self.block_row: Array = warp // warps  # row of the block within this machine
        self.thread: Array = (warp % warps * LANES + lane).astype(np.int64)  # within the block
        self.block: Array = blocks[self.block_row]  # linear number within the launch
        self.first_thread: Array = self.thread.reshape(LANES, self.blocks, warps)[:, 0, :].ravel()
        self.first_row: Array = np.zeros(self.first_thread.size, np.int64)
        self.glob, self.watch, self.counters = glob, watch, counters
        self.shared = SharedMemory(self.blocks, shared_bytes)
        self.shared_watch = SharedWatch(self.blocks, warps, shared_bytes, grain)
        self.arithmetic = arithmetic
        self.regs: list[Array] = []
        self.own: Any = None  # what an instruction set keeps beside registers
        self.mask: Array | None = None
        self.exited: Array | None = None
        self.pc = 0
        self.steps = 0
        self._step_limit = step_limit
        self._waiting: dict[int, Array] = {}
        self._active_warps = self.warps

    # Control ----------------------------------------------------------------------------------------------

    def run(self, code: list[Step]) -> None:
        """Execute from instruction 0 until every thread has ended.

        Raises ExecutionError when more than the step limit's instructions are executed.
        """
        issued = self.counters.issued
        end = len(code)
        pc = 0
        while True:
            limit = min(self._waiting, default=end)
            budget = self._step_limit - self.steps
            start = self.steps
            steps = 0
            outcome: int | None = None
            while pc < limit:
                self.pc = pc
                issued[pc] += self._active_warps
                outcome = code[pc](self)
                steps += 1
                if outcome is None:
                    pc += 1
                    continue
                if outcome < 0 or outcome > pc:
                    break
                pc = outcome
                if steps > budget:
                    break
            self.steps = start + steps
            if self.steps > self._step_limit:
                raise ExecutionError(
                    f"run: not finished after {self.steps} instructions; an endless loop, or raise step_limit"
                )
            if outcome == DIVERGED:
                pc += 1
            elif outcome == EXITED or (pc >= end and outcome is None):
                if outcome is None:  # ran off the end
                    self.exit(None)
                if not self._waiting:
                    return
                pc = min(self._waiting)
                self.set_mask(self._waiting.pop(pc))
                continue
            elif outcome is not None and outcome > pc:
                pc = outcome
            outcome = None
            pc = self._reconverge(pc)

    def _reconverge(self, pc: int) -> int:
        if not self._waiting:
            return pc
        lowest = min(self._waiting)
        if pc < lowest:
            return pc
        other = self._waiting.pop(lowest)
        if pc == lowest:
            self.set_mask(other if self.mask is None else self.mask | other)
            return pc
        self._wait(pc, self.active())
        self.set_mask(other)
        return lowest

    def _wait(self, pc: int, mask: Array) -> None:
        known = self._waiting.get(pc)
        self._waiting[pc] = mask if known is None else known | mask

    def resume(self, pc: int, mask: Array) -> None:
        """Let threads that no group holds go on at `pc`, when their turn comes."""
        self._wait(pc, mask)

    def set_mask(self, mask: Array | None) -> None:
        """Make `mask` the running group."""
        if mask is not None and mask.all():
            mask = None
        self.mask = mask
        if mask is None:
            self._active_warps = self.warps
        else:
            self._active_warps = int(np.count_nonzero(mask.reshape(LANES, self.warps).any(axis=0)))

    def active(self) -> Array:
        """The running group as an array."""
        return np.ones(self.size, np.bool_) if self.mask is None else self.mask

    def branch(self, taken: Array | None, target: int) -> int | None:
        """Send the threads in `taken` (None: the whole group; may have size 1) to `target`."""
        if taken is None:
            return target
        if taken.size == 1:
            return target if taken[0] else None
        there = taken if self.mask is None else taken & self.mask
        if not there.any():
            return None
        rest = ~there if self.mask is None else self.mask & ~there
        if not rest.any():
            return target
        self._wait(target, there)
        self.set_mask(rest)
        return DIVERGED

    def exit(self, leaving: Array | None) -> int | None:
        """End the threads in `leaving` (None: the whole group; may have size 1)."""
        if leaving is not None and leaving.size == 1:
            if not leaving[0]:
                return None
            leaving = None
        gone = self.active() if leaving is None else leaving & self.active()
        rest = self.active() & ~gone
        self.exited = gone if self.exited is None else self.exited | gone
        if not rest.any():
            return EXITED
        self.set_mask(rest)
        return DIVERGED

    # Barriers and convergence -----------------------------------------------------------------------------

    def block_barrier(self) -> None:
        """All threads of a block meet; a block that comes with some of its threads only is a finding."""
        if self.mask is None:
            self.shared_watch.block_barrier(None)
            return
        shape = (LANES, self.blocks, self.warps_per_block)
        here = self.mask.reshape(shape)
        present = here if self.exited is None else here | self.exited.reshape(shape)
        arrived: Array = np.asarray(here.any(axis=(0, 2)))
        whole: Array = np.asarray(present.all(axis=(0, 2)))
        missing = arrived & ~whole
        if missing.any():
            absent = ~present & missing[None, :, None]
            self.report(
                rules.DIVERGENCE,
                absent.ravel(),
                lambda: "a barrier that this thread of the block does not reach",
            )
        self.shared_watch.block_barrier(np.flatnonzero(arrived))

    def warp_barrier(self) -> None:
        """The lanes of each warp meet; a warp that comes with some of its lanes only is a finding."""
        self.converged("a warp barrier", None)
        if self.mask is None:
            self.shared_watch.warp_barrier(None, None)
            return
        warps = np.flatnonzero(self.mask.reshape(LANES, self.warps).any(axis=0))
        self.shared_watch.warp_barrier(warps // self.warps_per_block, warps % self.warps_per_block)

    def converged(self, what: str, members: Array | None) -> None:
        """Report warps that execute `what` with some of the lanes in `members` (None: all 32) missing."""
        if self.mask is None:
            return
        here = self.mask.reshape(LANES, self.warps)
        absent = ~here
        if self.exited is not None:
            absent &= ~self.exited.reshape(LANES, self.warps)
        if members is not None:
            absent &= members
        absent &= here.any(axis=0)
        if absent.any():
            self.report(rules.DIVERGENCE, absent.ravel(), lambda: f"{what} in a diverged warp: this lane is missing")

    # Reports ----------------------------------------------------------------------------------------------

    def report(self, kind: str, lanes: Array, detail: Callable[[], str], rule: str = "") -> None:
        """Report the threads in `lanes` (a mask of all threads, or their numbers) at the present
        instruction."""
        numbers = np.flatnonzero(lanes) if lanes.dtype == np.bool_ else lanes
        if not numbers.size:
            return
        first = int(numbers[0])
        linear = int(self.block[first])
        x, y, _ = self.grid
        block = (linear % x, linear // x % y, linear // (x * y))
        self.watch.report(kind, self.pc, int(numbers.size), block, int(self.thread[first]), detail, rule)
