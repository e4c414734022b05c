"""Attention requests: the cover of the head dim, and what is refused."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, covering_split, request_from_dict

TILE = {"atom": "m8n8k4", "block_m": 64, "block_n": 32}


@pytest.mark.parametrize("head_dim", range(16, 257))
def test_the_cover_is_the_smallest(head_dim):
    """Oracle: all sums of at most two powers of two >= 16."""
    split = covering_split(head_dim)
    sizes = [16, 32, 64, 128, 256]
    sums = [*sizes, *(a + b for a in sizes for b in sizes)]
    assert sum(split) == min(total for total in sums if total >= head_dim)
    assert list(split) == sorted(split, reverse=True)
    assert set(split) <= set(sizes)
    assert len(split) == (1 if head_dim in sizes else 2)


@pytest.mark.parametrize(
    ("head_dim", "split"),
    [(96, (64, 32)), (80, (64, 16)), (40, (32, 16)), (112, (64, 64)), (128, (128,)), (256, (256,))],
)
def test_the_cover_of_known_head_dims(head_dim, split):
    assert AttentionRequest(head_dim=head_dim, **TILE).parts == split


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_dim": 8}, "head dim 8: must lie in 16..256; the nearest legal one is 16"),
        ({"head_dim": 300}, "the nearest legal one is 256"),
        ({"head_dim": 112, "split": (64, 32, 16)},
         "64,32,16 has three parts; at most two are allowed: head dim 112 is covered by 64"),
        ({"head_dim": 96, "split": (64, 16)}, "split 64,16 covers 80 of head dim 96, which is covered by 64"),
        ({"head_dim": 96, "split": (48, 48)}, "part 48 is not a power of two in 16..256"),
        ({"head_dim": 64, "split": (64, 32)}, "part 32 lies beyond head dim 64"),
        ({"head_dim": 64, "block_m": 48}, "block_m = 48: must be a power of two .* the nearest legal value is 32"),
        ({"head_dim": 64, "block_m": 8}, "block_m = 8: must be a power of two and at least 16"),
        ({"head_dim": 64, "block_n": 24}, "block_n = 24: must be a power of two"),
        ({"head_dim": 64, "block_m": 0}, "block_m = 0"),
        ({"head_dim": 64, "atom": "m9n9k9"}, "atom m9n9k9: not in the catalogue"),
        ({"head_dim": 64, "arrangement": "m3"}, "arrangement 'm3': 1 places for the 2 free lane bits"),
        ({"head_dim": 64, "arrangement": "m3,n9"}, "arrangement 'm3,n9': n has 4 bits"),
    ],
)  # fmt: skip
def test_refused(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        AttentionRequest(**(TILE | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_dim": 96, "warps": "2x2"}, "warps 2x2: attention keeps whole rows in a warp; 64 rows take 4x1"),
        (
            {"head_dim": 256, "block_m": 128, "block_n": 128},
            "bytes of shared memory a block: 229376 .* > 98304; the nearest request that can: block_m",
        ),
        ({"head_dim": 64, "block_m": 1024}, "warps a block: 64 .64x1. > 32"),
        (
            {"head_dim": 256, "block_m": 32, "block_n": 16, "arrangement": "m3,m4"},
            "registers a thread: 288 .272 of accumulators",
        ),
        ({"head_dim": 64, "atom": "m16n8k8"}, "volta .sm_70. has no m16n8k8, which is native on sm_75"),
        ({"head_dim": 64, "block_m": 0}, "block_m = 0: must be a power of two"),
        ({"head_dim": 64, "block_n": 0}, "block_n = 0: must be a power of two"),
        ({"head_dim": 64, "profile": "pascal"}, "profile pascal: has no matrix unit"),
        ({"head_dim": 64, "profile": "nocard"}, "profile nocard: unknown; known are"),
    ],
)
def test_refused_for_the_card(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.attention(**fields)


def test_the_tile_comes_from_the_profile():
    request = lg.attention(head_dim=96).request
    assert (request.block_m, request.block_n, request.warps) == (64, 32, (4, 1))
    assert lg.attention(head_dim=96, warps="4x1").request == request


def test_the_request_survives_as_plain_data():
    request = AttentionRequest(head_dim=80, bias=True, **TILE)
    assert request_from_dict(request.as_dict()) == request


def test_an_unknown_kernel_is_refused():
    with pytest.raises(LayoutgenError, match="kernel 'convolution' is unknown; known are attention, matmul"):
        request_from_dict({"kernel": "convolution"})
