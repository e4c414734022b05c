"""Static figures of the fast attention design that the docs promise, for the tiles that the profile takes."""

import pytest

import layoutgen as lg

FEATURES = (
    {},
    {"causal": True},
    {"causal": True, "alignment": "bottom-right"},
    {"window": (512, 0)},
    {"softcap": 30.0},
    {"sinks": True},
    {"bias": True},
    {"out_dtype": "float32"},
)


@pytest.mark.sweep
@pytest.mark.parametrize("features", FEATURES, ids=lambda features: "-".join(map(str, features)) or "plain")
@pytest.mark.parametrize("head_dim", [16, 32, 40, 64, 72, 80, 88, 96, 112, 128])
def test_nothing_spills(head_dim, features):
    compiled = lg.attention(head_dim=head_dim, design="fast", **features).compile("sm_70")
    assert (compiled.spill_stores, compiled.spill_loads) == (0, 0)


@pytest.mark.sweep
def test_a_tile_that_is_too_wide_spills():
    """The figure that the test above looks at: of 64 keys a tile, head dim 128 leaves no registers."""
    compiled = lg.attention(head_dim=128, design="fast", block_m=32, block_n=64).compile("sm_70")
    assert compiled.spill_stores > 0
