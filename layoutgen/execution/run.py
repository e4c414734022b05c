"""Compile an emitted kernel, execute it on the CPU with everything watched, and hold it to float64.

At the level `sass` the machine code is executed too, and held to the PTX's bits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import Finding, LaunchReport
from layoutgen.cpu.launch import ARITHMETICS, Progress
from layoutgen.errors import LayoutgenError
from layoutgen.execution.execute import execute_ptx
from layoutgen.execution.inputs import OUTPUTS, WRITTEN, Launch, check_size, place
from layoutgen.execution.levels import MachineRun, run_code
from layoutgen.execution.reference import error, references
from layoutgen.toolchain import Build, KernelFile, build_kernel

LEVELS = ("ptx", "sass")


@dataclass(frozen=True)
class RunResult:
    """What a run found. Errors are absolute against float64; `max_rel_error` is relative to the largest result.

    `bound` is what the main output may be off by where its error is largest, and `bound_share` how near any element
    of any output comes to its own bound: above 1 the kernel is wrong. `lse_error` is None for matmul. Of the `seconds`
    that all of it took, `build_seconds` are Triton's and ptxas's, or those of their cache. `machine` is what
    the machine code did, at the level `sass`; all else is of the PTX. Where one call launches several kernels, `report`
    and `build` are of the one that the request is about, and `reports` of all, in order.
    """

    max_abs_error: float
    max_rel_error: float
    bound: float
    bound_share: float
    lse_error: float | None
    report: LaunchReport
    build: Build
    outputs: dict[str, NDArray[Any]]
    seconds: float
    build_seconds: float
    reports: tuple[LaunchReport, ...]
    machine: MachineRun | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for report in self.reports for finding in report.findings)

    @property
    def passed(self) -> bool:
        """Whether every error is within its bound, nothing was found, and the machine code gives the same bits."""
        return self.bound_share <= 1 and not self.findings and (self.machine is None or self.machine.passed)

    def as_dict(self) -> dict[str, Any]:
        total = self.report.total
        return {
            "passed": self.passed,
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
            "bound": self.bound,
            "bound_share": self.bound_share,
            "lse_error": self.lse_error,
            "races": sum(report.races for report in self.reports),
            "out_of_bounds": sum(report.out_of_bounds for report in self.reports),
            "uninitialised": sum(report.uninitialised for report in self.reports),
            "findings": [str(finding) for finding in self.findings],
            "wavefronts": total.wavefronts,
            "least_wavefronts": total.wavefronts_minimum,
            "sectors": total.sectors,
            "least_sectors": total.sectors_minimum,
            "instructions": total.instructions,
            "mma": total.mma,
            "seconds": self.seconds,
            "build_seconds": self.build_seconds,
            "machine_code": None
            if self.machine is None
            else {
                "bit_equal": not self.machine.differences,
                "differences": [str(difference) for difference in self.machine.differences],
                "findings": [str(finding) for report in self.machine.reports for finding in report.findings],
                "instructions": self.machine.report.total.instructions,
                "wavefronts": self.machine.report.total.wavefronts,
            },
        }


def run_kernel(
    file: KernelFile,
    launch: Launch,
    mma: str = "v100",
    arch: str = "sm_70",
    progress: Progress | None = None,
    level: str = "ptx",
) -> RunResult:
    """Execute a kernel file for one launch.

    The compilation is specialised on the launch's real arguments: alignment, divisibility, ones. `mma` is the tensor
    core's arithmetic: "v100" (bit for bit) or "exact" (the exact sum, rounded once). `level` "sass" executes the
    machine code as well, twice with different undefined registers, and demands the same bits. Raises LayoutgenError
    on a launch that is none.
    """
    if level not in LEVELS:
        raise LayoutgenError(f"run: no level {level!r}; {' and '.join(LEVELS)} are known")
    if mma not in ARITHMETICS:
        raise LayoutgenError(f"run: no arithmetic {mma!r}; {' and '.join(ARITHMETICS)} are known")
    began = time.perf_counter()
    request = file.request
    check_size(request, launch)
    placed = place(request, launch, np.random.default_rng(launch.seed))
    arrays = {name: argument.array for name, argument in placed.items()}
    placed_at = time.perf_counter()
    builds = [build_kernel(file, arch, arrays, kernel) for kernel in file.kernels]
    build_seconds = time.perf_counter() - placed_at
    tensors = {name: argument.tensor(name) for name, argument in placed.items()}
    reports, ptx = execute_ptx(builds, tensors, mma, progress)
    written = {name: tensor for name, tensor in tensors.items() if name in WRITTEN}
    outputs = {name: tensor.array for name, tensor in written.items() if name in OUTPUTS}
    machine = None
    if level == "sass":
        machine = run_code(
            builds,
            replace(ptx, tensors=written),
            lambda: {name: argument.tensor(name) for name, argument in placed.items()},
            mma,
            progress,
        )
    expected = references(request, {name: a.values for name, a in placed.items() if a.values is not None})
    errors = {name: error(expected[name], outputs[name]) for name in expected}
    main = next(iter(expected))
    shares = {name: _share(errors[name], expected[name].bound) for name in expected}
    position = np.unravel_index(int(errors[main].argmax()), errors[main].shape)
    largest = float(np.abs(expected[main].value).max(initial=0.0))
    max_error = float(errors[main].max(initial=0.0))
    return RunResult(
        max_abs_error=max_error,
        max_rel_error=max_error / largest if largest else max_error,
        bound=float(expected[main].bound[position]),
        bound_share=max(float(share.max(initial=0.0)) for share in shares.values()),
        lse_error=float(errors["lse"].max(initial=0.0)) if "lse" in errors else None,
        report=reports[file.kernels.index(file.kernel)],
        build=builds[file.kernels.index(file.kernel)],
        outputs=outputs,
        seconds=time.perf_counter() - began,
        build_seconds=build_seconds,
        reports=reports,
        machine=machine,
    )


def _share(errors: NDArray[Any], bound: NDArray[Any]) -> NDArray[Any]:
    """Return error / bound, where 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0.0, errors / bound)
