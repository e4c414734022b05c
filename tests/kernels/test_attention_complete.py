"""What attention must do whoever asks for it: the same algorithm's accuracy, merging, any strides, no overflow."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layoutgen as lg
from layoutgen.execution import HEAD_ORDERS, KINDS, STRIDES, Launch
from layoutgen.execution.reference import error, references
from tests.kernels.fast import HEAD_DIMS, check_run, compute, emitted, kernel
from tests.sweep_log import examples


def drawn(seed, batch, heads, kv_heads, t_q, t_k, head_dim, value_dim=None):
    rng = np.random.default_rng(seed)
    value_dim = value_dim or head_dim
    sizes = {"q": (heads, t_q, head_dim), "k": (kv_heads, t_k, head_dim), "v": (kv_heads, t_k, value_dim)}
    return {name: rng.standard_normal((batch, *size)).astype(np.float16) for name, size in sizes.items()}


def check_values(made, values, **options):
    """Post-condition: both outputs are within their bounds of float64."""
    found = compute(made, values, **options)
    for name, expected in references(made.request, values).items():
        assert (error(expected, found[name]) <= expected.bound).all(), name
    return found


# ---- accuracy


def in_float32(request, q, k, v):
    """The same algorithm in float32, of one head: tiles of block_n keys, weights rounded to float16, sums online."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    factor = np.float32(request.head_dim**-0.5 * np.log2(np.e))
    top = np.full(len(q), -np.inf, np.float32)
    total = np.zeros(len(q), np.float32)
    output = np.zeros((len(q), v.shape[1]), np.float32)
    for start in range(0, len(k), request.block_n):
        tile = slice(start, start + request.block_n)
        scores = q @ k[tile].T * factor
        new = np.maximum(top, scores.max(1))
        decay, weights = np.exp2(top - new), np.exp2(scores - new[:, None])
        total = total * decay + weights.sum(1, dtype=np.float32)
        rounded = weights.astype(np.float16).astype(np.float32)
        output = output * decay[:, None] + rounded @ v[tile]
        top = new
    return output / total[:, None]


@pytest.mark.parametrize(
    ("head_dim", "out_dtype"),
    [
        (16, "float16"),
        (24, "float32"),
        *[pytest.param(d, "float32", marks=pytest.mark.sweep) for d in (64, 96, 128, 192, 256)],
    ],
)
def test_the_error_is_that_of_the_algorithm(head_dim, out_dtype):
    """Largest error against float64 of random rows: at most 1.5 times that of the algorithm in float32."""
    block_m = 64 if head_dim == 256 else 32
    made = kernel(head_dim, out_dtype=out_dtype, block_m=block_m)
    values = drawn(3, 1, 2, 1, 64, 130, head_dim)
    exact = references(made.request, values)["out"].value
    own = [in_float32(made.request, values["q"][0, head], values["k"][0, 0], values["v"][0, 0]) for head in (0, 1)]
    allowed = 1.5 * np.abs(np.stack(own)[None].astype(out_dtype) - exact).max()
    assert 0 < np.abs(compute(made, values)["out"].astype(np.float64) - exact).max() <= allowed


def test_the_lse_of_two_halves_merges_to_that_of_the_whole():
    made = kernel(16, out_dtype="float32")
    values = drawn(4, 1, 2, 1, 40, 75, 16)
    whole = compute(made, values)
    a, b = (
        compute(made, {"q": values["q"], "k": values["k"][:, :, part], "v": values["v"][:, :, part]})
        for part in (slice(33), slice(33, 75))
    )
    merged = np.logaddexp(a["lse"], b["lse"])
    assert np.abs(merged - whole["lse"]).max() <= 5e-4
    out = sum(np.exp(part["lse"] - merged)[..., None] * part["out"] for part in (a, b))
    assert np.abs(out - whole["out"]).max() <= 5e-4


def test_scores_beyond_fp16_do_not_overflow():
    """q = k = 32 at head dim 128: every score is 131,072, more than fp16 holds; the weights are equal."""
    values = drawn(5, 1, 1, 1, 5, 21, 128)
    values["q"][:], values["k"][:] = 32, 32
    found = check_values(kernel(128), values)
    assert np.abs(found["out"] - values["v"].astype(float).mean(2, keepdims=True)).max() < 2e-3
    assert np.abs(found["lse"] - (32 * 32 * 128 * 128**-0.5 + np.log(21))).max() < 5e-2


@pytest.mark.parametrize("cap", [1e-6, 1000.0])
def test_the_bound_of_a_softcap_holds_at_its_ends(cap):
    """One key: the LSE is the score itself, and nothing averages its error away."""
    check_values(kernel(16, softcap=cap), drawn(9, 1, 2, 1, 40, 1, 16))


@pytest.mark.parametrize("sink", [1e4, -1e4, -np.inf])
def test_sinks_of_any_size(sink):
    values = drawn(10, 1, 2, 1, 20, 35, 16)
    values["sinks"] = np.full(2, sink, np.float32)
    found = check_values(kernel(16, sinks=True), values)
    assert np.isfinite(found["lse"]).all()


