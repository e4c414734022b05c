"""What the tests of the fast attention design share."""

import functools
import tempfile
from pathlib import Path

import layoutgen as lg
from layoutgen.execution import run_kernel
from layoutgen.toolchain import read_kernel

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
