"""launch: a whole kernel against float64, the report, and launches that must be refused."""

from __future__ import annotations

import numpy as np
import pytest

from layoutgen.cpu import ExecutionError, Tensor, launch, parse_ptx
from tests.cpu.conftest import run_attention, slim_ptx


@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (32, 16), (33, 17), (45, 37), (100, 100)])
@pytest.mark.parametrize("mma", ["v100", "exact"])
def test_attention_matches_float64(rows: int, keys: int, mma: str) -> None:
    run = run_attention(slim_ptx(), rows, keys, mma=mma)
    assert run.report.clean, str(run.report)
    assert run.error < 2e-3


def test_arithmetics_differ_in_bits_only() -> None:
    a, b = (run_attention(slim_ptx(), 45, 200, mma=m) for m in ("v100", "exact"))
    assert (a.lse != b.lse).any()
    assert np.abs(a.lse - b.lse).max() < 1e-5


def test_any_number_of_blocks_at_once_gives_the_same() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((100, 16)).astype(np.float16) for _ in range(3))
    results = []
    for threads in (1, 128, 8192):
        out, lse = Tensor.output("o", (100, 16), "f2"), Tensor.output("lse", (100,), "f4")
        inputs = [Tensor.input(n, a) for n, a in (("q", q), ("k", k), ("v", v))]
        seen: list[int] = []
        report = launch(
            slim_ptx(), 4, 2, [*inputs, out, lse, 0.3, 16, 16, 16, 16, 100, 100],
            shared_bytes=3072, threads_at_once=threads, progress=lambda done, _all, seen=seen: seen.append(done),
        )  # fmt: skip
        assert report.clean
        assert seen[-1] == 4
        results.append((out.array.tobytes(), lse.array.tobytes(), report.total))
    assert results[0] == results[1] == results[2]


def test_strided_operands() -> None:
    run = run_attention(slim_ptx(), 45, 37, stride=48)
    assert run.report.clean, str(run.report)
    assert run.error < 2e-3


def test_report_counts_lines() -> None:
    report = run_attention(slim_ptx(), 32, 16).report
    lines = {source.line: cost for source, cost in report.lines.items() if source.file == "slim_attention.py"}
    assert sum(cost.mma for cost in lines.values()) == report.total.mma == 16  # 8 k-steps x 2 warps
    assert all(source.file == "slim_attention.py" for source in report.lines)
    assert "16 mma" in str(report)
    assert (report.races, report.out_of_bounds, report.uninitialised) == (0, 0, 0)


def test_aliased_pointer_is_one_tensor() -> None:
    x = Tensor.input("x", np.ones(32, np.float32))
    text = _copy_kernel()
    out = Tensor.output("y", (32,), "f4")
    assert launch(text, 1, 1, [x, out]).clean
    assert (out.array == 1).all()


def _copy_kernel() -> str:
    return """
.version 8.8
.target sm_70
.visible .entry copy(.param .u64 x, .param .u64 y) .reqntid 32 {
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [x]; ld.param.u64 %rd1, [y];
mov.u32 %r0, %tid.x;
mad.wide.u32 %rd2, %r0, 4, %rd0; mad.wide.u32 %rd3, %r0, 4, %rd1;
ld.global.b32 %r1, [%rd2]; st.global.b32 [%rd3], %r1;
ret; }
"""


def test_refusals() -> None:
    program = parse_ptx(slim_ptx())
    with pytest.raises(ExecutionError, match="shared_bytes"):
        launch(program, 1, 2, [])
    with pytest.raises(ExecutionError, match="compiled for 2"):
        launch(program, 1, 4, [], shared_bytes=0)
    with pytest.raises(ExecutionError, match="no arithmetic"):
        launch(program, 1, 2, [], shared_bytes=0, mma="a100")
    with pytest.raises(ExecutionError, match="is missing"):
        launch(program, 1, 2, [], shared_bytes=0)
    with pytest.raises(ExecutionError, match="grid"):
        launch(program, 0, 2, [], shared_bytes=0)
    with pytest.raises(ExecutionError, match="wants u64"):
        launch(program, 1, 2, [0.5], shared_bytes=0)


def test_cost_is_linear_in_the_work() -> None:
    steps = [run_attention(slim_ptx(), 32, keys).report.steps for keys in (16, 32, 48, 64)]
    assert steps[1] - steps[0] == steps[2] - steps[1] == steps[3] - steps[2] > 0


def test_launches_may_share_tensors() -> None:
    """A second launch overwrites the first one's output, from other blocks, and is no race."""
    out = Tensor.output("y", (32,), "f4")
    for value in (1, 2):
        assert launch(_copy_kernel(), 1, 1, [Tensor.input("x", np.full(32, value, np.float32)), out]).clean
        assert (out.array == value).all()
    again = Tensor.output("z", (32,), "f4")
    assert launch(_copy_kernel(), 1, 1, [out, again]).clean  # what was written may be read
