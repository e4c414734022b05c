"""fp32 operands through two 16-bit parts: what the parts hold, and what the product is off by."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, call, run_kernel
from layoutgen.execution.reference import matmul_reference
from layoutgen.kernels import request_from_dict
from layoutgen.kernels.request import contiguous
from layoutgen.proofs import refutations
from layoutgen.readback.source import prove_source
from tests.kernels.launching import emitted, execute, kernel

ORDERS = [(a, b) for a in ("mk", "km") for b in ("kn", "nk")]
BOUND = 2.0**-18
"""What a product of random matrices may be off by per element, relative to |A| |B|, when tiles are added apart."""


def parts(**fields):
    return kernel(operand_dtype="float32", **fields)


@pytest.mark.parametrize("accumulate", ["unit", "tile"])
@pytest.mark.parametrize("k", [0, 16, 33])
def test_integers_are_exact(accumulate, k):
    result = run_kernel(emitted(parts(accumulate=accumulate)), Launch((2, 33, 40, k), inputs="integers"))
    assert result.passed, result.as_dict()
    assert result.max_abs_error == 0


def in_order(matrix, order, usual):
    return np.ascontiguousarray(matrix if order == usual else matrix.swapaxes(-1, -2))


def product(made, a, b, **scalars):
    """Return C, the float64 product, and |A| |B|, for A [M, K] and B [K, N] whatever the order of the kernel."""
    request = made.request
    values = {"a": in_order(a[None], request.a_order, "mk"), "b": in_order(b[None], request.b_order, "kn")}
    c = execute(made, values, **scalars)["c"][0]
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return c, a64 @ b64, np.abs(a64) @ np.abs(b64)


@pytest.mark.parametrize(
    ("a_order", "b_order"),
    [("mk", "kn"), ("km", "nk"), *(pytest.param(*order, marks=pytest.mark.sweep) for order in ORDERS)],
)
def test_random_matrices_are_within_the_bound(a_order, b_order):
    """In both: signs at random, and terms of one sign, whose truncations in the tensor core add up."""
    rng = np.random.default_rng(5)
    made = parts(a_order=a_order, b_order=b_order, accumulate="tile")
    for draw in (rng.standard_normal, rng.random):
        a, b = draw((33, 300)).astype(np.float32), draw((300, 40)).astype(np.float32)
        got, exact, magnitude = product(made, a, b)
        assert (np.abs(got - exact) <= BOUND * magnitude).all()
        halves = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
        assert (np.abs(halves - exact) > BOUND * magnitude).any()  # which one part alone would not be


def numbers(low, high):
    """Float32 numbers of any magnitude between powers of two, either sign, and zero."""
    power = st.integers(low, high - 1)
    one = st.builds(
        lambda e, f, s: s * np.ldexp(1 + f / 2**23, e), power, st.integers(0, 2**23 - 1), st.sampled_from((1, -1))
    )
    return st.one_of(st.just(0.0), one)


SPLIT = {order: parts(a_order=order) for order in ("mk", "km")}


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.lists(numbers(-149, 128), min_size=20, max_size=20), order=st.sampled_from(("mk", "km")))
def test_parts_hold_what_is_promised(data, order):
    """2^-23 of an element, or 2^-39 of the largest of its row: exact powers of two, and no overflow anywhere."""
    check_parts(np.array(data, np.float32).reshape(1, 4, 5), order)


@pytest.mark.sweep
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.lists(numbers(-149, 128), min_size=20, max_size=20), order=st.sampled_from(("mk", "km")))
def test_parts_sweep(data, order):
    check_parts(np.array(data, np.float32).reshape(1, 4, 5), order)


def check_parts(a, order):
    found = execute(
        SPLIT[order],
        {"a": in_order(a, order, "mk"), "b": np.zeros((1, 5, 3), np.float32)},
        kernels=1,
    )
    three = in_order(found["a_parts"], order, "mk")[:, :4].astype(np.float64).reshape(1, 4, 3, -1)
    lo, hi, last = three[:, :, 0, :5], three[:, :, 1, :5], three[:, :, 2, :5]
    scale = np.ldexp(1.0, found["a_exponents"])[:, :, None]
    assert np.array_equal(hi, last)
    assert not three[..., 5:].any()  # the rest of the last K tile
    a64 = a.astype(np.float64)
    largest = np.abs(a64).max(-1, keepdims=True)
    off = np.abs(scale * (hi + lo) - a64)
    assert (off <= np.maximum(2.0**-23 * np.abs(a64), 2.0**-39 * largest)).all()
    normal = largest[..., 0] >= 2.0**-126
    top = np.abs(hi).max(-1)
    assert (top[normal] >= 2.0**14).all()
    assert (top <= 2.0**15).all()


def test_rows_and_columns_of_any_magnitude():
    """Scales are undone without overflow on the way, down to subnormal results."""
    rng = np.random.default_rng(6)
    rows, columns = np.ldexp(1.0, rng.integers(-140, 121, 33)), np.ldexp(1.0, rng.integers(-140, 121, 40))
    rows[:2], columns[:2] = (2.0**120, 2.0**-140), (2.0**-140, 2.0**120)
    a = (rng.standard_normal((33, 20)) * rows[:, None]).astype(np.float32)
    b = (rng.standard_normal((20, 40)) * columns).astype(np.float32)
    got, exact, _ = product(parts(), a, b)
    reference = matmul_reference(parts().request, {"a": a[None], "b": b[None]})
    fits = np.abs(exact) < 2.0**127
    assert 0.3 < fits.mean() < 0.9
    assert (np.abs(got - exact) <= reference.bound[0])[fits].all()
    assert np.isinf(got[np.abs(exact) > 2.0**129]).all()
    assert (got[np.abs(exact) < 2.0**-151] == 0).all()
    assert (np.sign(got) == np.sign(exact))[(np.abs(exact) > 2.0**-140)].all()


def test_small_elements_beside_a_large_one():
    """The worst case: what is 2^-30 of its row's largest has 9 bits left, and what is 2^-41 of it none at all."""
    a, b = np.zeros((3, 16), np.float32), np.zeros((16, 2), np.float32)
    a[:, 0] = 1
    a[1, 1], a[2, 1] = np.float32(2.0**-30 * (1 + 2.0**-9 + 2.0**-10)), 2.0**-41
    b[1] = 1
    got, exact, magnitude = product(parts(), a, b)
    off = np.abs(got - exact)
    reference = matmul_reference(parts().request, {"a": a[None], "b": b[None]})
    assert (off <= reference.bound[0]).all()
    assert off[1, 0] > BOUND * magnitude[1, 0]
    assert got[1, 0] == 2.0**-30 * (1 + 2.0**-8)
    assert (got[2] == 0).all()


