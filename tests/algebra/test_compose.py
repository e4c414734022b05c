"""Composition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout, Space
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import domains, image, layouts, layouts_between, matrix, shapes


@st.composite
def chains(draw: st.DrawFn) -> tuple[LinearLayout, LinearLayout]:
    middle = Space.of_shape(draw(shapes(7)))
    inner = draw(layouts_between(draw(domains(7)), middle))
    return draw(layouts_between(middle, Space.of_shape(draw(shapes(7))))), inner


def check_composition(outer: LinearLayout, inner: LinearLayout, result: LinearLayout) -> None:
    """Post-condition: domain of inner, codomain of outer, and outer(inner(x)) for every x."""
    assert result.domain == inner.domain
    assert result.codomain == outer.codomain
    for packed in range(inner.domain.size):
        assert image(result, packed) == image(outer, image(inner, packed))


@given(chains())
def test_applies_inner_then_outer(pair: tuple[LinearLayout, LinearLayout]) -> None:
    check_composition(*pair, pair[0].compose(pair[1]))


@given(chains())
def test_is_the_product_of_the_matrices(pair: tuple[LinearLayout, LinearLayout]) -> None:
    outer, inner = pair
    assert (matrix(outer.compose(inner)) == matrix(outer) @ matrix(inner) % 2).all()


@given(layouts())
def test_identity_is_neutral_on_both_sides(layout: LinearLayout) -> None:
    assert LinearLayout.identity(layout.codomain).compose(layout) == layout
    assert layout.compose(LinearLayout.identity(layout.domain)) == layout


@given(st.data())
def test_is_associative(data: st.DataObject) -> None:
    spaces = [Space.of_shape(data.draw(shapes(6))) for _ in range(3)]
    first = data.draw(layouts_between(data.draw(domains(6)), spaces[0]))
    second = data.draw(layouts_between(spaces[0], spaces[1]))
    third = data.draw(layouts_between(spaces[1], spaces[2]))
    assert third.compose(second).compose(first) == third.compose(second.compose(first))


def test_every_pair_of_two_bit_maps() -> None:
    space = Space.of_shape((4,))
    maps = [LinearLayout(space, space, (a, b)) for a in range(4) for b in range(4)]
    for outer in maps:
        for inner in maps:
            check_composition(outer, inner, outer.compose(inner))
    assert len(maps) == 16


def test_through_an_empty_space_everything_is_zero() -> None:
    empty, two = Space.of_shape((1,)), Space.of_shape((2, 2))
    inner = LinearLayout(two, empty, (0, 0))
    outer = LinearLayout(empty, two, ())
    assert outer.compose(inner).columns == (0, 0)
    assert np.array_equal(outer.compose(inner).table(), np.zeros(4))


def test_the_spaces_must_meet() -> None:
    layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    with pytest.raises(LayoutgenError, match=r"compose: the inner map ends in \(dim0: 4\), the outer one starts from"):
        layout.compose(layout)
