"""Executes what ptxas made beside what it was given, and demands the same bits of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import LaunchReport, Tensor, launch_code
from layoutgen.cpu.launch import Progress
from layoutgen.execution.execute import Execution
from layoutgen.execution.machine_code import read_code
from layoutgen.toolchain import Build
from layoutgen.toolchain.compile import entry_parameters

FILLS = (0, 1)
"""Machine code is executed once with each of the two fills of undefined registers."""


@dataclass(frozen=True)
class Difference:
    """Outputs that should be equal and are not: the first element, what both hold, and who wrote it.

    `first` and `second` name the executions; `count` elements of this output differ. A writer is an instruction with
    its source line, or "nobody".
    """

    output: str
    index: tuple[int, ...]
    count: int
    first: str
    first_value: str
    first_writer: str
    second: str
    second_value: str
    second_writer: str

    def __str__(self) -> str:
        return (
            f"{self.output}{list(self.index)} is {self.first_value} by {self.first}, written by {self.first_writer}, "
            f"and {self.second_value} by {self.second}, written by {self.second_writer}; {self.count} elements differ"
        )


@dataclass(frozen=True)
class MachineRun:
    """What executing the machine code found. `differences`: against the PTX's bits, or between the two fills.

    There is a report for each of the `kernels` of a call, with the first fill and then with the second.
    """

    reports: tuple[LaunchReport, ...]
    differences: tuple[Difference, ...]
    kernels: int = 1

    @property
    def report(self) -> LaunchReport:
        """The report, with the first fill, of the kernel that did the most mma: the one that a request is about."""
        return max(self.reports[: self.kernels], key=lambda report: report.total.mma)

    @property
    def passed(self) -> bool:
        """Whether all bits are equal and nothing was found."""
        return not self.differences and all(report.clean for report in self.reports)


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """The bits of an output, as unsigned integers of its shape."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def compare(first: Execution, second: Execution) -> tuple[Difference, ...]:
    """Return one difference for every output that is not equal bit for bit."""
    found = []
    for name, tensor in first.tensors.items():
        a, b = tensor.array, second.tensors[name].array
        wrong = bits(a) != bits(b)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(np.count_nonzero(wrong))
            sides = [(each.name, _shown(v, index), each.writer(name, index)) for each, v in ((first, a), (second, b))]
            found.append(Difference(name, index, count, *sides[0], *sides[1]))
    return tuple(found)


def _shown(array: NDArray[Any], index: tuple[int, ...]) -> str:
    return f"{array[index]} (0x{int(bits(array)[index]):0{2 * array.itemsize}x})"


def run_code(
    builds: Sequence[Build],
    ptx: Execution,
    tensors: Callable[[], Mapping[str, Tensor]],
    mma: str = "v100",
    progress: Progress | None = None,
) -> MachineRun:
    """Execute the machine code of what one call launches, in order, and hold it to the tensors of the PTX.

    `tensors` makes the launch's arguments anew, by name, with the values that the PTX was given.
    """
    codes = []
    for build in builds:
        types = tuple(parameter.type for parameter in entry_parameters(build.ptx, build.kernel))
        codes.append(read_code(build.cubin, build.kernel, build.arch, types))
    texts = [tuple(f"`{i.text}` at {i.address:#x} ({i.source})" for i in code.instructions) for code in codes]
    reports, done = [], []
    for fill in FILLS:
        fresh = tensors()
        for build, code in zip(builds, codes, strict=True):
            reports.append(
                launch_code(
                    code,
                    build.grid,
                    build.num_warps,
                    [fresh.get(name, value) for name, value in build.arguments],
                    mma=mma,
                    shared_bytes=build.shared_bytes,
                    fill=fill,
                    progress=progress,
                )
            )
        held = {name: fresh[name] for name in ptx.tensors}
        done.append(Execution.of(f"machine code with undefined registers filled {fill}", held, builds, texts))
    plain = replace(done[0], name=f"machine code for {builds[0].arch}")
    return MachineRun(tuple(reports), (*compare(ptx, plain), *compare(done[0], done[1])), len(builds))