def test_what_is_not_finite_stays_where_it_is():
    """As in IEEE arithmetic: an infinity makes infinities of its sign, and NaN only against zeros or its negative."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal((6, 20)).astype(np.float32)
    b = rng.standard_normal((20, 5)).astype(np.float32)
    a[0], b[:, 0] = 0, 0
    a[1, 3], a[2, 4], a[3, 5], a[4, (6, 7)] = np.inf, np.nan, -np.inf, np.inf
    b[8, 1], b[9, 2] = np.inf, np.nan
    a[:, 8] = np.abs(a[:, 8]) + 1
    a[0] = 0
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    got, _, _ = product(parts(), a, b)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[np.isinf(want)], want[np.isinf(want)])
    finite = np.isfinite(want)
    assert finite.sum() > 5
    assert (np.abs(got[finite] - want[finite]) < 1e-4).all()


def test_with_all_that_follows_and_a_split_k():
    made = parts(split_k=2, scale=True, bias=True, epilogue="gelu", rounded=True, residual=True, out_dtype="float16")
    result = run_kernel(emitted(made), Launch((2, 33, 40, 70), inputs="nan"), level="sass")
    assert result.passed, result.as_dict()


def test_kernels_and_workspace():
    file = emitted(parts(a_order="km", b_order="nk", split_k=2))
    assert file.kernels == ("split_a_kernel", "split_b_kernel", "matmul_kernel", "finish_kernel")
    arrays = file.request.arrays((2, 33, 40, 50))
    assert file.load().workspace(arrays["a"], arrays["b"]) == {
        "a_parts": ((2, 3 * 64, 48), "float16"),
        "a_exponents": ((2, 33), "int32"),
        "b_parts": ((2, 40, 3 * 64), "float16"),
        "b_exponents": ((2, 40), "int32"),
        "partials": ((2, 2, 33, 40), "float32"),
    }


@pytest.mark.parametrize("fields", [{"split_k": 2}, {"operand_dtype": "float32"}])
def test_the_file_is_proved_as_it_stands(fields):
    """Its layouts, its moves, and the masks of each kernel."""
    file = emitted(kernel(**fields))
    assert refutations(prove_source(file.path, file.source, file.request)) == ()
    wrong = file.source.replace("[0, 0, 1, 0],  # a0", "[0, 0, 2, 0],  # a0", 1)
    wrong = wrong.replace("[0, 0, 2, 0],  # a1", "[0, 0, 1, 0],  # a1", 1)
    assert refutations(prove_source(file.path, wrong, file.request))


def test_a_call_without_an_input_says_so():
    with pytest.raises(LayoutgenError, match="call: there is no b; its inputs have values"):
        call(emitted(kernel()), (1, 4, 4, 4), {"a": np.zeros((1, 4, 4), np.float16)})


def test_the_request():
    request = parts().request
    assert (request.dtype, request.given_dtype, request.c_dtype) == ("float16", "float32", "float32")
    assert request_from_dict(request.as_dict()) == request
    assert kernel(operand_dtype="float16").request == kernel().request


def test_bfloat16_is_refused_where_it_is_asked_for_and_where_it_is_given():
    with pytest.raises(
        LayoutgenError, match=r"operand_dtype 'bfloat16': the instruction multiplies float16, and float32"
    ):
        kernel(operand_dtype="bfloat16")
    with pytest.raises(LayoutgenError, match="out_dtype 'bfloat16': must be one of float16, float32"):
        kernel(out_dtype="bfloat16")
    for made, wanted in ((kernel(), "float16"), (parts(), "float32")):
        file = emitted(made)
        arrays = file.request.arrays((1, 32, 32, 32))
        for name in ("a", "b"):
            given_array = contiguous(arrays[name].shape, "torch.bfloat16")
            with pytest.raises(TypeError, match=f"{name} is torch.bfloat16; it must be {wanted}"):
                file.load().launch_arguments(**{**arrays, name: given_array})
