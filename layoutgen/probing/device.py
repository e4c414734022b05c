"""Where a probe runs. The real one is a CUDA card seen through torch; tests put the CPU executor in its place."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from statistics import median
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from layoutgen.errors import LayoutgenError
from layoutgen.profiles import DEFAULT, unit_of
from layoutgen.toolchain import KernelFile

Array = NDArray[Any]
ATOM = unit_of(DEFAULT).atom
"""The instruction of the kernels that are probed; where it is not native, other ones are executed in its place."""

WARM_UP, LEAST_RUNS, LEAST_SECONDS = 3, 5, 0.25


@dataclass(frozen=True)
class Card:
    """The card and the software of a measurement. `clock_mhz` is that of the SMs while kernels ran, if it is known."""

    name: str
    arch: str
    driver: str
    clock_mhz: int | None
    max_clock_mhz: int | None
    triton: str
    torch: str

    @property
    def emulated(self) -> bool:
        return self.arch not in ATOM.native

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"emulated": self.emulated}


class Device(Protocol):
    """What a probe needs of the place where it runs."""

    def card(self) -> Card: ...

    def run(self, file: KernelFile, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Launch a kernel file once; return what it wrote. `outputs` give shape and dtype."""
        ...

    def time(self, file: KernelFile, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
        """Return the median of the seconds that a launch takes."""
        ...


class TorchDevice:
    """The CUDA card that torch sees."""

    def __init__(self) -> None:
        try:
            self.torch: Any = import_module("torch")
        except ImportError as error:
            raise LayoutgenError("probe: needs torch; install layoutgen[torch]") from error
        if not self.torch.cuda.is_available():
            raise LayoutgenError("probe: torch sees no CUDA card; `layoutgen run` executes kernels on the CPU")
        self._clocks: list[int] = []

    def card(self) -> Card:
        import triton

        major, minor = self.torch.cuda.get_device_capability()
        found = _smi("driver_version,clocks.max.sm")
        return Card(
            name=self.torch.cuda.get_device_name(),
            arch=f"sm_{major}{minor}",
            driver=found[0] if found else "unknown",
            clock_mhz=round(median(self._clocks)) if self._clocks else None,
            max_clock_mhz=_number(found[1]) if found else None,
            triton=triton.__version__,
            torch=self.torch.__version__,
        )

    def run(self, file: KernelFile, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, Array]:
        launch, written = self._prepare(file, inputs, outputs)
        launch()
        self.torch.cuda.synchronize()
        return {name: tensor.cpu().numpy() for name, tensor in written.items()}

    def time(self, file: KernelFile, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
        launch, _ = self._prepare(file, inputs, outputs)
        for _ in range(WARM_UP):
            launch()
        self.torch.cuda.synchronize()
        seconds: list[float] = []
        while len(seconds) < LEAST_RUNS or sum(seconds) < LEAST_SECONDS:
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch()
            end.record()
            end.synchronize()
            seconds.append(begin.elapsed_time(end) / 1000)
        launch()  # the clock is read while the card works
        found = _smi("clocks.sm")
        self.torch.cuda.synchronize()
        clock = _number(found[0]) if found else None
        if clock is not None:
            self._clocks.append(clock)
        return median(seconds)

    def _prepare(
        self, file: KernelFile, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> tuple[Callable[[], Any], dict[str, Any]]:
        given = {name: self.torch.from_numpy(array).cuda() for name, array in inputs.items()}
        # NaN, so that an element which nobody writes is noticed.
        written = {
            name: self.torch.from_numpy(np.full(array.shape, np.nan, array.dtype)).cuda()
            for name, array in outputs.items()
        }
        host = getattr(file.load(), file.request.family)
        return lambda: host(**given, **written), written


def _smi(fields: str) -> list[str] | None:
    """Ask nvidia-smi about the first card; None when it is not there or does not know."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [part.strip() for part in done.stdout.strip().splitlines()[0].split(",")]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
