"""Whether the control codes of machine code keep every result until it is there: a warning, not a proof of timing.

Three rules, checked along all paths of the control-flow graph as a fixpoint:

1. Who uses or overwrites the result of an instruction of variable latency (memory, special function, shuffle, special
   registers) has waited for the scoreboard barrier that it sets, or that a later one of the same queue sets: a queue
   serves a warp in order, and ptxas relies on that. Shuffles share the queue of shared memory.
2. Who overwrites an operand of a memory access, or of an instruction that sets a read barrier, has waited for its read
   barrier or its result, for those of a later one in the same queue, or at a block barrier.
3. Who uses the result of an instruction of fixed latency issues no earlier than any kernel was seen to do: `LATENCY`.

Stall counts are taken for the cycles that pass; waiting is taken to cost none, so that rule 3 can only be too strict
where a wait hides a latency. What the rules cannot see: latencies that ptxas itself gets wrong everywhere, other
operands that are overwritten too soon, reuse caches, register bank conflicts, the yield hint, and whether a barrier is
set early enough for its wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from layoutgen.errors import LayoutgenError
from layoutgen.sass.effects import Effects, Resource, effects
from layoutgen.sass.pricing import PIPE_OF
from layoutgen.sass.program import INSTRUCTION_BYTES, Instruction, Program

VARIABLE = ("xu", "shared", "shuffle", "global", "local", "special")
"""Pipes whose results come when they come."""
_VARIABLE_OPCODES = ("R2UR", "S2UR")
_FIXED_OPCODES = ("VOTE",)
READ_LATE = ("shared", "global", "local")
"""Queues that may not have read an operand when the next instruction issues, whether they set a read barrier or not."""
HORIZON = 32
"""Cycles after which every fixed latency is over."""

LATENCY: Mapping[tuple[str, str], int] = {
    ("alu", "alu"): 4,
    ("alu", "fma"): 5,
    ("alu", "fma wide"): 5,
    ("alu", "memory"): 6,
    ("alu", "tensor"): 6,
    ("alu predicate", "alu"): 2,
    ("alu predicate", "fma"): 5,
    ("alu predicate", "guard"): 12,
    ("fma", "alu"): 5,
    ("fma", "fma"): 4,
    ("fma", "fma wide"): 4,
    ("fma", "memory"): 6,
    ("fma", "tensor"): 6,
    ("fma wide", "alu"): 5,
    ("fma wide", "fma"): 4,
    ("fma wide", "fma wide"): 6,
    ("fma wide", "memory"): 8,
    ("half", "alu"): 8,
    ("half", "fma"): 8,
    ("half predicate", "alu"): 8,
    ("tensor", "alu"): 10,
    ("tensor", "fma"): 10,
    ("tensor", "memory"): 10,
    ("tensor", "tensor"): 8,
    ("uniform", "alu"): 6,
    ("uniform", "fma"): 6,
    ("uniform", "fma wide"): 6,
    ("uniform", "memory"): 9,
    ("uniform", "uniform"): 2,
    ("uniform constant", "alu"): 3,
    ("uniform constant", "uniform"): 2,
    ("uniform predicate", "alu"): 6,
    ("uniform predicate", "uniform"): 4,
}
"""(producer's pipe, consumer's pipe) -> the fewest cycles between their issues for sm_70 and sm_75 together, in the
kernels of generated/ and some of other requests. Mined as `tools/hazards.py` does; pairs that are not here are free."""


@dataclass(frozen=True)
class Hazard:
    """An instruction that may come too early: for which resource, after which producer, and why."""

    instruction: Instruction
    resource: Resource
    producer: Instruction
    why: str

    def __str__(self) -> str:
        name = "".join(map(str, self.resource))
        return (
            f"{self.instruction.address:#x} `{self.instruction.text}`: {name} of {self.producer.address:#x} "
            f"`{self.producer.text}` {self.why}"
        )


@dataclass
class State:
    """What is under way before an instruction, resource -> producer (its number) and what ends it.

    `results`: variable latency, with the write barrier or None. `operands`: sources not yet read, with the barriers
    of which either ends it. `fixed`: cycles passed since issue.
    """

    results: dict[tuple[Resource, int], int | None] = field(default_factory=dict)
    operands: dict[tuple[Resource, int], frozenset[int]] = field(default_factory=dict)
    fixed: dict[tuple[Resource, int], int] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.results), dict(self.operands), dict(self.fixed))

    def join(self, other: State) -> bool:
        """Take in what another path brings; whether that changed anything."""
        changed = False
        for key, barrier in other.results.items():
            worse = barrier if key not in self.results or self.results[key] == barrier else None
            if key not in self.results or self.results[key] != worse:
                self.results[key] = worse
                changed = True
        for key, barriers in other.operands.items():
            if key not in self.operands:
                self.operands[key] = barriers
                changed = True
        for key, passed in other.fixed.items():
            if passed < self.fixed.get(key, HORIZON):
                self.fixed[key] = passed
                changed = True
        return changed


def pipe(instruction: Instruction) -> str:
    """Return the pipe by which latencies are told apart; opcodes without one are of the ALU."""
    found = PIPE_OF.get(instruction.opcode, "alu")
    if instruction.opcode == "IMAD" and not {"WIDE", "HI"}.isdisjoint(instruction.modifiers):
        return "fma wide"
    if instruction.opcode == "ULDC":
        return "uniform constant"
    return "memory" if is_variable(instruction) else found


def is_variable(instruction: Instruction) -> bool:
    """Whether the latency of the result is not fixed."""
    if instruction.opcode in _FIXED_OPCODES:
        return False
    return PIPE_OF.get(instruction.opcode) in VARIABLE or instruction.opcode in _VARIABLE_OPCODES


def _queue(instruction: Instruction) -> str:
    """Return what serves an instruction of variable latency in order; shuffles go through shared memory's queue."""
    found = PIPE_OF.get(instruction.opcode, instruction.opcode)
    return "shared" if found == "shuffle" else found


