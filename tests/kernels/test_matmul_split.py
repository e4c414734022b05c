"""A split K: blocks share the sum of an element, and a second kernel adds what they found, always in the same order."""

import functools

import numpy as np
import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, run_kernel
from layoutgen.kernels import request_from_dict
from layoutgen.kernels.expression import EPILOGUES
from layoutgen.kernels.request import Array, contiguous
from tests.kernels.launching import emitted, execute, kernel


@pytest.mark.parametrize("k", [0, 5, 16, 48, 50, 99])
def test_integers_are_exact_whatever_the_splits_get(k):
    """Three splits of K tiles of 16: none gets anything, one, all alike, or the last one less than the others."""
    result = run_kernel(emitted(kernel(split_k=3, out_dtype="float32")), Launch((2, 33, 40, k), inputs="integers"))
    assert result.passed, result.as_dict()
    assert result.max_abs_error == 0


FULL = {"scale": True, "bias": True, "rounded": True, "residual": True}


@pytest.mark.parametrize(
    "epilogue",
    ["silu", *(pytest.param(name, marks=pytest.mark.sweep) for name in EPILOGUES if name not in ("none", "silu"))],
)
def test_what_follows_the_product_is_done_once(epilogue):
    made = kernel(split_k=4, epilogue=epilogue, a_order="km", accumulate="tile", **FULL)
    result = run_kernel(emitted(made), Launch((2, 33, 40, 100), strides="padded"), level="sass")
    assert result.passed, result.as_dict()


def values(k=100):
    rng = np.random.default_rng(4)
    return {
        "a": rng.standard_normal((1, 33, k)).astype(np.float16),
        "b": rng.standard_normal((1, k, 40)).astype(np.float16),
    }


def test_partial_sums_are_added_in_order():
    """In fp32, from the first split to the last, bit for bit: no two runs can differ."""
    made = kernel(split_k=3, out_dtype="float32")
    found = execute(made, values())
    partials = found["partials"][0]
    assert np.array_equal(found["c"][0], functools.reduce(np.add, partials))
    assert not np.array_equal(found["c"][0], functools.reduce(np.add, partials[::-1]))  # the order does matter
    assert np.array_equal(execute(made, values())["c"], found["c"])
    exact = values()["a"].astype(np.float64) @ values()["b"].astype(np.float64)
    assert np.abs(found["c"] - exact).max() < 1e-4


def test_each_split_sums_its_own_run_of_k():
    given = values()
    partials = execute(kernel(split_k=3, out_dtype="float32"), given)["partials"][0]
    for split, (begin, end) in enumerate(((0, 48), (48, 96), (96, 100))):
        exact = given["a"][0, :, begin:end].astype(np.float64) @ given["b"][0, begin:end].astype(np.float64)
        assert np.abs(partials[split] - exact).max() < 1e-4


def test_the_workspace_is_named_and_checked():
    file = emitted(kernel(split_k=3))
    assert file.kernels == ("matmul_kernel", "finish_kernel")
    arrays = file.request.arrays((2, 33, 40, 100))
    module = file.load()
    assert module.workspace(arrays["a"], arrays["b"]) == {"partials": ((2, 3, 33, 40), "float32")}
    for wrong in (
        contiguous((2, 3, 33, 41), "float32"),
        contiguous((2, 3, 33, 40), "float16"),
        Array((2, 3, 33, 40), (3 * 33 * 40, 33 * 40, 1, 33), "float32"),
    ):
        with pytest.raises(ValueError, match=r"it must be \(2, 3, 33, 40\) of float32, contiguous"):
            module.launches(**{**arrays, "partials": wrong})
    with pytest.raises(TypeError, match=r"partials is NoneType; it must be \(2, 3, 33, 40\) of float32, contiguous"):
        module.launches(**{**arrays, "partials": None})


def test_the_grid_holds_every_split():
    file = emitted(kernel(split_k=3))
    (_, grid, _), (_, finish, _) = file.load().launches(**file.request.arrays((2, 33, 40, 100)))
    assert grid == (2, 2, 6)
    assert finish == (33, 1, 2)
    with pytest.raises(ValueError, match="at most 65535 blocks along N and along Z"):
        file.load().launches(**file.request.arrays((21846, 1, 1, 1)))


def test_the_grid_of_the_second_kernel_is_checked_too():
    """Its blocks are 128 columns wide, those of this tile 256."""
    file = emitted(kernel(split_k=3, block_m=128, block_n=256, block_k=32, warps="2x4"))
    file.load().launches(**file.request.arrays((1, 1, 65535 * 128, 1)))
    with pytest.raises(ValueError, match=r"grid \(1, 65536, 1\): the sum of the partial sums has at most 65535 blocks"):
        file.load().launches(**file.request.arrays((1, 1, 65535 * 128 + 1, 1)))


@pytest.mark.parametrize("fields", [{"split_k": 3}, {"operand_dtype": "float32", "a_order": "km"}])
@pytest.mark.parametrize("shape", [(0, 0, 0, 0), (1, 0, 5, 5), (1, 5, 0, 5), (2, 5, 5, 0)])
def test_an_empty_workspace_is_taken(fields, shape):
    """Torch's strides of empty arrays are never 0, and neither are those of a request's arrays."""
    file = emitted(kernel(**fields))
    launched = file.load().launches(**file.request.arrays(shape))
    assert len(launched) == len(file.kernels)
    assert all(all(grid) for _, grid, _ in launched) == all(shape[:3])


@pytest.mark.parametrize(("splits", "nearest"), [(0, 1), (65, 64), (-3, 1)])
def test_refused(splits, nearest):
    with pytest.raises(LayoutgenError, match=rf"split_k = {splits}: .* the nearest legal value is {nearest}"):
        kernel(split_k=splits)


def test_the_request_survives_as_plain_data():
    request = kernel(split_k=3).request
    assert request_from_dict(request.as_dict()) == request
    assert "split_k" not in kernel().request.as_dict()
    with pytest.raises(LayoutgenError, match="design simple: takes no split_k; fast does"):
        lg.matmul(split_k=2)
