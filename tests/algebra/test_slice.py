"""Slice, as Gluon's SliceLayout, and shrink, as Triton does with a layout larger than its tensor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, distributed, layouts
from tests.triton_oracle import slice_to_linear_layout


def check_slice(layout: LinearLayout, dim: int, result: LinearLayout) -> None:
    """Post-condition: each owner keeps its other coordinates."""
    for index in coordinates(layout.domain.shape):
        element = layout(index)
        assert result(index) == element[:dim] + element[dim + 1 :]


@given(layouts(7), st.data())
def test_projects_out_one_coordinate(layout: LinearLayout, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(layout.shape) - 1))
    check_slice(layout, dim, layout.slice(dim))


@given(distributed(), st.data())
def test_is_triton_s_slice_layout(layout: LinearLayout, data: st.DataObject) -> None:
    if len(layout.shape) < 2:
        return
    dim = data.draw(st.integers(0, len(layout.shape) - 1))
    theirs = slice_to_linear_layout(layout, dim)
    ours = layout.slice(dim)
    # Triton drops registers that only replicate; the others keep their order.
    registers = [basis for basis in ours.bases["register"] if any(basis)]
    kept = [basis for basis in theirs.bases["register"] if any(basis)]
    assert kept == registers
    assert theirs.bases["lane"] == ours.bases["lane"]
    assert theirs.bases["warp"] == ours.bases["warp"]


def test_the_dim_must_exist() -> None:
    layout = LinearLayout.from_bases({"lane": [[1, 0]]}, (2, 2))
    with pytest.raises(LayoutgenError, match=r"slice: dim 2 of \[2, 2\]: must lie in 0..1"):
        layout.slice(2)


@given(layouts(7), st.data())
def test_shrink_keeps_the_low_bits_of_each_coordinate(layout: LinearLayout, data: st.DataObject) -> None:
    shape = tuple(1 << data.draw(st.integers(0, size.bit_length() - 1)) for size in layout.shape)
    result = layout.shrink(shape)
    for index in coordinates(layout.domain.shape):
        assert result(index) == tuple(c % size for c, size in zip(layout(index), shape, strict=True))


@pytest.mark.parametrize("shape", [(4, 2), (2,), (2, 2, 1)])
def test_shrink_neither_grows_nor_changes_the_rank(shape: tuple[int, ...]) -> None:
    layout = LinearLayout.from_bases({"lane": [[1, 0]]}, (2, 2))
    with pytest.raises(LayoutgenError, match=r"shrink: .* no dim may grow and the rank must stay"):
        layout.shrink(shape)
