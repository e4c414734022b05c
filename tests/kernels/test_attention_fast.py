"""The fast design of attention: its request, what it emits, and that it computes attention."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layoutgen as lg
from layoutgen.emission.attention_fast import fast_attention_context, rounding
from layoutgen.errors import LayoutgenError
from layoutgen.execution import HEAD_ORDERS, KINDS, STRIDES, Launch, run_kernel
from layoutgen.execution.reference import error, references
from layoutgen.kernels import request_from_dict
from layoutgen.proofs import refutations
from layoutgen.readback.source import prove_source
from tests.kernels.fast import HEAD_DIMS, check_run, compute, emitted, kernel
from tests.sweep_log import examples

# ---- the request


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_obligation_holds(head_dim):
    made = kernel(head_dim, block_m=64, block_n=32)
    assert refutations(made.proofs) == ()
    request = made.request
    assert request.block_m // request.row_warps == 32
    assert request.column_warps == (2 if head_dim > 128 else 1)
    assert made.plan.instructions == 2 * 64 * 32 * sum(request.parts) // request.num_warps // 1024


def test_the_request_survives_its_file():
    made = kernel(96)
    data = made.request.as_dict()
    assert data["design"] == "fast"
    assert request_from_dict(data) == made.request
    assert emitted(made).request == made.request
    assert "--design fast" in made.source


def test_what_the_design_cannot_do_is_refused():
    with pytest.raises(LayoutgenError, match="at least 32, the query rows of a warp"):
        kernel(64, block_m=16)
    with pytest.raises(LayoutgenError, match="design 'quick': must be one of simple, fast"):
        lg.attention(head_dim=64, design="quick", block_m=64, block_n=32)
    with pytest.raises(LayoutgenError, match=r"of m8n8k4.row.row's operands along k and n: .* m8n8k4$"):
        lg.attention(head_dim=64, design="fast", atom="m8n8k4.row.row")
    with pytest.raises(LayoutgenError, match="two free lane bits"):
        lg.attention(head_dim=64, design="fast", atom="m16n8k8", block_m=64, block_n=32)


def test_a_file_is_proved_as_it_stands():
    made = kernel(48)
    path = emitted(made).path
    assert refutations(prove_source(path, made.source, made.request)) == ()


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("WEIGHTS", "[0, 2],  # v1: n1", "[2, 0],  # v1: n1"),
        ("FRAGMENT_K", "[0, 4],  # step0: k2", "[0, 2],  # step0: k2"),
        ("FRAGMENT_V32", "[0, 16],  # q1: d4", "[0, 8],  # q1: d4"),
        ("MATRIX_O32", "[0, 4],  # nb0: d2", "[0, 8],  # nb0: d2"),
    ],
)
def test_a_wrong_basis_in_a_file_is_refuted(name, before, after):
    made = kernel(48)
    head, tail = made.source.split(f"\n{name} = ", 1)
    assert before in tail
    wrong = f"{head}\n{name} = {tail.replace(before, after, 1)}"
    assert refutations(prove_source(emitted(made).path, wrong, made.request))


# ---- features

FEATURES = (
    {"causal": True},
    {"causal": True, "alignment": "bottom-right"},
    {"window": (20, 0)},
    {"window": (0, 0)},
    {"window": (-1, 3)},
    {"window": (5, 7), "alignment": "bottom-right"},
    {"window": (18, -1)},
    {"softcap": 3.0},
    {"sinks": True, "causal": True, "alignment": "bottom-right"},
    {"sinks": True, "out_dtype": "float32"},
    {"bias": True},
    {"mask": True},
    {"mask": True, "bias": True, "causal": True, "sinks": True},
    {"bias": True, "window": (7, 9), "alignment": "bottom-right", "softcap": 2.0, "sinks": True},
)


def name_of(features):
    return "-".join(f"{name}={value}" for name, value in features.items())


@pytest.mark.parametrize("features", FEATURES, ids=name_of)
def test_a_feature_survives_its_file_and_is_proved(features):
    made = kernel(48, **features)
    assert request_from_dict(made.request.as_dict()) == made.request
    assert refutations(prove_source(emitted(made).path, made.source, made.request)) == ()
    command = made.source.split("layoutgen emit", 1)[1].split('"""', 1)[0]
    assert all(f"--{name.replace('_', '-')}" in command for name in features)


