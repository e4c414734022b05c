"""Occupancy against a search that places blocks one by one, and against the published kernels."""

import pytest

from layoutgen import LayoutgenError
from layoutgen.profiles import load_profile
from layoutgen.sass.occupancy import occupancy

VOLTA = load_profile("volta").limits


def place(registers, shared, warps):
    """Add blocks, each warp to the sub-core with the most room, until one does not fit."""
    unit = -(-registers * 32 // 256) * 256
    cores, left, held, blocks = [VOLTA.registers_per_sm // 4] * 4, VOLTA.shared_bytes_per_sm, 0, 0
    while True:
        left -= shared
        held += warps
        for _ in range(warps):
            core = max(range(4), key=lambda c: cores[c])
            cores[core] -= unit
        if left < 0 or held > VOLTA.warps_per_sm or min(cores) < 0:
            return blocks
        blocks += 1


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_against_placing_blocks(warps):
    for registers in (16, 32, 33, 64, 72, 96, 97, 127, 128, 129, 164, 168, 240, 255):
        for shared in (1024, 8192, 28672, 45056, 65536, 98304):
            want = place(registers, shared, warps)
            if want:
                assert occupancy(registers, shared, warps, VOLTA).blocks == want, (registers, shared)
            else:
                with pytest.raises(LayoutgenError, match="does not fit"):
                    occupancy(registers, shared, warps, VOLTA)


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "blocks", "limiters"),
    [
        (162, 28672, 4, 3, ("registers", "shared memory")),
        (128, 28672, 4, 3, ("shared memory",)),
        (246, 45056, 4, 2, ("registers", "shared memory")),
        (255, 77824, 4, 1, ("shared memory",)),
        (24, 1024, 16, 4, ("warps",)),
    ],
)
def test_published_kernels(registers, shared, warps, blocks, limiters):
    found = occupancy(registers, shared, warps, VOLTA)
    assert (found.blocks, found.limiters) == (blocks, limiters)


def test_the_refusal_names_the_numbers():
    with pytest.raises(LayoutgenError, match=r"16 warps with 255 registers .* 131072 bytes .* 98304 bytes"):
        occupancy(255, 131072, 16, VOLTA)
