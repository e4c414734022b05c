"""Which tile a problem size gets: hand-counted times, the choice among all, and what emits it."""

import dataclasses
import itertools

import pytest
from click.testing import CliRunner

import layoutgen as lg
from layoutgen.cli import main
from layoutgen.errors import LayoutgenError
from layoutgen.profiles import FastMatmulTile, choose_matmul, load_profile
from layoutgen.profiles.feasibility import feasibility
from layoutgen.profiles.matmul_tiles import LAUNCH_SECONDS, launch_seconds
from layoutgen.sass.inspection import inspect
from layoutgen.toolchain import compile_kernel, read_kernel

VOLTA = load_profile("volta")
TILES = VOLTA.unit.matmul_fast
LARGE = FastMatmulTile(128, 128, 32, (2, 2), "unit", (60.0, 100.0))
SMALL = FastMatmulTile(64, 64, 16, (1, 1), "unit", (25.0, 45.0, 60.0, 70.0))


def with_tiles(*tiles):
    return dataclasses.replace(VOLTA, unit=dataclasses.replace(VOLTA.unit, matmul_fast=tiles))


def test_a_full_wave_runs_at_the_tiles_rate():
    """160 blocks, two on each of 80 SMs; each has 31 K tiles and one more for its start."""
    shape = (1, 128 * 16, 128 * 10, 32 * 31)
    assert launch_seconds(LARGE, shape, 1, VOLTA) == pytest.approx(160 * 2 * 128 * 128 * 32 * 32 / 100e12)


def test_a_last_wave_of_few_runs_at_the_rate_of_few():
    """161 blocks: one is left, and holds the card for as long as one on every SM would."""
    shape = (161, 128, 128, 32 * 31)
    work = 2 * 128 * 128 * 32 * 32
    assert launch_seconds(LARGE, shape, 1, VOLTA) == pytest.approx(160 * work / 100e12 + 80 * work / 60e12)


def test_partial_sums_are_written_and_read():
    """80 splits make one block an SM; each takes one tile of K and one more, and stores 64 KiB of fp32."""
    shape = (1, 128, 128, 32 * 80)
    seconds = 80 * 2 * 128 * 128 * 32 * 2 / 60e12 + LAUNCH_SECONDS + 2 * 4 * 80 * 128 * 128 / 900e9
    assert launch_seconds(LARGE, shape, 80, VOLTA) == pytest.approx(seconds)


def test_a_card_without_a_memory_rate_has_no_time_for_partial_sums():
    card = dataclasses.replace(VOLTA, memory_gb_per_s=None)
    with pytest.raises(LayoutgenError, match=r"profile volta: has no memory_gb_per_s, .* take split_k 1"):
        launch_seconds(LARGE, (1, 128, 128, 4096), 2, card)


@pytest.mark.parametrize("shape", [(1, 8192, 8192, 4096), (1, 512, 512, 512), (4, 128, 128, 8192), (1, 1, 4096, 4096)])
@pytest.mark.parametrize("products", [1, 3])
def test_nothing_else_is_faster(shape, products):
    card = with_tiles(LARGE, SMALL)
    found = choose_matmul(card, shape, products=products)
    times = [launch_seconds(t, shape, s, card, products) for t, s in itertools.product((LARGE, SMALL), range(1, 65))]
    least = min(times)
    assert found.seconds >= least
    if found.split_k == 1 or shape[3] * products >= 64 * 4 * 32:  # where no split has too few K tiles
        assert found.seconds == pytest.approx(min(found.seconds, least))


def test_large_problems_get_the_large_tile_and_small_ones_the_small_one():
    card = with_tiles(LARGE, SMALL)
    assert choose_matmul(card, (1, 8192, 8192, 512)).tile is LARGE
    assert choose_matmul(card, (1, 512, 512, 512), split_k=1).tile is SMALL  # 16 blocks of the large one


def test_splits_are_for_few_blocks_and_much_depth():
    card = with_tiles(LARGE, SMALL)
    assert choose_matmul(card, (1, 256, 256, 65536)).split_k > 8
    assert choose_matmul(card, (1, 256, 256, 128)).split_k == 1
    assert choose_matmul(card, (1, 8192, 8192, 8192)).split_k == 1
    assert choose_matmul(card, (1, 256, 256, 65536), split_k=3).split_k == 3
    assert choose_matmul(dataclasses.replace(card, memory_gb_per_s=None), (1, 256, 256, 65536)).split_k == 1


def test_sizes_of_nothing_and_ways_without_a_tile():
    assert choose_matmul(with_tiles(LARGE), (1, 0, 128, 128)).blocks == 0
    assert choose_matmul(with_tiles(LARGE), (1, 128, 128, 0)).split_k == 1
    with pytest.raises(LayoutgenError, match="profile volta: has no matmul_fast tile for accumulate tile"):
        choose_matmul(with_tiles(LARGE), (1, 128, 128, 128), "tile")


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize(("a_order", "b_order"), [(a, b) for a in ("mk", "km") for b in ("kn", "nk")])
def test_every_tile_of_the_profile_serves_all_orders(tile, a_order, b_order):
    sizes = {name: getattr(tile, name) for name in ("block_m", "block_n", "block_k", "warps", "accumulate")}
    made = lg.matmul(design="fast", a_order=a_order, b_order=b_order, **sizes)
    assert feasibility(made.request, VOLTA.limits).feasible


@pytest.mark.sweep
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_the_profile_says_what_the_model_predicts(tmp_path, tile):
    sizes = {name: getattr(tile, name) for name in ("block_m", "block_n", "block_k", "warps", "accumulate")}
    file = read_kernel(lg.matmul(design="fast", **sizes).write(tmp_path))
    found = inspect(file, compile_kernel(file, "sm_70"))
    assert found.rates(VOLTA.clocks_mhz["reference"]) == pytest.approx(tile.tflops, rel=0.02)
    assert found.compiled.spill_stores == 0


def test_emit_takes_the_tile_of_a_shape():
    words = ["emit", "matmul", "--design", "fast", "--shape", "1,256,256,65536"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    choice = choose_matmul(VOLTA, (1, 256, 256, 65536))
    request = lg.matmul(design="fast", shape=(1, 256, 256, 65536)).request
    assert (request.block_m, request.block_n, request.split_k) == (
        choice.tile.block_m,
        choice.tile.block_n,
        choice.split_k,
    )
    assert f"--split-k {choice.split_k}" in found.stdout
    assert f"{choice.blocks} blocks, {choice.split_k} share the sum of an element; predicted" in found.stderr
    assert lg.matmul(design="fast", shape=(1, 256, 256, 65536), split_k=2).request.split_k == 2


@pytest.mark.parametrize("accumulate", ["unit", "tile"])
def test_without_a_shape_the_first_tile_is_taken(accumulate):
    request = lg.matmul(design="fast", accumulate=accumulate).request
    first = next(tile for tile in TILES if tile.accumulate == accumulate)
    assert (request.block_m, request.block_n, request.block_k, request.warps) == (
        first.block_m,
        first.block_n,
        first.block_k,
        first.warps,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--design fast --shape 1,64,64", "shape 1,64,64: must be Z,M,N,K"),
        ("--shape 1,64,64,64", "a shape chooses among the tiles of the fast design, not with the simple design"),
        ("--design fast --shape 1,64,64,64 --block-m 64", "not with block_m given"),
        ("--design fast --shape 1,64,64,64 --profile turing", "profile turing: has no matmul_fast tile"),
    ],
)
def test_refused(options, message):
    found = CliRunner().invoke(main, ["emit", "matmul", *options.split()])
    assert found.exit_code == 2
    assert message in found.stderr