@pytest.mark.parametrize(
    "word",
    [
        "visible & ",
        "num_programs",
        "ahead",
        "sink",
        "gl.minimum",
        "1.0 + ",
        "reference",
        "own_key",
        "first_tile",
        "added",
        "key_of",
        "attended",
    ],
)
def test_what_is_left_out_costs_nothing(word):
    assert word not in kernel(48).source


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": (3,)}, r"must be tuple\[int, int\]"),
        ({"window": (-2, 0)}, "must be two numbers, left and right"),
        ({"alignment": "middle", "causal": True}, "must be one of top-left, bottom-right"),
        ({"alignment": "bottom-right"}, "nothing is aligned without causal or a window"),
        ({"window": (2**31, 0)}, "must be at most 1073741824 keys to a side"),
        ({"softcap": 0.0}, r"must lie in 1e-06\.\.1000"),
        ({"softcap": 1e5}, r"must lie in 1e-06\.\.1000"),
        ({"softcap": float("nan")}, r"must lie in 1e-06\.\.1000"),
        ({"arrangement": "m2,n3"}, "lane bit q1 must be .*; the nearest that is: m2,n2"),
        ({"out_dtype": "bfloat16"}, "must be one of float16, float32"),
    ],
)
def test_a_feature_that_is_none_is_refused(options, message):
    with pytest.raises(LayoutgenError, match=message):
        kernel(48, **options)


def test_the_simple_design_takes_no_features():
    with pytest.raises(LayoutgenError, match=r"design simple: takes no causal; fast does: take design fast$"):
        lg.attention(head_dim=64, causal=True)


@pytest.mark.parametrize("features", FEATURES, ids=name_of)
@pytest.mark.parametrize(("t_q", "t_k"), [(37, 70)])
def test_a_feature_against_float64(features, t_q, t_k):
    check_run(kernel(16, **features), Launch((1, 2, 1, t_q, t_k, 16), inputs="nan"))


@pytest.mark.parametrize(
    ("head_dim", "block_n", "t_k"),
    [
        (16, 32, 64),
        (16, 32, 48),
        *[pytest.param(d, 64 if d == 64 else 32, t, marks=pytest.mark.sweep) for d in (64, 96) for t in (128, 112, 96)],
    ],
)
def test_a_mask_of_aligned_rows(head_dim, block_n, t_k):
    """Row strides of whole 16 bytes: masks come in vectors, whose undefined halves the executor must let pass."""
    made = kernel(head_dim, mask=True, block_n=block_n)
    check_run(made, Launch((1, 1, 1, 32, t_k, head_dim)))