def test_a_sink_beyond_all_scores_leaves_nothing_to_them():
    values = {**drawn(10, 1, 2, 1, 20, 35, 16), "sinks": np.full(2, 2e38, np.float32)}
    found = compute(kernel(16, sinks=True), values)
    assert (found["out"] == 0).all()
    assert np.allclose(found["lse"], 2e38, rtol=1e-6)


# ---- heads and strides


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (3, 1)])
def test_query_heads_share_those_of_k_and_v(heads, kv_heads):
    check_run(kernel(16), Launch((2, heads, kv_heads, 20, 35, 16)))


@pytest.mark.parametrize(
    ("order", "strides", "misalign"), [("bthd", "contiguous", 0), ("bhdt", "padded", 2), ("bhtd", "expanded", 0)]
)
def test_any_order_and_strides(order, strides, misalign):
    check_run(kernel(16), Launch((2, 2, 2, 20, 35, 16), order=order, strides=strides, misalign=misalign, inputs="nan"))


def test_views_of_one_packed_array():
    """Q, K and V as they lie in [B, T, 3, H, D], every other row of it."""
    values = drawn(6, 2, 2, 2, 24, 24, 16)
    row = 3 * 2 * 16
    check_values(kernel(16), values, strides=dict.fromkeys("qkv", (48 * row, 16, 2 * row, 1)))


def test_k_and_v_that_are_expanded_over_heads_and_batches():
    values = drawn(7, 2, 2, 2, 20, 35, 16)
    for name in ("k", "v"):
        values[name] = np.broadcast_to(values[name][:1, :1], values[name].shape)
    check_values(kernel(16), values, strides=dict.fromkeys(("k", "v"), (0, 0, 16, 1)))


def test_offsets_of_64_bits_lead_to_the_same_elements():
    """The file that takes 64 bits for every launch: the executor's tensors lie across a border of 4 GiB."""
    made = kernel(16, bias=True, mask=True, causal=True)
    edited = made.source.replace("farthest >= 2**31)", "farthest >= 0)")
    assert edited != made.source
    values = drawn(8, 1, 2, 1, 40, 35, 16)
    rng = np.random.default_rng(8)
    values["bias"] = rng.standard_normal((1, 2, 40, 35)).astype(np.float16)
    values["mask"] = rng.random((1, 2, 40, 35)) < 0.8
    narrow, wide = check_values(made, values), check_values(made, values, source=edited)
    for name in narrow:
        assert (narrow[name] == wide[name]).all()


@pytest.mark.parametrize("name", ["q", "k", "v", "bias", "mask"])
def test_every_array_decides_on_the_width_of_offsets(name):
    made = kernel(32, bias=True, mask=True)
    arrays = made.request.arrays((1, 1, 1, 8, 8, 32))
    module = emitted(made).load()

    def wide(stride):
        array = arrays[name]
        far = lg.kernels.Array(array.shape, (*array.strides[:2], stride, 1), array.dtype)
        return module.launch_arguments(**{**arrays, name: far})[1][-1]

    assert wide(2**31) is True
    assert wide(-(2**31)) is True
    assert wide(2**24) is False


# ---- everything at once

COMBINATIONS = st.fixed_dictionaries(
    {
        "causal": st.booleans(),
        "window": st.none() | st.tuples(st.integers(-1, 40), st.integers(-1, 40)),
        "alignment": st.sampled_from(["top-left", "bottom-right"]),
        "softcap": st.none() | st.sampled_from([1.0, 20.0]),
        "bias": st.booleans(),
        "mask": st.booleans(),
        "sinks": st.booleans(),
        "out_dtype": st.sampled_from([None, "float32"]),
    }
)
SIZES = st.tuples(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.sampled_from([1, 31, 32, 33, 70]) | st.integers(1, 80),
    st.sampled_from([0, 1, 16, 17, 64]) | st.integers(0, 70),
)  # fmt: skip
HOW = st.fixed_dictionaries(
    {
        "inputs": st.sampled_from(sorted(set(KINDS) - {"large"})),
        "order": st.sampled_from(sorted(HEAD_ORDERS)),
        "strides": st.sampled_from(sorted(STRIDES)),
        "misalign": st.sampled_from([0, 2, 8]),
        "seed": st.integers(0, 99),
    }
)


def check_combination(head_dim, features, sizes, how, **options):
    batch, group, kv_heads, t_q, t_k = sizes
    if not features["causal"] and features["window"] is None:
        features = {**features, "alignment": "top-left"}
    made = kernel(head_dim, **features, **options)
    return check_run(made, Launch((batch, group * kv_heads, kv_heads, t_q, t_k, head_dim), **how))


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(COMBINATIONS, SIZES, HOW)
def test_any_combination(features, sizes, how):
    check_combination(16, features, sizes, how)


@pytest.mark.sweep
@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(COMBINATIONS, SIZES, HOW, st.sampled_from([16, 32]))
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_any_combination_of_every_head_dim(record_sweep, head_dim, features, sizes, how, block_n):
    result = check_combination(head_dim, features, sizes, how, block_n=block_n, block_m=64 if head_dim == 256 else 32)
    record_sweep("attention_fast", result)
