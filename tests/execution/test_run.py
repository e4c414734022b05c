"""Emitted kernels, executed on the CPU with everything watched, against float64."""

import dataclasses
import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import HEAD_ORDERS, KINDS, STRIDES, TRANSPOSED, Launch, run_kernel
from layoutgen.toolchain import read_kernel
from tests.committed import committed
from tests.sweep_log import in_parts

FOLDER = tempfile.TemporaryDirectory(prefix="layoutgen-tests-")


@functools.cache
def emitted(kernel: lg.Kernel):
    folder = Path(FOLDER.name) / str(abs(hash(kernel)))
    folder.mkdir(exist_ok=True)
    return read_kernel(kernel.write(folder))


def check_run(kernel, launch, mma="v100"):
    """Post-condition: no finding, every error within its bound, every output written."""
    result = run_kernel(emitted(kernel), launch, mma)
    assert result.findings == (), [str(finding) for finding in result.findings]
    assert result.bound_share <= 1, result.as_dict()
    return result


@pytest.mark.parametrize("path", committed())
def test_the_committed_set(path):
    file = read_kernel(path)
    shape = (1, 2, 1, 70, 45, file.request.head_dim) if file.request.family == "attention" else (1, 140, 70, 45)
    result = run_kernel(file, Launch(shape, inputs="nan", strides="padded"))
    assert result.passed, result.as_dict()


@pytest.mark.parametrize("mma", ["v100", "exact"])
def test_matmul_of_integers_is_exact(mma):
    kernel = lg.matmul(block_m=64, block_n=64, block_k=32, out_dtype="float32")
    assert check_run(kernel, Launch((2, 70, 90, 130), inputs="integers"), mma).max_abs_error == 0


@pytest.mark.parametrize(("t_q", "t_k"), [(1, 1), (1, 200), (65, 1), (64, 32), (63, 33), (3, 0)])
def test_attention_at_the_edges(t_q, t_k):
    result = check_run(lg.attention(head_dim=32, block_m=64, block_n=32), Launch((1, 2, 1, t_q, t_k, 32)))
    if t_k == 0:
        assert (result.outputs["out"] == 0).all()
        assert (result.outputs["lse"] == -np.inf).all()


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 65, 1, 3), (3, 2, 70, 0), (1, 64, 64, 32)])
@pytest.mark.parametrize("b_order", ["kn", "nk"])
def test_matmul_at_the_edges(shape, b_order):
    check_run(lg.matmul(block_m=64, block_n=64, block_k=32, b_order=b_order), Launch(shape))


@pytest.mark.parametrize("arrangement", ["m3,n3", "m2,n3", "m0,n0", "m3,m4", "n3,n4"])
def test_arrangements_of_the_quadpairs(arrangement):
    """Where the quadpairs go changes every layout and no result."""
    kernel = lg.matmul(block_m=64, block_n=64, block_k=16, arrangement=arrangement, out_dtype="float32")
    assert check_run(kernel, Launch((1, 70, 80, 40), inputs="integers")).max_abs_error == 0
    check_run(lg.attention(head_dim=32, block_m=64, block_n=32, arrangement=arrangement), Launch((1, 1, 1, 50, 40, 32)))


def test_more_threads_than_elements():
    """Sixteen columns of four k against 128 threads: some threads hold copies, and the copies agree."""
    kernel = lg.matmul(block_m=16, block_n=64, block_k=4, warps="1x4", out_dtype="float32")
    assert check_run(kernel, Launch((1, 20, 70, 10), inputs="integers")).max_abs_error == 0


def test_the_head_dim_of_256():
    check_run(lg.attention(head_dim=256), Launch((1, 1, 1, 20, 40, 256)))


# Few kernels and many launches: compiling costs ten times what executing does.
ATTENTION = tuple(
    lg.attention(head_dim=head_dim, block_m=block_m, block_n=block_n, bias=bias)
    for head_dim, block_m, block_n, bias in (
        (16, 16, 16, False),
        (24, 32, 16, True),
        (40, 16, 32, False),
        (64, 32, 32, True),
        (80, 16, 16, False),
        (96, 16, 16, True),
    )
)


@st.composite
def attention_cases(draw, kernels):
    kernel = draw(kernels)
    head_dim = kernel.request.head_dim
    kv_heads, group = draw(st.sampled_from(((1, 1), (2, 1), (1, 2))))
    sizes = st.integers(1, 70)
    shape = (draw(st.integers(1, 2)), kv_heads * group, kv_heads, draw(sizes), draw(sizes), head_dim)
    return kernel, draw(launches(shape, HEAD_ORDERS))