def test_rows_without_a_key_are_empty():
    """Of 40 queries over 10 keys, aligned at the last, the first 30 see none: not all of the first block."""
    result = check_run(kernel(16, causal=True, alignment="bottom-right"), Launch((1, 1, 1, 40, 10, 16)))
    assert (result.outputs["out"][0, 0, :30] == 0).all()
    assert (result.outputs["lse"][0, 0, :30] == -np.inf).all()
    assert np.isfinite(result.outputs["lse"][0, 0, 30:]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("kind", ["-inf", "least"])
def test_rows_of_the_least_bias(kind, dtype):
    """A bias of -inf hides a key; the most negative finite number, in all of a row, hides none of them."""
    made = kernel(16, bias=True, block_n=32)
    value = -np.inf if kind == "-inf" else float(np.finfo(dtype).min)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, length, 16)).astype(np.float16) for length in (20, 70, 70))
    bias = rng.standard_normal((1, 1, 20, 70)).astype(dtype)
    bias[..., 3, :] = value
    bias[..., 5, :40] = value
    found = compute(made, {"q": q, "k": k, "v": v, "bias": bias})
    out, lse = found["out"][0, 0], found["lse"][0, 0]
    assert np.isfinite(np.delete(lse, 3)).all()
    assert not np.isnan(out).any()
    if kind == "-inf":
        assert (out[3] == 0).all()
        assert lse[3] == -np.inf
    else:
        # Of fp32 all scores vanish beside it; of fp16 they do not.
        scores = (q[0, 0, 3].astype(float) @ k[0, 0].astype(float).T / 4) * (dtype == "float16")
        weights = np.exp(scores - scores.max())
        assert np.abs(out[3] - weights / weights.sum() @ v[0, 0].astype(float)).max() < 1e-2
    scores = q[0, 0, 5].astype(float) @ k[0, 0].astype(float).T / 4 + bias[0, 0, 5]
    weights = np.exp(scores - scores.max())
    assert np.abs(out[5] - weights / weights.sum() @ v[0, 0].astype(float)).max() < 2e-3


def test_a_mask_of_bytes_that_is_broadcast():
    """Any byte but 0 attends, here of a mask for all heads and queries; keys beyond the tail stay hidden."""
    made = kernel(16, mask=True)
    rng = np.random.default_rng(1)
    sizes = {"q": (2, 2, 20, 16), "k": (2, 1, 35, 16), "v": (2, 1, 35, 16)}
    values = {name: rng.standard_normal(size).astype(np.float16) for name, size in sizes.items()}
    row = rng.choice(np.array([0, 1, 2, 128, 255], np.uint8), 35)
    values["mask"] = np.broadcast_to(row, (2, 2, 20, 35))
    found = compute(made, values, {"mask": (0, 0, 0, 1)})
    expected = references(made.request, values)
    for name in ("out", "lse"):
        assert (error(expected[name], found[name]) <= expected[name].bound).all()
    hidden = references(made.request, {**values, "mask": np.ones_like(values["mask"])})["lse"]
    assert (error(hidden, found["lse"]) > hidden.bound).any()


def test_hidden_tiles_are_skipped():
    whole = check_run(kernel(16), Launch((1, 1, 1, 128, 128, 16))).report.total.mma
    causal = check_run(kernel(16, causal=True), Launch((1, 1, 1, 128, 128, 16))).report.total.mma
    assert causal == whole * (2 + 4 + 6 + 8) // 32


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 90), st.integers(0, 90)),
    causal=st.booleans(),
    window=st.none() | st.tuples(st.integers(-1, 40), st.integers(-1, 40)),
    alignment=st.sampled_from(["top-left", "bottom-right"]),
    softcap=st.none() | st.sampled_from([1.0, 20.0]),
    sinks=st.booleans(),
    block_n=st.sampled_from([16, 32]),
)
def test_any_combination_of_features(record_sweep, sizes, causal, window, alignment, softcap, sinks, block_n):
    heads, t_q, t_k = sizes
    options = {"causal": causal, "window": window, "softcap": softcap, "sinks": sinks}
    if causal or window is not None:
        options["alignment"] = alignment
    result = check_run(kernel(16, block_n=block_n, **options), Launch((1, heads, 1, t_q, t_k, 16), inputs="nan"))
    record_sweep("attention_fast", result)


# ---- execution


@pytest.mark.parametrize(("t_q", "t_k"), [(1, 1), (1, 40), (33, 1), (32, 32), (31, 17), (3, 0)])
def test_lengths_at_the_edges(t_q, t_k):
    result = check_run(kernel(16), Launch((1, 2, 1, t_q, t_k, 16)))
    if t_k == 0:
        assert (result.outputs["out"] == 0).all()
        assert (result.outputs["lse"] == -np.inf).all()


@pytest.mark.parametrize("head_dim", [16, 40, 72])
def test_values_beyond_the_tensors_never_matter(head_dim):
    check_run(kernel(head_dim), Launch((1, 2, 1, 35, 21, head_dim), inputs="nan", strides="padded"))


