"""One call of an emitted file on given arrays: every kernel of it, executed on the CPU in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from layoutgen.cpu import LaunchReport, Tensor
from layoutgen.errors import LayoutgenError
from layoutgen.execution.execute import execute_ptx
from layoutgen.execution.inputs import WRITTEN
from layoutgen.kernels import Array, contiguous
from layoutgen.toolchain import KernelFile, build_kernel


@dataclass(frozen=True)
class Called:
    """All arrays of a call by name, outputs and workspace among them, and a report for each kernel."""

    arrays: Mapping[str, NDArray[Any]]
    reports: tuple[LaunchReport, ...]


def call(
    file: KernelFile,
    shape: tuple[int, ...],
    values: Mapping[str, NDArray[Any]],
    strides: Mapping[str, tuple[int, ...]] | None = None,
    mma: str = "v100",
    kernels: int | None = None,
    **scalars: float,
) -> Called:
    """Execute a file for a shape with these inputs, which have the request's dtypes or others that the file takes.

    `strides` are those of single inputs, in elements; `kernels` are the first few of the call, by default all;
    `scalars` are the host function's other arguments. Raises LayoutgenError when an input is missing.
    """
    arrays = file.request.arrays(shape)
    for name in arrays:
        if name not in WRITTEN and name not in values:
            raise LayoutgenError(f"{file.path}: call: there is no {name}; its inputs have values")
    for name, value in values.items():
        own = (strides or {}).get(name)
        dtype = str(value.dtype)
        arrays[name] = contiguous(value.shape, dtype) if own is None else Array(value.shape, own, dtype)
    tensors = {
        name: Tensor.input(name, values[name], array.strides)
        if name in values
        else Tensor.output(name, array.shape, array.dtype, array.strides)
        for name, array in arrays.items()
    }
    builds = [build_kernel(file, "sm_70", arrays, kernel, **scalars) for kernel in file.kernels[:kernels]]
    reports, _ = execute_ptx(builds, tensors, mma)
    return Called({name: tensor.array for name, tensor in tensors.items()}, reports)
