"""Emitted kernels on given arrays: every kernel of a call, executed in order in V100 arithmetic."""

import functools
import tempfile
from pathlib import Path

import layoutgen as lg
from layoutgen.cpu import Tensor, launch, parse_ptx
from layoutgen.kernels.matmul_workspace import WORKSPACE
from layoutgen.kernels.request import Array, contiguous
from layoutgen.toolchain import build_kernel, read_kernel

FOLDER = tempfile.TemporaryDirectory(prefix="layoutgen-tests-")
SMALL = {"block_m": 32, "block_n": 32, "block_k": 16, "warps": "1x1"}


def kernel(**fields):
    """A fast matrix product with small tiles."""
    return lg.matmul(design="fast", **{**SMALL, **fields})


@functools.cache
def emitted(made: lg.Kernel):
    folder = Path(FOLDER.name) / str(abs(hash(made)))
    folder.mkdir(exist_ok=True)
    return read_kernel(made.write(folder))


def execute(made, values, strides=None, kernels=None, **scalars):
    """Return all arrays of a launch by name, C and the workspace among them. Post-condition: no finding.

    `values` are inputs by name, `strides` those of single ones, in elements; `kernels` are the first few to launch.
    """
    file = emitted(made)
    request = file.request
    m, k = values["a"].shape[-2:] if request.a_order == "mk" else values["a"].shape[:-3:-1]
    n = values["b"].shape[-1 if request.b_order == "kn" else -2]
    shape = (values["a"].shape[0], m, n, k)
    arrays = dict(request.arrays(shape))
    for name, value in values.items():
        own = (strides or {}).get(name)
        dtype = str(value.dtype)
        arrays[name] = contiguous(value.shape, dtype) if own is None else Array(value.shape, own, dtype)
    tensors = {
        name: Tensor.output(name, array.shape, array.dtype, array.strides)
        if name == "c" or name in WORKSPACE
        else Tensor.input(name, values[name], array.strides)
        for name, array in arrays.items()
    }
    for name in file.kernels[:kernels]:
        build = build_kernel(file, "sm_70", arrays, name, **scalars)
        arguments = [tensors.get(key, value) for key, value in build.arguments]
        report = launch(
            parse_ptx(build.ptx), build.grid, build.num_warps, arguments, mma="v100", shared_bytes=build.shared_bytes
        )
        assert report.findings == (), [str(finding) for finding in report.findings]
    return {name: tensor.array for name, tensor in tensors.items()}
