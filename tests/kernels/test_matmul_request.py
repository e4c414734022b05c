"""Matmul requests: what is taken from the profile, and what is refused."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import MatmulRequest, request_from_dict


def test_the_tile_comes_from_the_profile():
    request = lg.matmul().request
    assert (request.block_m, request.block_n, request.block_k, request.warps) == (128, 128, 32, (2, 2))
    assert request.c_dtype == "float16"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_k": 24}, "block_k = 24: must be a power of two and at least 4, one k-step, .* is 16"),
        ({"block_k": 2}, "block_k = 2: .* the nearest legal value is 4"),
        ({"block_m": 16}, "block_m = 16: must be a power of two and at least 32 .2 warps of units of 16."),
        ({"warps": "3x1"}, "warps along block_m: 3 is not a power of two; the nearest below is 2"),
        ({"warps": "4"}, "warps '4': must be written WMxWN, for example 4x1"),
        ({"warps": "8x8"}, "warps a block: 64 .8x8. > 32"),
        ({"b_order": "mn"}, "b_order 'mn': must be one of kn, nk"),
        ({"out_dtype": "float64"}, "out_dtype 'float64': must be one of float16, float32"),
        ({"block_m": 512, "block_n": 512, "warps": "2x2"}, "registers a thread: 2064 .2048 of accumulators"),
        ({"block_m": 1024, "block_k": 64}, "bytes of shared memory a block: 147456"),
        ({"block_k": 0}, "block_k = 0"),
    ],
)  # fmt: skip
def test_refused(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.matmul(**fields)


def test_the_request_survives_as_plain_data():
    request = MatmulRequest("m8n8k4", 64, 128, 16, (2, 4), "nk", "float32")
    assert request_from_dict(request.as_dict()) == request