def successors(program: Program) -> list[list[int]]:
    """Return the numbers of the instructions that may follow each."""
    end = len(program.instructions)
    following = []
    for number, instruction in enumerate(program.instructions):
        after = []
        jumps = instruction.opcode in ("BRA", "EXIT", "RET", "CALL")
        if not jumps or not instruction.always:
            after.append(number + 1)
        if instruction.target is not None:
            after.append(instruction.target // INSTRUCTION_BYTES)
        following.append([n for n in after if n < end])
    return following


class Checker:
    """The fixpoint over one program, and the uses that it sees."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.effects: list[Effects] = [effects(instruction) for instruction in program.instructions]
        self.following = successors(program)
        self.before: dict[int, State] = {0: State()}
        self._solve()

    def _solve(self) -> None:
        waiting = [0]
        while waiting:
            number = min(waiting)
            waiting.remove(number)
            after = self._after(number)
            for follower in self.following[number]:
                known = self.before.get(follower)
                if known is None:
                    self.before[follower] = after.copy()
                elif not known.join(after):
                    continue
                if follower not in waiting:
                    waiting.append(follower)

    def waited(self, number: int) -> State:
        """Return the state before an instruction, after it has waited for its barriers."""
        state = self.before[number].copy()
        wait = set(self.program.instructions[number].control.wait)
        if wait:
            state.results = {key: barrier for key, barrier in state.results.items() if barrier not in wait}
            state.operands = {key: barriers for key, barriers in state.operands.items() if not barriers & wait}
        return state

    def _after(self, number: int) -> State:
        instruction, does, state = self.program.instructions[number], self.effects[number], self.waited(number)
        control = instruction.control
        if instruction.always:
            for kept in (state.results, state.operands, state.fixed):
                for key in [key for key in kept if key[0] in does.writes]:
                    del kept[key]
        if instruction.opcode == "BAR":  # a block meets only when its shared accesses are done
            state.operands = {k: ends for k, ends in state.operands.items() if self._queue(k[1]) != "shared"}
        cycles = max(1, control.stall)
        state.fixed = {key: passed + cycles for key, passed in state.fixed.items() if passed + cycles < HORIZON}
        if is_variable(instruction):
            if control.write is not None:
                self._cover(state, instruction, control.write)
            for resource in does.writes:
                state.results[resource, number] = control.write
        else:
            for resource in does.writes:
                state.fixed[resource, number] = cycles
        ends = frozenset(b for b in (control.read, control.write) if b is not None)
        if _queue(instruction) in READ_LATE or control.read is not None:
            for key, known in state.operands.items():
                if self._queue(key[1]) == _queue(instruction):
                    state.operands[key] = known | ends
            # Uniform registers are read at issue: ptxas writes them anew behind a load without any barrier.
            for resource in (each for each in does.reads if each[0] != "UR"):
                state.operands[resource, number] = ends
        return state

    def _queue(self, number: int) -> str:
        return _queue(self.program.instructions[number])

    def _cover(self, state: State, instruction: Instruction, barrier: int) -> None:
        """A queue serves a warp in order: whoever waits for this instruction waits for those before it as well."""
        for key, known in state.results.items():
            if known is None and self._queue(key[1]) == _queue(instruction):
                state.results[key] = barrier

    def uses(self) -> Iterator[tuple[tuple[str, str], int, Resource, int, int]]:
        """Yield ((producer's, consumer's pipe), consumer, resource, producer, cycles) of every use of a result of
        fixed latency. A predicate's producer is told from a register's, a guard from a source."""
        for number in sorted(self.before):
            does, state = self.effects[number], self.before[number]
            for (resource, producer), passed in state.fixed.items():
                source = pipe(self.program.instructions[producer])
                if resource[0] in ("P", "UP"):
                    source += " predicate"
                if resource in does.guard:
                    yield (source, "guard"), number, resource, producer, passed
                if resource in does.reads:
                    yield (source, pipe(self.program.instructions[number])), number, resource, producer, passed

    def hazards(self, latency: Mapping[tuple[str, str], int]) -> tuple[Hazard, ...]:
        """Return what breaks the rules, by address."""
        instructions = self.program.instructions
        found: dict[tuple[int, Resource, int], str] = {}
        for number in sorted(self.before):
            does, state = self.effects[number], self.waited(number)
            touched = does.reads | does.guard | does.writes
            for (resource, producer), barrier in state.results.items():
                if resource in touched:
                    why = (
                        "comes when it comes, and no barrier says when"
                        if barrier is None
                        else f"waits for no SB{barrier}"
                    )
                    found[number, resource, producer] = why
            for resource, producer in state.operands:
                if resource in does.writes and _queue(instructions[producer]) != _queue(instructions[number]):
                    found.setdefault((number, resource, producer), "may not have been read yet")
        for pipes, number, resource, producer, passed in self.uses():
            least = latency.get(pipes)
            if least is not None and passed < least:
                found.setdefault((number, resource, producer), f"after {passed} cycles; {least} are the fewest seen")
        return tuple(Hazard(instructions[n], r, instructions[p], why) for (n, r, p), why in sorted(found.items()))


def hazards(program: Program) -> tuple[Hazard, ...]:
    """Check a program. Raises LayoutgenError when it has an opcode whose effects are not known."""
    return Checker(program).hazards(LATENCY)


def warnings(program: Program) -> list[str]:
    """Return a line for every hazard, or one that says why there was no check."""
    try:
        return [str(hazard) for hazard in hazards(program)]
    except LayoutgenError as error:
        return [f"not checked: {error}"]


def least_distances(program: Program) -> dict[tuple[str, str], int]:
    """Return (producer's pipe, consumer's pipe) -> the fewest cycles at which a result of fixed latency is used."""
    checker = Checker(program)
    least: dict[tuple[str, str], int] = defaultdict(lambda: HORIZON)
    for pipes, _, _, _, passed in checker.uses():
        least[pipes] = min(least[pipes], passed)
    return dict(least)
