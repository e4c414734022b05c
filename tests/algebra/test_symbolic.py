"""Layouts as expressions over bits."""

import pytest
from hypothesis import given, settings

from layoutgen.algebra import LinearLayout
from layoutgen.algebra.symbolic import expressions, symbols
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, layouts


@settings(max_examples=50)
@given(layouts(5))
def test_expressions_evaluate_to_the_layout(layout: LinearLayout) -> None:
    bits = expressions(layout)
    inputs = symbols(layout.domain)
    for packed, index in enumerate(coordinates(layout.domain.shape)):
        values = {symbol: bool(packed >> i & 1) for i, symbol in enumerate(inputs)}
        element = tuple(
            sum(bool(bit.subs(values)) << position for position, bit in enumerate(column)) for column in bits.values()
        )
        assert element == layout(index)


def test_the_accumulator_formula_of_the_isa() -> None:
    layout = LinearLayout.from_bases({"register": [[0, 1], [2, 0], [0, 4]], "lane": [[1, 0], [0, 2], [4, 0]]}, (8, 8))
    names = ("v0", "v1", "v2", "a0", "a1", "b")
    assert str(expressions(layout, names)) == "{'dim0': (a0, v1, b), 'dim1': (v0, a1, v2)}"


def test_names_must_match_the_bits() -> None:
    layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    with pytest.raises(LayoutgenError, match="symbols: 1 names for the 2 bits of"):
        expressions(layout, ("a",))
