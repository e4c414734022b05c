"""Tiles of fast attention for launches of few queries."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch, run_kernel
from layoutgen.profiles import load_profile, short_flash_tile
from layoutgen.toolchain import compile_kernel, read_kernel

TILES = load_profile("volta").unit.flash_fast_short


def short(head_dim, queries, **options):
    return lg.attention(design="fast", head_dim=head_dim, max_queries=queries, **options)


@pytest.mark.parametrize("head_dim", [16, 64, 72, 96, 112, 128])
@pytest.mark.parametrize(("queries", "rows"), [(1, 32), (32, 32), (33, 64), (64, 64), (65, 128), (5000, 128)])
def test_fewer_queries_get_fewer_rows(head_dim, queries, rows):
    assert short(head_dim, queries).request.block_m == rows


def test_where_there_is_no_short_tile_the_usual_one_serves():
    assert short(256, 1).request == lg.attention(design="fast", head_dim=256).request
    assert short_flash_tile("pascal", 64, 1) is None


def test_the_widest_of_both_head_dims_counts():
    assert short(64, 64, v_head_dim=128).request.block_n == short(128, 64).request.block_n


def test_given_rows_of_a_warp_are_kept():
    assert short(96, 32, row_blocks=2).request.row_blocks == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "simple"}, "max_queries chooses among the tiles of the fast design, not with the simple design"),
        ({"block_m": 64}, "not with block_m given; take design fast and max_queries, or give the tile alone"),
        ({"max_queries": 0}, "max_queries 0: must be at least 1"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.attention(**{"design": "fast", "head_dim": 64, "max_queries": 10, **options})


@pytest.mark.sweep
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_no_short_tile_spills_and_all_are_right(tile, tmp_path):
    file = read_kernel(short(tile.head_dim_le, tile.queries_le).write(tmp_path))
    compiled = compile_kernel(file, "sm_70")
    assert compiled.spill_stores + compiled.spill_loads == 0
    for options in ({}, {"causal": True}, {"bias": True}):
        file = read_kernel(short(tile.head_dim_le, tile.queries_le, **options).write(tmp_path))
        result = run_kernel(file, Launch((1, 2, 1, tile.queries_le - 3, 100, tile.head_dim_le), inputs="nan"))
        assert result.passed, result.as_dict()


def test_a_short_kernel_is_right_for_any_number_of_queries(tmp_path):
    file = read_kernel(short(64, 32).write(tmp_path))
    assert run_kernel(file, Launch((1, 2, 1, 45, 70, 64), inputs="nan")).passed
