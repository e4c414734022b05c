"""Staging: a tile goes into its buffer whole, each element where its k-step wants it, without needless conflicts."""

import itertools

import numpy as np
import pytest

from layoutgen.plan import stage

SHAPES = [(rows, columns) for rows in (16, 32, 64, 128) for columns in (16, 32, 64, 128)]
CASES = list(itertools.product(SHAPES, (0, 1), (1, 2, 4, 8)))


def check_staging(shape, k_dim, num_warps):
    """Post-condition: what `stored` says equals what reshape and permute do to an array, for every element."""
    staging = stage(shape, k_dim, 4, 2, num_warps)
    tile = np.arange(shape[0] * shape[1]).reshape(shape)
    buffer = tile.reshape(staging.split).transpose(staging.order).reshape(staging.buffer).ravel()
    assert (buffer[staging.stored.table()] == staging.loaded.table()).all()
    # A buffer's row is one row (column) of the operand at k consecutive k.
    other, k = 1 - k_dim, staging.buffer[1]
    for row in (0, staging.buffer[0] // 2, staging.buffer[0] - 1):
        step, index = divmod(row, staging.slab)
        want = tile.take(index, axis=other)[step * k : step * k + k]
        assert (buffer[row * k : row * k + k] == want).all()
    return staging


@pytest.mark.parametrize(("shape", "k_dim", "num_warps"), CASES)
def test_fills_the_buffer(shape, k_dim, num_warps):
    staging = check_staging(shape, k_dim, num_warps)
    assert staging.stored.is_surjective
    if shape[0] * shape[1] >= 32 * num_warps:
        assert staging.stored.is_injective, "nobody stores what another thread stores already"


VECTORS = [(shape, warps) for shape, k_dim, warps in CASES if k_dim == 0 and shape[0] * shape[1] >= 4 * 32 * warps]
"""Tiles with at least four elements a thread."""


@pytest.mark.parametrize(("shape", "num_warps"), VECTORS)
def test_k_along_the_rows_is_one_vector_store_without_conflict(shape, num_warps):
    staging = stage(shape, 0, 4, 2, num_warps)
    assert staging.blocked.size_per_thread[0] == 4
    assert staging.access.width_bytes >= 8
    assert staging.access.conflict_free


def test_k_along_the_columns_costs_what_is_known():
    """facts: storing a row-major tile as slabs takes 8 wavefronts per 64-bit store where 2 suffice."""
    access = stage((64, 64), 1, 4, 2, 4).access
    assert (access.width_bytes, access.wavefronts // access.instructions, access.minimum // access.instructions) == (
        8,
        8,
        2,
    )
