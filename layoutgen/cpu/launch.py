"""Launch a parsed kernel on the CPU and say what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import watch as rules
from layoutgen.cpu.counters import Counters, LineCount
from layoutgen.cpu.machine import LANES, ExecutionError, Machine, Step
from layoutgen.cpu.memory import GlobalMemory, Tensor
from layoutgen.cpu.ptx_decode import decode_program
from layoutgen.cpu.ptx_memory import narrowest_shared_access
from layoutgen.cpu.ptx_parser import parse_ptx
from layoutgen.cpu.ptx_program import Program
from layoutgen.cpu.ptx_types import BITS, is_float, numpy_type, storage
from layoutgen.cpu.source import Source
from layoutgen.cpu.tensor_core import ArithmeticUnavailableError
from layoutgen.cpu.watch import Finding, Watch

Array = NDArray[Any]
Argument = Tensor | int | float | None
Progress = Callable[[int, int], None]

ARITHMETICS = ("v100", "exact")

THREADS_AT_ONCE = 8192
"""Threads executed as one vector. More threads spread Python's cost thinner, fewer keep registers in cache."""


@dataclass(frozen=True)
class LaunchReport:
    """What a launch did: findings, costs, time.

    `lines` counts per source line, `total` over all; `redundant_writes` counts shared stores that would be
    races if they did not store the bytes that were there already; `steps` are executed vector instructions
    (Python's work).
    """

    kernel: str
    grid: tuple[int, int, int]
    warps: int
    mma: str
    findings: tuple[Finding, ...]
    lines: dict[Source, LineCount] = field(repr=False)
    total: LineCount
    redundant_writes: int
    steps: int
    seconds: float

    def count(self, *kinds: str) -> int:
        """How many lanes (elements, for unwritten output) the findings of these kinds concern."""
        return sum(finding.count for finding in self.findings if finding.kind in kinds)

    @property
    def races(self) -> int:
        """Lanes that raced."""
        return self.count(rules.RACE)

    @property
    def out_of_bounds(self) -> int:
        """Lanes that read or wrote outside, misaligned, or wrote what they do not own."""
        return self.count(rules.OUT_OF_BOUNDS, rules.MISALIGNED, rules.UNOWNED)

    @property
    def uninitialised(self) -> int:
        """Lanes that read what nobody had written."""
        return self.count(rules.UNINITIALISED)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        lines = [f"{self.kernel}: {blocks} blocks of {self.warps} warps in {self.seconds:.2f} s; {self.total}"]
        return "\n".join(lines + [f"  {finding}" for finding in self.findings])


def launch(
    program: Program | str,
    grid: int | Sequence[int],
    num_warps: int,
    arguments: Sequence[Argument],
    *,
    mma: str = "v100",
    shared_bytes: int | None = None,
    expect_all_written: bool = True,
    progress: Progress | None = None,
    threads_at_once: int = THREADS_AT_ONCE,
    step_limit: int = 5_000_000,
) -> LaunchReport:
    """Execute a kernel for every block of `grid` with all checks on; output tensors hold the results
    afterwards.

    `program`: parsed or PTX text. `grid`: blocks in x, or (x, y, z). `arguments`: in the order of the
    kernel's parameters; a Tensor or None (null) for a pointer, numbers for the rest; pointers left out at
    the end are null. `mma`: "v100" (bit for bit; refuses instructions that no V100 has) or "exact" (the
    exact sum rounded once). `shared_bytes`: the size of the dynamic shared memory, from the compiler's
    metadata; it has no default when the kernel has any. `expect_all_written`: report output elements that
    no thread wrote. `progress(done, all)` is called with numbers of blocks. `step_limit`: instructions for
    one vector of threads before an endless loop is assumed.

    Raises ExecutionError for a bad launch, UnsupportedInstructionError, and ArithmeticUnavailableError.
    """
    began = time.perf_counter()
    if isinstance(program, str):
        program = parse_ptx(program)
    shape = grid_sizes(grid)
    _check(program, num_warps, mma, shared_bytes)
    tensors = tensors_of(arguments)
    memory = GlobalMemory(tensors)
    with np.errstate(all="ignore"):
        parameters = _bind(program, arguments, memory)
        decoded = decode_program(program)
        code = decoded.watched()
        watch = Watch([i.source for i in program.instructions], [i.text for i in program.instructions])
        counters = Counters(len(code))
        size = max([program.shared_bytes, *program.shared.values()]) + (shared_bytes or 0)
        grain = narrowest_shared_access(program.instructions)

        def prepare(machine: Machine) -> None:
            machine.regs = decoded.slots.initial()
            machine.own = parameters

        work = run_blocks(
            code, prepare, None, shape, num_warps, memory, size, grain, watch, counters, mma, step_limit,
            threads_at_once, progress,
        )  # fmt: skip
    return report_launch(
        program.name, shape, num_warps, mma, watch, tensors if expect_all_written else [],
        [i.source for i in program.instructions], [i.op[0] == "mma" for i in program.instructions],
        counters, work, began,
    )  # fmt: skip


# What the instruction sets share --------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What executing all blocks took: vector instructions, and shared stores of the bytes that were there."""

    steps: int
    redundant: int


def tensors_of(arguments: Sequence[Argument]) -> list[Tensor]:
    """The distinct tensors among the arguments, ready for a launch."""
    tensors: list[Tensor] = []
    for argument in arguments:
        if isinstance(argument, Tensor) and not any(argument is known for known in tensors):
            tensors.append(argument)
            argument.begin_launch()
    return tensors


