"""Blocked layouts against Triton's own reading of them."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.algebra import Blocked
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates
from tests.triton_oracle import to_linear_layout

WARPS = ((4, 1), (1, 4), (2, 2))
LANES = ((32, 1), (16, 2), (8, 4), (4, 8), (2, 16), (1, 32))


@settings(max_examples=300)
@given(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8])),
    st.sampled_from(LANES),
    st.sampled_from(WARPS),
    st.permutations([0, 1]),
    st.tuples(st.integers(0, 7).map(lambda b: 1 << b), st.integers(0, 7).map(lambda b: 1 << b)),
)
def test_is_triton_s_layout(
    size: tuple[int, int], lanes: tuple[int, int], warps: tuple[int, int], order: list[int], shape: tuple[int, int]
) -> None:
    blocked = Blocked(size, lanes, warps, tuple(order))
    assert blocked.layout(shape) == to_linear_layout(blocked, shape)


def test_three_dims() -> None:
    blocked = Blocked((1, 2, 4), (2, 4, 4), (1, 2, 2), (2, 0, 1))
    for shape in product((1, 4, 16), repeat=3):
        assert blocked.layout(shape) == to_linear_layout(blocked, shape)


def test_every_element_has_an_owner() -> None:
    layout = Blocked((1, 8), (8, 4), (4, 1), (1, 0)).layout((64, 32))
    assert {layout(index) for index in coordinates(layout.domain.shape)} == set(coordinates((64, 32)))


def test_a_tensor_smaller_than_the_block_is_replicated() -> None:
    layout = Blocked((1, 1), (8, 4), (4, 1), (1, 0)).layout((8, 4))
    assert layout.free_bits == ("warp0", "warp1")


def test_prints_as_gluon_source() -> None:
    assert str(Blocked((1, 8), (8, 4), (4, 1), (1, 0))) == "gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])"


def test_counts_must_be_powers_of_two() -> None:
    with pytest.raises(LayoutgenError, match="blocked layout = 3: must be a power of two; the nearest above is 4"):
        Blocked((1, 3), (8, 4), (4, 1), (1, 0)).layout((64, 32))
