"""Inversion."""

from itertools import product

import pytest
from hypothesis import given

from layoutgen.algebra import LinearLayout, Space, gf2
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import bijections, dense_rank, layouts, matrix


def check_inverse(layout: LinearLayout, inverse: LinearLayout) -> None:
    """Post-condition: both compositions are the identity."""
    assert inverse.domain == layout.codomain
    assert inverse.codomain == layout.domain
    assert inverse.compose(layout) == LinearLayout.identity(layout.domain)
    assert layout.compose(inverse) == LinearLayout.identity(layout.codomain)


@given(bijections())
def test_every_bijection_has_an_inverse(layout: LinearLayout) -> None:
    check_inverse(layout, layout.invert())
    assert layout.invert().invert() == layout


@given(layouts(6))
def test_anything_else_is_refused(layout: LinearLayout) -> None:
    square = layout.domain.bits == layout.codomain.bits
    if square and dense_rank(matrix(layout)) == layout.codomain.bits:
        check_inverse(layout, layout.invert())
    else:
        with pytest.raises(LayoutgenError, match=r"invert: not (injective|surjective)"):
            layout.invert()


def test_every_three_bit_map() -> None:
    space = Space.of_shape((8,))
    invertible = 0
    for columns in product(range(8), repeat=3):
        inverse = gf2.invert(columns, 3)
        if inverse is None:
            assert len({gf2.apply(columns, x) for x in range(8)}) < 8
        else:
            check_inverse(LinearLayout(space, space, columns), LinearLayout(space, space, inverse))
            invertible += 1
    assert invertible == (8 - 1) * (8 - 2) * (8 - 4)  # the order of GL(3, 2)


def test_what_cannot_be_inverted_is_named() -> None:
    doubled = LinearLayout.from_bases({"register": [[1]], "lane": [[1], [2]]}, (4,))
    with pytest.raises(LayoutgenError, match=r"not injective: register 1, lane 1 maps to \(0,\), as 0 does"):
        doubled.invert()
    short = LinearLayout.from_bases({"lane": [[1]]}, (4,))
    with pytest.raises(LayoutgenError, match=r"not surjective: rank 1 of 2 bits of \(dim0: 4\)"):
        short.invert()