def run_blocks(
    code: list[Step], prepare: Callable[[Machine], None], finish: Callable[[Machine], None] | None,
    grid: tuple[int, int, int], num_warps: int, memory: GlobalMemory, shared_bytes: int, grain: int, watch: Watch,
    counters: Counters, mma: str, step_limit: int, threads_at_once: int, progress: Progress | None,
) -> Work:  # fmt: skip
    """Execute all blocks, as many at once as `threads_at_once` allows. `prepare` gives a machine its registers,
    `finish` sees it at its end."""
    blocks = grid[0] * grid[1] * grid[2]
    group = max(1, threads_at_once // (LANES * num_warps))
    steps = redundant = 0
    for start in range(0, blocks, group):
        numbers = np.arange(start, min(start + group, blocks))
        machine = Machine(numbers, grid, num_warps, memory, shared_bytes, grain, watch, counters, mma, step_limit)
        prepare(machine)
        machine.run(code)
        if finish is not None:
            finish(machine)
        steps += machine.steps
        redundant += machine.shared_watch.redundant
        if progress is not None:
            progress(int(numbers[-1]) + 1, blocks)
    return Work(steps, redundant)


def report_launch(
    kernel: str, grid: tuple[int, int, int], num_warps: int, mma: str, watch: Watch, outputs: Sequence[Tensor],
    sources: Sequence[Source], is_mma: Sequence[bool], counters: Counters, work: Work, began: float,
) -> LaunchReport:  # fmt: skip
    """The report of a launch. Elements of `outputs` that nobody wrote are a finding."""
    lines: dict[Source, LineCount] = {}
    total = LineCount()
    for pc, (source, counts) in enumerate(zip(sources, is_mma, strict=True)):
        cost = counters.at(pc, counts)
        lines[source] = lines.get(source, LineCount()) + cost
        total = total + cost
    by_place = dict(sorted(lines.items(), key=lambda item: (item[0].file, item[0].line)))
    findings = (*watch.findings, *_unwritten(outputs))
    return LaunchReport(
        kernel, grid, num_warps, mma, findings, by_place, total, work.redundant, work.steps,
        time.perf_counter() - began,
    )  # fmt: skip


def grid_sizes(grid: int | Sequence[int]) -> tuple[int, int, int]:
    """The grid as (x, y, z)."""
    sizes = [grid] if isinstance(grid, int) else list(grid)
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise ExecutionError(f"launch: grid {grid}; one to three positive sizes are wanted")
    x, y, z = sizes + [1] * (3 - len(sizes))
    return int(x), int(y), int(z)


def check_launch(num_warps: int, mma: str) -> None:
    """Refuse an arithmetic or a number of warps that there is not."""
    if mma not in ARITHMETICS:
        raise ExecutionError(f"launch: no arithmetic {mma!r}; v100 and exact are known")
    if not 1 <= num_warps <= 32:
        raise ExecutionError(f"launch: {num_warps} warps a block; 1 to 32 are possible")


def _check(program: Program, num_warps: int, mma: str, shared_bytes: int | None) -> None:
    check_launch(num_warps, mma)
    if program.threads and program.threads != 32 * num_warps:
        raise ExecutionError(
            f"launch: {num_warps} warps, but {program.name} was compiled for {program.threads // 32} (.reqntid)"
        )
    if program.dynamic_shared and shared_bytes is None:
        raise ExecutionError(f"launch: {program.name} has dynamic shared memory; shared_bytes must say how much")
    for instruction in program.instructions:
        if mma == "v100" and instruction.op[0] == "mma" and "m8n8k4" not in instruction.op:
            raise ArithmeticUnavailableError(
                f"{instruction.source}: no V100 has {instruction.name}; use mma.sync.m8n8k4, or the arithmetic `exact`"
            )


def _bind(program: Program, arguments: Sequence[Argument], memory: GlobalMemory) -> dict[str, Array]:
    """Parameter name -> its value as an array of one element, bits as unsigned."""
    parameters = program.parameters
    if len(arguments) > len(parameters):
        raise ExecutionError(f"launch: {len(arguments)} arguments for the {len(parameters)} of {program.name}")
    bound = {}
    for number, parameter in enumerate(parameters):
        if number < len(arguments):
            bound[parameter.name] = parameter_value(parameter.type, number, arguments[number], memory)
        elif parameter.type != "u64":
            raise ExecutionError(f"launch: argument {number} of {program.name} ({parameter.type}) is missing")
        else:
            bound[parameter.name] = np.zeros(1, np.uint64)
    return bound


def parameter_value(kind: str, number: int, argument: Argument, memory: GlobalMemory) -> Array:
    """Argument `number` as the bits of a parameter of PTX type `kind`: an unsigned array of one element."""
    own = storage(BITS[kind])
    if argument is None:
        argument = 0
    if isinstance(argument, Tensor):
        if BITS[kind] != 64:
            raise ExecutionError(f"launch: argument {number} is tensor {argument.name}, but the kernel wants {kind}")
        return np.array([memory.pointer(argument)], np.uint64)
    if is_float(kind):
        return np.array([argument], numpy_type(kind)).view(own)
    if isinstance(argument, float):
        raise ExecutionError(f"launch: argument {number} is {argument}, but the kernel wants {kind}")
    return np.array([int(argument) & ((1 << BITS[kind]) - 1)], own)


def _unwritten(tensors: Sequence[Tensor]) -> list[Finding]:
    return [
        Finding(
            rules.UNWRITTEN,
            f"{tensor.unwritten} of {tensor.count} elements of {tensor.name} were not written",
            None,
            "",
            tensor.unwritten,
        )
        for tensor in tensors
        if tensor.unwritten
    ]
