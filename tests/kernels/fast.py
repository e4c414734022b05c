"""What the tests of the fast attention design share."""

import functools
import hashlib
import tempfile
from pathlib import Path

import layoutgen as lg
from layoutgen.cpu import Tensor, launch, parse_ptx
from layoutgen.execution import run_kernel
from layoutgen.kernels.request import Array, contiguous
from layoutgen.toolchain import build_kernel, read_kernel

FOLDER = tempfile.TemporaryDirectory(prefix="layoutgen-tests-")
HEAD_DIMS = (16, 32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256)


def kernel(head_dim, **options):
    return lg.attention(head_dim=head_dim, design="fast", **{"block_m": 32, "block_n": 16, **options})


@functools.cache
def emitted(made: lg.Kernel):
    folder = Path(FOLDER.name) / str(abs(hash(made)))
    folder.mkdir(exist_ok=True)
    return read_kernel(made.write(folder))


def check_run(made, launch):
    """Post-condition: no finding, every error within its bound, no avoidable conflict in shared memory."""
    result = run_kernel(emitted(made), launch)
    assert result.findings == (), [str(finding) for finding in result.findings]
    assert result.bound_share <= 1, result.as_dict()
    assert result.report.total.wavefronts == result.report.total.wavefronts_minimum
    return result


def compute(made, values, strides=None, scale=None, source=None):
    """Return the outputs of a kernel for given inputs, by name. Post-condition: no finding.

    `strides` are those of single inputs, in elements; `source` replaces the kernel's file.
    """
    file = emitted(made)
    if source is not None:
        path = file.path.with_name(f"edited_{hashlib.sha256(source.encode()).hexdigest()[:8]}.py")
        path.write_text(source)
        file = read_kernel(path)
    batch, heads, t_q, head_dim = values["q"].shape
    _, kv_heads, t_k, value_dim = values["v"].shape
    arrays = made.request.arrays((batch, heads, kv_heads, t_q, t_k, head_dim, value_dim))
    for name, value in values.items():
        dtype = str(value.dtype)
        own = (strides or {}).get(name)
        arrays[name] = contiguous(value.shape, dtype) if own is None else Array(value.shape, own, dtype)
    build = build_kernel(file, "sm_70", arrays, **({} if scale is None else {"scale": scale}))
    tensors = {name: Tensor.input(name, value, arrays[name].strides) for name, value in values.items()}
    for name in ("out", "lse"):
        tensors[name] = Tensor.output(name, arrays[name].shape, arrays[name].dtype)
    arguments = [tensors.get(name, value) for name, value in build.arguments]
    report = launch(parse_ptx(build.ptx), build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes)
    assert report.findings == (), [str(finding) for finding in report.findings]
    return {name: tensors[name].array for name in ("out", "lse")}
