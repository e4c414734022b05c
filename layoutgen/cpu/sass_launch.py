"""Launch a kernel's machine code on the CPU and say what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from layoutgen.cpu.counters import Counters
from layoutgen.cpu.launch import (
    THREADS_AT_ONCE,
    Argument,
    LaunchReport,
    Progress,
    check_launch,
    grid_sizes,
    parameter_value,
    report_launch,
    run_blocks,
    tensors_of,
)
from layoutgen.cpu.machine import ExecutionError, Machine
from layoutgen.cpu.memory import GlobalMemory
from layoutgen.cpu.ptx_types import BITS
from layoutgen.cpu.sass_code import Code
from layoutgen.cpu.sass_control import State
from layoutgen.cpu.sass_decode import decode_code
from layoutgen.cpu.sass_memory import STACK_TOP, item_bytes
from layoutgen.cpu.sass_operands import FILLS, Operands, undefined
from layoutgen.cpu.watch import Watch


def launch_code(
    code: Code,
    grid: int | Sequence[int],
    num_warps: int,
    arguments: Sequence[Argument],
    *,
    mma: str = "v100",
    shared_bytes: int = 0,
    fill: int = 0,
    expect_all_written: bool = True,
    progress: Progress | None = None,
    threads_at_once: int = THREADS_AT_ONCE,
    step_limit: int = 5_000_000,
) -> LaunchReport:
    """Execute a kernel's machine code for every block of `grid`; parameters as for `launch`, and:

    `fill` chooses what undefined registers hold (0 or 1): a kernel whose results differ between the two uses what it
    never computed. `shared_bytes` is all of a block's shared memory. Findings and counts are those of `launch`, but a
    register that is read before it is written is no finding: ptxas does that wherever the value does not matter.

    Raises ExecutionError for a bad launch, and UnsupportedCodeError before anything is executed.
    """
    began = time.perf_counter()
    shape = grid_sizes(grid)
    check_launch(num_warps, mma)
    if not 0 <= fill < len(FILLS):
        raise ExecutionError(f"launch: no fill {fill}; 0 and 1 are known")
    tensors = tensors_of(arguments)
    memory = GlobalMemory(tensors)
    instructions = code.instructions
    with np.errstate(all="ignore"):
        bank, known = constant_bank(code, shape, num_warps, arguments, memory)
        steps = decode_code(code, Operands({**code.banks, 0: bank}, known, fill))
        watch = Watch([i.source for i in instructions], [i.text for i in instructions])
        counters = Counters(len(steps))
        grain = min([4, *(item_bytes(i) for i in instructions if i.opcode in ("LDS", "STS"))])

        def prepare(machine: Machine) -> None:
            machine.regs = undefined(fill)
            machine.own = State()

        def finish(machine: Machine) -> None:
            for pc, _ in machine.own.blocked:
                raise ExecutionError(f"run: lanes wait for ever at `{instructions[pc].text}` for lanes that never come")

        work = run_blocks(
            steps, prepare, finish, shape, num_warps, memory, shared_bytes, grain, watch, counters, mma, step_limit,
            threads_at_once, progress,
        )  # fmt: skip
    is_mma = [i.opcode == "HMMA" and i.modifiers[-1] == "STEP0" for i in instructions]
    return report_launch(
        code.kernel, shape, num_warps, mma, watch, tensors if expect_all_written else [],
        [i.source for i in instructions], is_mma, counters, work, began,
    )  # fmt: skip


def constant_bank(
    code: Code, grid: tuple[int, int, int], num_warps: int, arguments: Sequence[Argument], memory: GlobalMemory
) -> tuple[bytes, bytes]:
    """Constant bank 0 and which of its bytes mean something: block and grid size, stack pointer, parameters.

    Source for the first words: read off what ptxas makes of %ntid, %nctaid and of a kernel with a stack.
    """
    parameters = code.parameters
    if len(arguments) > len(parameters):
        raise ExecutionError(f"launch: {len(arguments)} arguments for the {len(parameters)} of {code.kernel}")
    size = max([0x160, *(p.offset + BITS[p.type] // 8 for p in parameters)])
    bank, known = np.zeros(size + 8, np.uint8), np.zeros(size + 8, np.uint8)
    for offset, word in ((0x0, 32 * num_warps), (0x4, 1), (0x8, 1), (0xC, grid[0]), (0x10, grid[1]), (0x14, grid[2])):
        bank[offset : offset + 4] = np.array([word], np.uint32).view(np.uint8)
        known[offset : offset + 4] = 1
    bank[0x28:0x2C] = np.array([STACK_TOP], np.uint32).view(np.uint8)
    known[0x28:0x2C] = 1
    for number, parameter in enumerate(parameters):
        if number >= len(arguments) and parameter.type != "u64":
            raise ExecutionError(f"launch: argument {number} of {code.kernel} ({parameter.type}) is missing")
        argument = arguments[number] if number < len(arguments) else None
        value = parameter_value(parameter.type, number, argument, memory)
        end = parameter.offset + value.dtype.itemsize
        bank[parameter.offset : end] = value.view(np.uint8)
        known[parameter.offset : -(-end // 4) * 4] = 1
    return bank.tobytes(), known.tobytes()
