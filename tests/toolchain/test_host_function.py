"""The host function of an emitted file checks its arguments before it launches anything."""

import dataclasses

import pytest

import layoutgen as lg
from layoutgen.kernels import Array, contiguous
from layoutgen.toolchain import read_kernel


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    kernels = {"attention": lg.attention(head_dim=64, bias=True), "matmul": lg.matmul(block_m=64, block_n=64)}
    return {name: read_kernel(kernel.write(folder)).load() for name, kernel in kernels.items()}


def attention_arrays(**changes):
    return lg.attention(head_dim=64, bias=True).request.arrays((2, 4, 2, 100, 70, 64)) | changes


def test_attention_grid_and_strides(modules):
    arrays = attention_arrays(bias=Array((2, 4, 100, 70), (0, 0, 70, 1), "float32"))
    grid, arguments = modules["attention"].launch_arguments(**arrays)
    assert grid == (2, 4, 2)
    assert arguments[6] == 0.125
    assert arguments[7:11] == (4 * 100 * 64, 100 * 64, 64, 1)
    assert arguments[-7:] == (0, 0, 70, 1, 2, 100, 70)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k": contiguous((2, 3, 70, 64), "float16")}, ValueError, "4 query heads over 3 key heads"),
        ({"k": contiguous((2, 0, 70, 64), "float16")}, ValueError, "4 query heads over 0 key heads"),
        ({"q": contiguous((2, 4, 100, 32), "float16")}, ValueError, "head dim 32: this kernel was emitted for 64"),
        ({"q": contiguous((4, 100, 64), "float16")}, ValueError, "they must be"),
        ({"v": contiguous((2, 2, 71, 64), "float16")}, ValueError, "v is .* it must be"),
        ({"lse": contiguous((2, 4, 99), "float32")}, ValueError, "lse is"),
        ({"bias": contiguous((1, 4, 100, 70), "float16")}, ValueError, "bias is"),
        ({"q": contiguous((2, 4, 100, 64), "float32")}, TypeError, "q is float32; it must be float16"),
        ({"q": None}, TypeError, "q is NoneType; it must be float16"),
        ({"lse": contiguous((2, 4, 100), "float16")}, TypeError, "lse is float16; it must be float32"),
        ({"bias": contiguous((2, 4, 100, 70), "int8")}, TypeError, "bias is int8; it must be float16 or float32"),
    ],
)
def test_attention_refuses(modules, changes, error, message):
    with pytest.raises(error, match=message):
        modules["attention"].launch_arguments(**attention_arrays(**changes))


def test_attention_refuses_a_grid_that_no_launch_has(modules):
    arrays = lg.attention(head_dim=64, bias=True).request.arrays((70000, 1, 1, 1, 1, 64))
    with pytest.raises(ValueError, match="at most 65535 heads and 65535 batches"):
        modules["attention"].launch_arguments(**arrays)


def test_an_empty_launch_does_nothing(modules):
    arrays = lg.attention(head_dim=64, bias=True).request.arrays((2, 4, 2, 0, 70, 64))
    assert modules["attention"].attention(**arrays) == (arrays["out"], arrays["lse"])


def matmul_arrays(**changes):
    return lg.matmul().request.arrays((2, 100, 70, 50)) | changes


def test_matmul_grid_and_strides(modules):
    grid, arguments = modules["matmul"].launch_arguments(**matmul_arrays())
    assert grid == (2, 2, 2)
    assert arguments[3:] == (5000, 50, 1, 3500, 70, 1, 7000, 70, 1, 100, 70, 50)
    flat = {
        name: dataclasses.replace(a, shape=a.shape[1:], strides=a.strides[1:]) for name, a in matmul_arrays().items()
    }
    grid, arguments = modules["matmul"].launch_arguments(**flat)
    assert grid == (2, 2, 1)
    assert arguments[3:] == (0, 50, 1, 0, 70, 1, 0, 70, 1, 100, 70, 50)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"a": contiguous((2, 100, 51), "float16")}, ValueError, "a, b, c are"),
        ({"c": contiguous((2, 100, 71), "float16")}, ValueError, "a, b, c are"),
        ({"b": contiguous((3, 50, 70), "float16")}, ValueError, "batches alike"),
        ({"a": contiguous((100, 50), "float16")}, ValueError, "all must have 2, or all 3"),
        ({"a": contiguous((2, 100, 50), "bfloat16")}, TypeError, "a is bfloat16; it must be float16"),
        ({"c": contiguous((2, 100, 70), "float32")}, TypeError, "c is float32; it must be float16"),
    ],
)
def test_matmul_refuses(modules, changes, error, message):
    with pytest.raises(error, match=message):
        modules["matmul"].launch_arguments(**matmul_arrays(**changes))


def test_matmul_refuses_a_grid_that_no_launch_has(modules):
    with pytest.raises(ValueError, match="at most 65535 blocks along N and along Z"):
        modules["matmul"].launch_arguments(**lg.matmul().request.arrays((70000, 1, 1, 1)))