LAUNCHES = st.builds(
    lambda batch, group, kv_heads, t_q, t_k, **options: (
        (batch, group * kv_heads, kv_heads, t_q, t_k),
        options,
    ),
    batch=st.integers(1, 2),
    group=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    t_q=st.integers(1, 70),
    t_k=st.integers(0, 50),
    inputs=st.sampled_from(sorted(set(KINDS) - {"large"})),
    order=st.sampled_from(sorted(HEAD_ORDERS)),
    strides=st.sampled_from(sorted(STRIDES)),
    misalign=st.sampled_from([0, 2, 8]),
    seed=st.integers(0, 99),
)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(LAUNCHES, st.sampled_from([16, 40]))
def test_any_launch(launch, head_dim):
    sizes, options = launch
    check_run(kernel(head_dim), Launch((*sizes, head_dim), **options))


@pytest.mark.sweep
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(launch=LAUNCHES, block_m=st.sampled_from([32, 64, 128]), block_n=st.sampled_from([16, 32, 64]))
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_any_launch_of_every_head_dim(record_sweep, head_dim, launch, block_m, block_n):
    sizes, options = launch
    if head_dim > 128:
        # Partial sums lie in the buffers of K and V, which have room for as many rows.
        block_m, block_n = block_m if head_dim == 256 else min(block_m, 64), 32
    made = kernel(head_dim, block_m=block_m, block_n=block_n)
    record_sweep("attention_fast", check_run(made, Launch((*sizes, head_dim), **options)))


# ---- the host function


@pytest.mark.parametrize("scale", [-1.0, 0.0, 1e-46, 1e31, float("inf"), float("nan")])
def test_a_scale_that_is_not_positive_or_that_fp32_does_not_hold_is_refused(scale):
    made = kernel(32)
    arrays = made.request.arrays((1, 1, 1, 8, 8, 32))
    with pytest.raises(ValueError, match=r"must lie in 1e-30\.\.1e30"):
        emitted(made).load().launch_arguments(**arrays, scale=scale)


def test_offsets_have_64_bits_only_where_they_must():
    made = kernel(32)
    arrays = made.request.arrays((1, 1, 1, 8, 8, 32))
    module = emitted(made).load()
    assert module.launch_arguments(**arrays)[1][-1] is False
    k = arrays["k"]
    far = lg.kernels.Array(k.shape, (*k.strides[:2], 2**27, 1), k.dtype)
    assert module.launch_arguments(**{**arrays, "k": far})[1][-1] is True


# ---- the rounding of the weights


def test_weights_are_rounded_to_the_nearest_half():
    """Oracle: numpy. The constants and the shift of `rounded`, on every weight that a conversion would keep."""
    how = fast_attention_context(kernel(48).request)["rounding"]
    for exponent in range(-25, 1):
        weights = np.ldexp(np.linspace(1, 2, 5000, endpoint=False, dtype=np.float32), exponent)
        weights = weights[weights <= 1]
        bits = np.ldexp(weights, -how.low).astype(np.float32).view(np.uint32)
        halves = ((bits * np.uint32(8) + np.uint32(0x8000)) >> 16).astype(np.uint16).view(np.float16)
        exact = np.ldexp(weights.astype(np.float64), how.high)
        assert (np.abs(halves - exact) <= np.abs(exact.astype(np.float16) - exact)).all()
    assert "8, 0x8000" in how.asm[0]
    assert [kernel(48).source.count(f'"{line}"') for line in how.asm] == [1, 1]
    with pytest.raises(LayoutgenError, match="bfloat16 has other exponents"):
        rounding("bfloat16")


def test_the_machine_code_of_the_rounding_is_executed():
    """ptxas miscompiles a sequence like that of `rounded` where a multiplication precedes it."""
    result = run_kernel(emitted(kernel(16)), Launch((1, 1, 1, 20, 30, 16)), level="sass")
    assert result.passed
