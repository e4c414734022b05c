"""Warps that share rows: their layouts by enumeration, and the way back to one warp's."""

import itertools

import pytest

import layoutgen as lg
from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.divided import copied, divided, part_of_one, stacked

TILE = lg.derive(block_m=64, block_n=32, warps="2x1").accumulator


def elements(layout):
    """(register, lane, warp) -> element."""
    sizes = [1 << layout.domain.bits_of(dim) for dim in ("register", "lane", "warp")]
    places = itertools.product(*map(range, sizes))
    return {place: layout(register=place[0], lane=place[1], warp=place[2]) for place in places}


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_every_warp_of_a_group_holds_the_tile_or_its_part(warps):
    one = elements(TILE)
    for (register, lane, warp), (m, n) in one.items():
        for member in range(warps):
            place = {"register": register, "lane": lane, "warp": warp + 2 * member}
            assert copied(TILE, warps)(**place) == (m, n)
            assert divided(TILE, "dim1", warps)(**place) == (m, n + 32 * member)
            assert divided(TILE, "dim0", warps)(**place) == (m + 64 * member, n)
            assert stacked(TILE, warps)(**place) == ((m, n) if warps == 1 else (member, m, n))


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_the_part_of_one_warp_is_found_again(warps):
    assert part_of_one(copied(TILE, warps), None, warps) == TILE
    for dim in ("dim0", "dim1"):
        assert part_of_one(divided(TILE, dim, warps), dim, warps) == TILE


def test_more_warps_than_there_are_are_refused():
    with pytest.raises(LayoutgenError, match="warps of a group: 4, of 2 warps in all"):
        part_of_one(TILE, None, 4)
    with pytest.raises(LayoutgenError, match="must be a power of two"):
        copied(LinearLayout.from_bases({"lane": [[1]]}, (2,)), 3)
