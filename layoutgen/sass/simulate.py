"""A scoreboard simulation of one SM that repeats a loop.

Each sub-core issues at most one instruction a clock, from the warp that it issued from last if that one can go on, else
from the one that has waited longest. A warp's next instruction can issue when its stall has passed, the
barriers it waits for have fallen, its port is free, and, for memory, the sub-core's queue has room. Shared, global,
local accesses and shuffles of the whole SM pass one pipe in the order of issue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from layoutgen.profiles.model import Model
from layoutgen.sass.pricing import PORTS, Price
from layoutgen.sass.program import Instruction

LSU, NONE = PORTS.index("lsu"), PORTS.index("none")
NEVER = float("inf")
REASONS = ("stall", "scoreboard", "port", "queue", "block barrier", "not selected")
"""What a warp's cycles are spent on between two of its instructions. `stall` includes the issue itself."""


class Step(NamedTuple):
    """One instruction as the simulation sees it."""

    wait: tuple[int, ...]
    stall: int
    write: int | None
    read: int | None
    port: int
    cycles: float
    latency: int
    is_barrier: bool


def step(instruction: Instruction, priced: Price) -> Step:
    """Return what the simulation needs to know of a priced instruction."""
    control = instruction.control
    return Step(
        control.wait,
        max(control.stall, 1),
        control.write,
        control.read,
        PORTS.index(priced.port),
        priced.cycles,
        priced.latency,
        priced.pipe == "barrier",
    )


@dataclass(frozen=True)
class Run:
    """What one simulation found.

    `cycles` in which every resident warp goes through one iteration, on average; `spent[i][r]` are the cycles per warp
    and iteration that instruction i waited for reason r of REASONS.
    """

    cycles: float
    spent: tuple[tuple[float, ...], ...]


class _Warp:
    __slots__ = ("arrived", "barriers", "block", "ready", "slot")

    def __init__(self, block: int, start: float) -> None:
        self.block, self.ready, self.slot = block, start, 0
        self.barriers = [0.0] * 6
        self.arrived = NEVER  # when it came to the block barrier that it now waits at


def simulate(
    steps: Sequence[Step], blocks: int, warps: int, model: Model, *, stagger: float = 0.0, iterations: int = 4
) -> Run:
    """Simulate `blocks` blocks of `warps` warps; block b starts `b * stagger` cycles late.

    As many instructions as make one iteration of every warp are issued before the clock starts, and `iterations` times
    as many while it runs. Which warps issue them does not matter: a scheduler may favour some for long.
    """
    count, depth, delay = len(steps), model.queue_depth, model.queue_delay
    read_latency, barrier_latency = model.latency["read"], model.latency["barrier"]
    everyone = [_Warp(w // warps, w // warps * stagger) for w in range(blocks * warps)]
    cores = [everyone[core :: model.sub_cores] for core in range(model.sub_cores)]
    free = [[0.0] * len(PORTS) for _ in cores]
    queues: list[deque[float]] = [deque([0.0] * depth, maxlen=depth) for _ in cores]
    issue_free = [0.0] * len(cores)
    favourite: list[_Warp | None] = [None] * len(cores)
    waiting: list[list[_Warp]] = [[] for _ in range(blocks)]
    spent = [[0.0] * len(REASONS) for _ in steps]
    executed = [0] * count
    pipe_free = began = ended = 0.0
    issued, work, started = 0, count * len(everyone), False

    def earliest(core: int) -> float:
        """When the sub-core can issue next."""
        best = NEVER
        ports, full = free[core], queues[core][0]
        for warp in cores[core]:
            if warp.arrived != NEVER:
                continue
            one = steps[warp.slot]
            time = warp.ready
            for number in one[0]:
                if warp.barriers[number] > time:
                    time = warp.barriers[number]
            bound = full if one[4] == LSU else ports[one[4]]
            if bound > time:
                time = bound
            if time < best:
                best = time
        return max(best, issue_free[core])

    def choose(core: int, now: float) -> _Warp | None:
        """The warp that issues: the favourite if it can, else the one whose turn came first."""
        chosen, since = None, NEVER
        ports, full = free[core], queues[core][0]
        for warp in cores[core]:
            if warp.arrived != NEVER:
                continue
            one = steps[warp.slot]
            time = warp.ready
            for number in one[0]:
                if warp.barriers[number] > time:
                    time = warp.barriers[number]
            if time > now or (full if one[4] == LSU else ports[one[4]]) > now:
                continue
            if warp is favourite[core]:
                return warp
            if time < since:
                chosen, since = warp, time
        return chosen

    events = [(earliest(core), core) for core in range(len(cores)) if cores[core]]
    heapq.heapify(events)
    while events:
        now, core = heapq.heappop(events)
        warp = choose(core, now)
        if warp is None:
            again = earliest(core)
            if again < NEVER:
                heapq.heappush(events, (again, core))
            continue
        one = steps[warp.slot]
        if started:
            executed[warp.slot] += 1
            _account(spent[warp.slot], warp, one, now, queues[core][0], free[core])
        favourite[core] = warp
        issue_free[core] = now + 1
        warp.ready = now + one.stall
        if one.port == LSU:
            start = max(pipe_free, now + delay)
            pipe_free = start + one.cycles
            queues[core].append(start)
            if one.write is not None:
                warp.barriers[one.write] = max(warp.barriers[one.write], pipe_free + one.latency)
            if one.read is not None:
                warp.barriers[one.read] = max(warp.barriers[one.read], start + read_latency)
        else:
            if one.port != NONE:
                free[core][one.port] = now + one.cycles
            if one.write is not None:
                warp.barriers[one.write] = max(warp.barriers[one.write], now + one.latency)
            if one.read is not None:
                warp.barriers[one.read] = max(warp.barriers[one.read], now + read_latency)
        woken = False
        if one.is_barrier:
            group = waiting[warp.block]
            group.append(warp)
            warp.arrived = now
            if len(group) == warps:
                for other in group:
                    released = max(other.ready, now + barrier_latency)
                    if started:
                        spent[other.slot if other is warp else other.slot - 1][4] += released - other.ready
                    other.ready, other.arrived = released, NEVER
                group.clear()
                woken = True
        warp.slot += 1
        if warp.slot == count:
            warp.slot = 0
        issued += 1
        if issued == work:
            began, started = now, True
        elif issued == (1 + iterations) * work:
            ended = now
            break
        if woken:
            events = [(earliest(each), each) for each in range(len(cores)) if cores[each]]
            heapq.heapify(events)
        else:
            following = earliest(core)
            if following < NEVER:
                heapq.heappush(events, (following, core))
    average = tuple(tuple(value / max(times, 1) for value in row) for row, times in zip(spent, executed, strict=True))
    return Run((ended - began) / iterations, average)


def _account(row: list[float], warp: _Warp, one: Step, now: float, full: float, ports: list[float]) -> None:
    """Divide the time from the end of a warp's stall to its issue among the reasons, in the order they apply."""
    row[0] += one.stall
    at = warp.ready
    if now <= at:
        return
    fallen = max((warp.barriers[number] for number in one.wait), default=at)
    if fallen > at:
        row[1] += fallen - at
        at = fallen
    bound = full if one.port == LSU else ports[one.port]
    if bound > at:
        row[3 if one.port == LSU else 2] += min(bound, now) - at
        at = min(bound, now)
    row[5] += now - at
