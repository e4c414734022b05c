"""Static figures of the fast attention design that the docs promise, for the tiles that the profile takes."""

import pytest

import layoutgen as lg
from tests.kernels.fast import HEAD_DIMS

FEATURES = (
    {},
    {"causal": True},
    {"causal": True, "alignment": "bottom-right"},
    {"window": (512, 0)},
    {"softcap": 30.0},
    {"sinks": True},
    {"bias": True},
    {"mask": True},
    {"out_dtype": "float32"},
    # what models take together
    {"causal": True, "sinks": True},
    {"causal": True, "softcap": 30.0},
    {"causal": True, "window": (512, 0), "softcap": 30.0},
    {"causal": True, "window": (512, 0), "sinks": True},
    {"causal": True, "bias": True},
    {"causal": True, "mask": True},
    {"bias": True, "softcap": 30.0},
    {"causal": True, "out_dtype": "float32"},
    {"causal": True, "alignment": "bottom-right", "sinks": True},
    {"causal": True, "alignment": "bottom-right", "mask": True},
)
KNOWN = {
    (256, "causal=True-bias=True"): 16,
    (256, "causal=True-mask=True"): 8,
    (256, "causal=True-alignment=bottom-right-mask=True"): 32,
    (256, "causal=True-alignment=bottom-right-sinks=True"): 8,
    (256, "bias=True-softcap=30.0"): 16,
    (576, "causal=True"): 208,
}
"""Bytes of what spills all the same, stored and loaded; docs/attention.md says so."""


def name_of(features):
    return "-".join(f"{name}={value}" for name, value in features.items()) or "plain"


def check_spills(head_dim, features, **options):
    compiled = lg.attention(head_dim=head_dim, design="fast", **options, **features).compile("sm_70")
    assert compiled.spill_stores + compiled.spill_loads == KNOWN.get((head_dim, name_of(features)), 0)


@pytest.mark.sweep
@pytest.mark.parametrize("features", FEATURES, ids=name_of)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_nothing_spills(head_dim, features):
    check_spills(head_dim, features)


@pytest.mark.sweep
@pytest.mark.parametrize("features", [{}, {"causal": True}], ids=name_of)
@pytest.mark.parametrize(
    ("head_dim", "v_head_dim"), [(64, 128), (192, 128), (512, 512), (576, 512)], ids=lambda head_dim: str(head_dim)
)
def test_nothing_spills_beside_another_head_dim_of_v(head_dim, v_head_dim, features):
    check_spills(head_dim, features, v_head_dim=v_head_dim)


@pytest.mark.sweep
@pytest.mark.parametrize("queries", [32, 64])
@pytest.mark.parametrize("head_dim", [*(d for d in HEAD_DIMS if d <= 128), 24, 48, 56, 104, 120])
def test_nothing_spills_for_few_queries(head_dim, queries):
    compiled = lg.attention(head_dim=head_dim, design="fast", max_queries=queries).compile("sm_70")
    assert compiled.spill_stores + compiled.spill_loads == (48 if (head_dim, queries) == (24, 32) else 0)


@pytest.mark.sweep
def test_a_tile_that_is_too_wide_spills():
    """The figure that the test above looks at: of 64 keys a tile, head dim 128 leaves no registers."""
    compiled = lg.attention(head_dim=128, design="fast", block_m=32, block_n=64).compile("sm_70")
    assert compiled.spill_stores > 0
