"""Partial sums through shared memory: every place once, what was stored is what is read, and no bank conflict."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.plan import Move, Plan, Tile
from layoutgen.plan.partial import exchange_sums, left_half
from layoutgen.tiling.divided import copied, stacked


def exchange(block_m=64, block_n=32, warps=2, room=(8192, 8192)):
    tile = lg.derive(block_m=block_m, block_n=block_n, warps=f"{block_m // 32}x1", arrangement="m2,n2").accumulator
    return exchange_sums(stacked(tile, warps), copied(tile, warps), room)


@pytest.mark.parametrize(("warps", "room", "pieces"), [(2, (16384, 0), 1), (2, (8192, 8192), 2), (4, (2**15, 0), 1)])
def test_what_is_stored_is_what_every_warp_reads(warps, room, pieces):
    sums = exchange(warps=warps, room=room)
    assert sums.pieces == pieces
    assert sums.stored_access.conflict_free
    assert sums.fetched_access.conflict_free
    assert sums.stored_access.width_bytes == sums.fetched_access.width_bytes == 16
    rows, columns = sums.sums.shape
    # By enumeration: place -> the partial sums, row and column that were stored there, by whom.
    stored = {}
    registers, row_warps = 1 << sums.sums.domain.bits_of("register"), 64 // 32
    for warp in range(row_warps * warps):
        for lane in range(32):
            for register in range(registers):
                at = {"register": register, "lane": lane, "warp": warp}
                (place,) = sums.stored(**at)
                assert place not in stored
                stored[place] = (*sums.accumulator(**at), warp)
    assert len(stored) == warps * rows * columns
    for place, (number, row, column, warp) in stored.items():
        assert number == warp // row_warps
        assert sums.buffer((place,)) == (number * rows + row, column)
    first = rows * columns
    for warp in range(row_warps * warps):
        for lane in range(0, 32, 5):
            at = {"register": registers - 1, "lane": lane, "warp": warp}
            (place,) = sums.fetched(**at)
            for number in range(warps):
                assert stored[place + number * first][:3] == (number, *sums.sums(**at))


def test_sums_that_have_no_room_are_refused_with_numbers():
    with pytest.raises(LayoutgenError, match="16384 bytes of 2 warps; K and V have room for 4096 and 8192"):
        exchange(room=(4096, 8192))


def test_a_half_needs_a_register():
    with pytest.raises(LayoutgenError, match="no register tells columns from 1 on of 2 apart"):
        left_half(lg.algebra.LinearLayout.from_bases({"lane": [[0, 1]]}, (1, 2)))


def test_a_tile_does_not_lie_within_a_smaller_one():
    tiles = (
        Tile("a", "global", (16, 4), "float16"),
        Tile("x", "register", (16, 4), "float16"),
        Tile("host", "shared", (16, 4), "float16"),
        Tile("guest", "shared", (16, 4), "float32", within="host"),
    )
    moves = (Move("a", "x", "load"), Move("x", "host", "stage"))
    with pytest.raises(LayoutgenError, match="guest takes 256 bytes; host, in which it lies, has 128"):
        Plan("test", tiles, moves, ())
