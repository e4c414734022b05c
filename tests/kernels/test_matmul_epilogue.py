"""What the fast matmul does after the product: factors, bias, epilogue, intermediate rounding, residual."""

import numpy as np
import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, run_kernel
from layoutgen.execution.epilogue import finished
from layoutgen.kernels import request_from_dict
from layoutgen.kernels.expression import EPILOGUES
from layoutgen.kernels.request import contiguous
from tests.kernels.launching import emitted, execute, kernel


@pytest.mark.parametrize("epilogue", [*list(EPILOGUES)[1:], "where(x > 0.0, x, 0.125 * x)"])
def test_epilogues(epilogue):
    rounded = epilogue in ("silu", "gelu")
    result = run_kernel(emitted(kernel(epilogue=epilogue, rounded=rounded)), Launch((1, 33, 40, 20)))
    assert result.passed, result.as_dict()


def test_what_is_not_finite_is_seen_behind_relu():
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((1, 33, 20), (1, 20, 40)))
    a[0, 5, 0], b[0, 3, 7] = np.nan, np.inf
    got = execute(kernel(epilogue="relu"), {"a": a, "b": b})["c"]
    with np.errstate(invalid="ignore"):
        want = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0.0)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(got[0, 5]).all()
    assert np.array_equal(np.isinf(got), np.isinf(want))


def test_the_intermediate_rounding_is_seen():
    """1 + 2^-11 + 2^-12 is no fp16 number; times 1024, after a rounding, it is 1025 instead of 1024.75."""
    results = {}
    for rounded in (False, True):
        made = kernel(epilogue="1024.0 * (x - 1.0)", rounded=rounded, out_dtype="float16")
        a = np.zeros((1, 1, 16), np.float16)
        b = np.zeros((1, 16, 1), np.float16)
        a[0, 0, :2], b[0, :2, 0] = 1, (1, 0.75 * 2**-10)
        results[rounded] = execute(made, {"a": a, "b": b})["c"]
    assert results[False].item() == 0.75
    assert results[True].item() == 1.0


@pytest.mark.parametrize("shape", [(40,), (33, 1), (2, 1, 1), (2, 33, 40)])
def test_a_bias_of_any_broadcast(shape):
    rng = np.random.default_rng(1)
    values = {
        "a": rng.integers(-3, 4, (2, 33, 20)).astype(np.float16),
        "b": rng.integers(-3, 4, (2, 20, 40)).astype(np.float16),
        "bias": rng.integers(-3, 4, shape).astype(np.float16),
    }
    made = kernel(bias=True, scale=True, out_dtype="float32")
    got = execute(made, values, alpha=0.5, beta=-2.0)["c"]
    product = values["a"].astype(np.float64) @ values["b"].astype(np.float64)
    assert np.array_equal(got, 0.5 * product - 2 * values["bias"].astype(np.float64))


def test_everything_at_once():
    rng = np.random.default_rng(2)
    made = kernel(scale=True, bias=True, epilogue="silu", rounded=True, residual=True)
    values = {
        "a": rng.standard_normal((1, 33, 20)).astype(np.float16),
        "b": rng.standard_normal((1, 20, 40)).astype(np.float16),
        "bias": rng.standard_normal((1, 1, 40)).astype(np.float16),
        "residual": rng.standard_normal((1, 33, 40)).astype(np.float16),
    }
    got = execute(made, values, alpha=0.25, beta=1.5)["c"]
    product = values["a"].astype(np.float64) @ values["b"].astype(np.float64)
    magnitude = np.abs(values["a"].astype(np.float64)) @ np.abs(values["b"].astype(np.float64))
    want, bound = finished(made.request, product, 5 * 6 * 2.0**-23 * magnitude, values, 0.25, 1.5)
    assert (np.abs(got - want) <= bound + 2.0**-11 * (np.abs(want) + bound) + 2.0**-25).all()


def test_a_residual_has_strides_of_its_own():
    rng = np.random.default_rng(3)
    values = {
        "a": rng.integers(-3, 4, (1, 33, 20)).astype(np.float16),
        "b": rng.integers(-3, 4, (1, 20, 40)).astype(np.float16),
        "residual": rng.integers(-3, 4, (1, 33, 40)).astype(np.float32),
    }
    made = kernel(residual=True, out_dtype="float32")
    got = execute(made, values, {"residual": (33 * 40, 1, 33)})["c"]
    assert np.array_equal(got, values["a"].astype(np.float64) @ values["b"] + values["residual"])


def test_a_bias_that_does_not_fit_is_refused():
    file = emitted(kernel(bias=True))
    arrays = file.request.arrays((1, 32, 32, 32))
    with pytest.raises(ValueError, match=r"bias is \(31,\), which is not broadcast to \(1, 32, 32\)"):
        file.load().launch_arguments(**{**arrays, "bias": contiguous((31,), "float16")})


def test_features_are_in_the_file_only_when_asked_for():
    plain, full = kernel(), kernel(scale=True, bias=True, epilogue="gelu", rounded=True, residual=True)
    for word in ("alpha", "bias", "residual", "epilogue"):
        assert word not in plain.source
        assert word in full.source
    assert request_from_dict(full.request.as_dict()) == full.request
    assert request_from_dict(plain.request.as_dict()) == plain.request


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epilogue": "tanh(x)"}, r"'tanh\(x\)' is not allowed"),
        ({"rounded": True}, "rounded: is about what an epilogue is given"),
        ({"design": "simple", "bias": True}, "matmul, design simple: takes no bias; fast does"),
    ],
)
def test_refused(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        kernel(**fields) if "design" not in fields else lg.matmul(**fields)
