"""Emitted kernels on given arrays: every kernel of a call, executed in order in V100 arithmetic."""

import functools
import tempfile
from pathlib import Path

import layoutgen as lg
from layoutgen.execution import call
from layoutgen.toolchain import read_kernel

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
    called = call(file, shape, values, strides, kernels=kernels, **scalars)
    for report in called.reports:
        assert report.findings == (), [str(finding) for finding in report.findings]
    return called.arrays
