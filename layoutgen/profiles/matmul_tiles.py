"""Which tile of the fast matmul a problem size gets, and into how many blocks its sums are split.

A launch takes as long as its waves of blocks. A large tile has the higher rate, but a small problem makes too few
blocks of it for all SMs, or a last wave of few; so the time of every tile in the profile is predicted, with and
without a split K, and the shortest taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.matmul_workspace import MAX_SPLITS
from layoutgen.profiles.profile import FastMatmulTile, Profile

LAUNCH_SECONDS = 4e-6
"""From the end of one kernel to the start of the next that waits for it. An assumption: what is usual, not measured."""
LEAST_TILES = 4
"""K tiles that a split has at least."""


@dataclass(frozen=True)
class Choice:
    """A tile, how many blocks share a sum, how many blocks there are, and the predicted time of the launch."""

    tile: FastMatmulTile
    split_k: int
    blocks: int
    seconds: float


def fast_matmul_tile(tiles: Sequence[FastMatmulTile], accumulate: str) -> FastMatmulTile | None:
    """Return the tile of requests that name neither a tile nor a shape: the first, which is for large problems."""
    return next((tile for tile in tiles if tile.accumulate == accumulate), None)


def stored_as(tile: FastMatmulTile, a_order: str) -> FastMatmulTile:
    """Return a tile with its warps as they are for A in this order.

    >>> from layoutgen.profiles import load_profile
    >>> tile = fast_matmul_tile(load_profile("volta").unit.matmul_fast, "tile")
    >>> stored_as(tile, "mk").warps, stored_as(tile, "km").warps
    ((1, 4), (2, 2))
    """
    return replace(tile, warps=tile.warps_km) if a_order == "km" and tile.warps_km else tile


def launch_blocks(tile: FastMatmulTile, shape: tuple[int, ...], split_k: int) -> int:
    """Return the blocks of a launch for a shape Z, M, N, K."""
    batch, m, n, _ = shape
    return batch * ceil(m / tile.block_m) * ceil(n / tile.block_n) * split_k


def launch_seconds(
    tile: FastMatmulTile, shape: tuple[int, ...], split_k: int, card: Profile, products: int = 1
) -> float:
    """Predict the time of a launch for a shape Z, M, N, K, from the tile's rates.

    Waves are full but for the last, whose blocks spread over the SMs. A block takes one K tile more than it has, for
    the first one, which nothing hides. Partial sums are written and read once at the memory's peak rate, and the
    kernel that adds them waits for the other. `products` multiplies the depth. Neither the memory's rate for A and B
    nor its caches are in it. Raises LayoutgenError for partial sums on a card whose profile names no memory rate.
    """
    if split_k > 1 and card.memory_gb_per_s is None:
        raise LayoutgenError(
            f"profile {card.name}: has no memory_gb_per_s, so a split K has no predicted time; take split_k 1"
        )
    _, m, n, k = shape
    sms, held = card.limits.sms, len(tile.tflops)
    depth = ceil(ceil(k / tile.block_k) * products / split_k) + 1
    work = 2.0 * tile.block_m * tile.block_n * tile.block_k * depth * sms / 1e12  # of a block on every SM, in TFLOP
    full, rest = divmod(launch_blocks(tile, shape, split_k), held * sms)
    last = ceil(rest / sms)
    seconds = full * held * work / tile.tflops[-1] + (last * work / tile.tflops[last - 1] if last else 0.0)
    if split_k > 1 and card.memory_gb_per_s is not None:
        partials = 4.0 * shape[0] * split_k * m * n
        seconds += LAUNCH_SECONDS + 2 * partials / (card.memory_gb_per_s * 1e9)
    return seconds


def choose_matmul(
    card: Profile, shape: tuple[int, ...], accumulate: str = "unit", products: int = 1, split_k: int | None = None
) -> Choice:
    """Return the tile and the split of the shortest predicted time; of equal ones the larger tile, and fewer splits.

    A given `split_k` is kept. Raises LayoutgenError when the profile has no tile for this way of summing.

    >>> from layoutgen.profiles import load_profile
    >>> choice = choose_matmul(load_profile("volta"), (1, 8192, 8192, 4096))
    >>> (choice.tile.block_m, choice.tile.block_n, choice.split_k)
    (128, 128, 1)
    """
    tiles = [tile for tile in (card.unit.matmul_fast if card.unit else ()) if tile.accumulate == accumulate]
    if not tiles:
        raise LayoutgenError(
            f"profile {card.name}: has no matmul_fast tile for accumulate {accumulate}; give block_m, block_n and so on"
        )
    found: list[tuple[float, int, int, int, FastMatmulTile]] = []
    for tile in tiles:
        most = ceil(shape[3] / tile.block_k) * products // LEAST_TILES if card.memory_gb_per_s else 1
        splits = [1, *(s for s in range(2, min(most, MAX_SPLITS) + 1))] if split_k is None else [split_k]
        for split in splits:
            seconds = launch_seconds(tile, shape, split, card, products)
            found.append((seconds, split, -tile.block_m * tile.block_n, len(found), tile))
    seconds, split, *_, tile = min(found)
    return Choice(tile, split, launch_blocks(tile, shape, split), seconds)
