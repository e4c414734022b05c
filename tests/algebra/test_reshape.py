"""Reshape: the row-major regrouping of a tensor."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, layouts


def check_reshape(layout: LinearLayout, result: LinearLayout) -> None:
    """Post-condition: numpy's reshape puts each owner's element where the result says."""
    tensor = np.arange(layout.codomain.size).reshape(layout.shape)
    reshaped = tensor.reshape(result.shape)
    for index in coordinates(layout.domain.shape):
        assert tensor[layout(index)] == reshaped[result(index)]


@given(layouts(7), st.data())
def test_regroups_as_numpy_does(layout: LinearLayout, data: st.DataObject) -> None:
    bits = layout.codomain.bits
    cuts = sorted(data.draw(st.lists(st.integers(0, bits), max_size=3)))
    edges = [0, *cuts, bits]
    shape = tuple(1 << high - low for low, high in itertools.pairwise(edges))
    result = layout.reshape(shape)
    assert result.shape == shape
    check_reshape(layout, result)
    assert result.reshape(layout.shape) == layout


def test_every_shape_of_eight_elements() -> None:
    layout = LinearLayout.from_bases({"register": [[1]], "lane": [[4], [6]]}, (8,))
    for shape in [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (8, 1), (2, 1, 4)]:
        check_reshape(layout, layout.reshape(shape))


def test_the_size_must_stay() -> None:
    layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    with pytest.raises(LayoutgenError, match=r"reshape: \[4\] has 4 elements, \[2, 4\] has 8; they must be equal"):
        layout.reshape((2, 4))
    with pytest.raises(LayoutgenError, match="must be a power of two"):
        layout.reshape((3, 1))
