"""Tiles with and without masks: how many there are, and what they cost."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import FastAttentionRequest
from layoutgen.sass.spans import Spans, spans, tiles_of
from layoutgen.toolchain import compile_kernel, read_kernel


def request(causal, block_m=32, block_n=16, **options):
    return FastAttentionRequest(head_dim=16, atom="m8n8k4", block_m=block_m, block_n=block_n, causal=causal, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("block_m", "block_n"), [(32, 16), (32, 64), (64, 32)])
def test_tiles_are_those_that_a_row_sees_a_part_of(causal, block_m, block_n):
    """Oracle: every pair of the block; the last whole tile counts as masked where the one after it is not whole."""
    asked = request(causal, block_m, block_n)
    for length in range(1, 150, 7):
        for first in range(0, length, block_m):
            rows, keys = range(first, first + block_m), range(length)
            seen = {k // block_n for k in keys if not causal or k <= rows[-1]}
            clear = {n for n in seen if (n + 1) * block_n <= (first + 1 if causal else length)}
            whole, masked = tiles_of(asked, first, length)
            assert whole + masked == len(seen)
            assert whole == len([n for n in clear if (n + 2) * block_n <= length])


def test_windows_are_not_counted():
    with pytest.raises(LayoutgenError, match="take causal or neither"):
        tiles_of(request(False, window=(5, 5)), 0, 100)


def test_cycles_per_pair_are_those_of_the_tiles():
    """Of 64 causal queries two blocks of 32 go through (2) and (2 + 2) tiles of 16 keys."""
    found = Spans(request(True), 2, whole=10.0, masked=16.0)
    assert [tiles_of(found.request, first, 64) for first in (0, 32)] == [(0, 2), (2, 2)]
    assert found.cycles_per_pair(64) == (4 * 16 + 2 * 10) / 2 / (64 * 65 / 2)
    plain = Spans(request(False), 2, whole=10.0, masked=16.0)
    assert plain.cycles_per_pair(64) == 2 * (3 * 10 + 16) / 2 / 64**2


def test_a_tile_with_masks_costs_more(tmp_path):
    made = lg.attention(head_dim=16, design="fast", block_m=32, block_n=16, causal=True)
    file = read_kernel(made.write(tmp_path))
    found = spans(file, compile_kernel(file, "sm_70"))
    assert 0 < found.whole < found.masked
    assert found.cycles_per_pair(4096) < found.cycles_per_pair(256)


def test_other_kernels_have_no_spans(compiled):
    with pytest.raises(LayoutgenError, match="is none of the fast design"):
        spans(*compiled("attention_d64_64x32"))