MATMUL = tuple(
    lg.matmul(block_m=m, block_n=n, block_k=k, warps=warps, b_order=order, out_dtype=dtype)
    for m, n, k, warps, order, dtype in (
        (32, 32, 16, "1x1", "kn", "float16"),
        (32, 32, 16, "2x1", "nk", "float32"),
        (64, 32, 32, "2x2", "kn", "float32"),
        (16, 64, 4, "1x2", "nk", "float16"),
        (32, 64, 8, "2x2", "kn", "float16"),
    )
)


@st.composite
def matmul_cases(draw, kernels):
    kernel = draw(kernels)
    sizes = st.integers(1, 70)
    return kernel, draw(launches((draw(st.integers(1, 2)), draw(sizes), draw(sizes), draw(sizes)), TRANSPOSED))


def launches(shape, orders):
    return st.builds(
        Launch,
        shape=st.just(shape),
        inputs=st.sampled_from(tuple(KINDS)),
        order=st.sampled_from(tuple(orders)),
        strides=st.sampled_from(tuple(STRIDES)),
        misalign=st.sampled_from((0, 0, 2, 8, 16)),
        seed=st.integers(0, 2**16),
    )


SWEPT = (*ATTENTION, *(lg.attention(head_dim=d, block_m=16, block_n=16) for d in (32, 48, 72, 88, 112, 128)))
"""Kernels of the sweep: every kind of split, in tiles that compile quickly."""


def any_matmul():
    return st.builds(
        lg.matmul,
        block_m=st.sampled_from((32, 64)),
        block_n=st.sampled_from((32, 64)),
        block_k=st.sampled_from((4, 16, 32)),
        warps=st.sampled_from(("1x1", "2x1", "2x2")),
        b_order=st.sampled_from(("kn", "nk")),
        out_dtype=st.sampled_from(("float16", "float32")),
    )


QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LONG = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=False)


@QUICK
@given(attention_cases(st.sampled_from(ATTENTION)))
def test_attention_against_float64(case):
    kernel, launch = case
    for other in launches_like(launch, 3):
        check_run(kernel, other)


@QUICK
@given(matmul_cases(st.sampled_from(MATMUL)))
def test_matmul_against_float64(case):
    kernel, launch = case
    for other in launches_like(launch, 3):
        check_run(kernel, other)


def launches_like(launch, count=8):
    """Launches that compile to the same code, which costs more than executing it: other seeds and odd sizes."""
    for step in range(count):
        head, sizes, rest = launch.shape[:-3], launch.shape[-3:-1], launch.shape[-1]
        if len(launch.shape) == 4:  # matmul: Z, then M, N, K
            head, sizes, rest = launch.shape[:1], launch.shape[1:3], launch.shape[3]
        grown = tuple(size + 2 * step * (index + 1) if size % 2 else size for index, size in enumerate(sizes))
        yield dataclasses.replace(launch, shape=(*head, *grown, rest), seed=launch.seed + step)


@in_parts
@LONG
@given(attention_cases(st.sampled_from(SWEPT)))
def test_attention_sweep(record_sweep, case):
    kernel, launch = case
    for other in launches_like(launch):
        record_sweep("attention", check_run(kernel, other))


@in_parts
@LONG
@given(matmul_cases(any_matmul()))
def test_matmul_sweep(record_sweep, case):
    kernel, launch = case
    for other in launches_like(launch):
        record_sweep("matmul", check_run(kernel, other))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": "strange"}, "inputs 'strange': must be one of normal, integers, large, nan"),
        ({"strides": "strange"}, "strides 'strange': must be one of contiguous, padded, expanded"),
        ({"misalign": 3}, "misalign 3: must be an even number of bytes below 256"),
        ({"order": "bhtd"}, "order 'bhtd': must be one of nn, nt, tn, tt"),
    ],
)
def test_launches_that_are_none(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        check_run(lg.matmul(block_m=64, block_n=64), Launch(**({"shape": (1, 8, 8, 8)} | fields)))


def test_ptx_for_newer_cards_still_has_voltas_instruction():
    """From sm_80 on it is emulated in SASS only, so V100 arithmetic applies to the PTX of any architecture."""
    result = run_kernel(emitted(lg.matmul(block_m=64, block_n=64)), Launch((1, 8, 8, 8)), arch="sm_80")
    assert result.report.total.mma > 0
