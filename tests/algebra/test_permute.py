"""Permutation of tensor dims."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, layouts


def check_permute(layout: LinearLayout, order: tuple[int, ...], result: LinearLayout) -> None:
    """Post-condition: numpy's transpose puts each owner's element where the result says."""
    tensor = np.arange(layout.codomain.size).reshape(layout.shape)
    permuted = tensor.transpose(order)
    assert result.shape == permuted.shape
    for index in coordinates(layout.domain.shape):
        assert tensor[layout(index)] == permuted[result(index)]


@given(layouts(7), st.data())
def test_permutes_as_numpy_does(layout: LinearLayout, data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(layout.shape)))))
    check_permute(layout, order, layout.permute(order))
    back = tuple(order.index(i) for i in range(len(order)))
    assert layout.permute(order).permute(back) == layout


def test_every_order_of_three_dims() -> None:
    layout = LinearLayout.from_bases({"register": [[1, 0, 2]], "lane": [[0, 1, 0], [0, 2, 1]]}, (2, 4, 4))
    for order in permutations(range(3)):
        check_permute(layout, order, layout.permute(order))


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 2), (0, 1, 2)])
def test_an_order_must_name_each_dim_once(order: tuple[int, ...]) -> None:
    layout = LinearLayout.from_bases({"lane": [[1, 0]]}, (2, 2))
    with pytest.raises(LayoutgenError, match=r"permute: order \[.*\] must name each of 2 dims once"):
        layout.permute(order)
