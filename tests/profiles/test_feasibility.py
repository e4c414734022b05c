"""Whether a card holds a request, in numbers, and the nearest request that it holds."""

from dataclasses import replace

import pytest

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, MatmulRequest
from layoutgen.profiles import load_profile
from layoutgen.profiles.feasibility import check_feasible, feasibility, nearest

VOLTA = load_profile("volta")


def test_needs_are_those_of_the_plan():
    request = AttentionRequest(head_dim=96, atom="m8n8k4", block_m=64, block_n=32)
    found = feasibility(request, VOLTA.limits)
    assert found.feasible
    have = {need.resource: need.needed for need in found.needs}
    assert have["bytes of shared memory a block"] == request.plan.shared_bytes == 28672
    assert have["warps a block"] == 4
    assert have["registers a thread"] == 16 + 48 + 4 + 12  # S, O, two fragments, addresses


@pytest.mark.parametrize(
    ("request_", "unmet"),
    [
        (AttentionRequest(96, "m8n8k4", 64, 256), "shared memory"),
        (AttentionRequest(256, "m8n8k4", 1024, 32), "warps a block: 64"),
        (MatmulRequest("m8n8k4", 256, 256, 32, (2, 2)), "registers a thread: 528"),
    ],
)
def test_the_nearest_request_fits_and_none_is_nearer(request_, unmet):
    with pytest.raises(LayoutgenError, match=unmet) as refusal:
        check_feasible(request_, VOLTA)
    near = nearest(request_, VOLTA.limits)
    assert feasibility(near, VOLTA.limits).feasible
    assert f"block_m {near.block_m}, block_n {near.block_n}" in str(refusal.value)
    steps = (request_.block_m * request_.block_n) // (near.block_m * near.block_n)
    for block_m in (request_.block_m, request_.block_m // 2):
        for block_n in (request_.block_n, request_.block_n // 2):
            if (request_.block_m * request_.block_n) // (block_m * block_n) < steps:
                other = replace(request_, block_m=block_m, block_n=block_n)
                assert not feasibility(other, VOLTA.limits).feasible


def test_what_fits_is_its_own_nearest():
    request = AttentionRequest(head_dim=64, atom="m8n8k4", block_m=64, block_n=32)
    assert nearest(request, VOLTA.limits) == request
    check_feasible(request, VOLTA)
