"""What the tests of the fast attention design share."""

import hashlib

import layoutgen as lg
from layoutgen.execution import call, run_kernel
from layoutgen.toolchain import read_kernel
from tests.kernels.launching import emitted

HEAD_DIMS = (16, 32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256)


def kernel(head_dim, **options):
    return lg.attention(head_dim=head_dim, design="fast", **{"block_m": 32, "block_n": 16, **options})


def check_run(made, launch):
    """Post-condition: no finding, every error within its bound, no avoidable conflict in shared memory."""
    result = run_kernel(emitted(made), launch)
    assert result.findings == (), [str(finding) for finding in result.findings]
    assert result.bound_share <= 1, result.as_dict()
    assert result.report.total.wavefronts == result.report.total.wavefronts_minimum
    return result


def compute(made, values, strides=None, source=None, **scalars):
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
    found = call(file, (batch, heads, kv_heads, t_q, t_k, head_dim, value_dim), values, strides, **scalars)
    for report in found.reports:
        assert report.findings == (), [str(finding) for finding in report.findings]
    return {name: found.arrays[name] for name in ("out", "lse")}
