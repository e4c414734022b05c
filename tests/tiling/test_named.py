"""Derived layouts by name, and queries: element -> places, place -> elements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import CATALOGUE, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import derive
from layoutgen.tiling.named import NAMES, named_layout, what, where
from tests.algebra.helpers import coordinates, layouts


@given(layouts(6), st.data())
def test_where_finds_every_place_and_no_other(layout: LinearLayout, data: st.DataObject) -> None:
    element = data.draw(st.sampled_from(coordinates(layout.shape)))
    expected = [index for index in coordinates(layout.domain.shape) if layout(index) == element]
    found = where(layout, element)
    names = layout.domain.names
    assert [tuple(holding.place.get(name, 0) for name in names) for holding in found] == expected


@given(layouts(6), st.data())
def test_what_is_the_inverse_of_where(layout: LinearLayout, data: st.DataObject) -> None:
    index = data.draw(st.sampled_from(coordinates(layout.domain.shape)))
    place = dict(zip(layout.domain.names, index, strict=True))
    (holding,) = what(layout, place)
    assert holding.element == layout(index)
    assert holding in where(layout, holding.element)


@pytest.mark.parametrize("found", CATALOGUE, ids=str)
def test_both_queries_cover_an_atom(found: object) -> None:
    tiling = derive(found, 32, 32, (1, 1))  # type: ignore[arg-type]
    everything = what(tiling.accumulator, {})
    assert len(everything) == tiling.accumulator.domain.size
    assert sorted(holding.element for holding in everything) == coordinates((32, 32))


def test_the_example_of_the_manual() -> None:
    tiling = derive(atom("m8n8k4"), 16, 16, (1, 1))
    (holding,) = where(tiling.accumulator, (3, 9))
    # Row 3 is a0 and v1, column 9 is v0 and q1.
    assert holding.place == {"register": 3, "lane": 9}
    assert [h.element for h in what(tiling.operand("a", 4), {"lane": 5, "register": 2})] == [(9, 2)]
    assert what(tiling.operand("a", 4), {"lane": 5, "register": 2})[0].row("mk") == {
        "register": 2,
        "lane": 5,
        "m": 9,
        "k": 2,
    }


def test_an_element_that_nobody_holds() -> None:
    assert where(LinearLayout.from_bases({"lane": [[1, 0]]}, (2, 2)), (0, 1)) == []


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    tiling = derive(atom("m8n8k4"), 16, 32, (1, 1))
    layout = named_layout(tiling, name)
    assert layout.is_surjective
    if name == "operand_b":
        assert layout.shape == (32, 32)
        assert named_layout(tiling, name, 8).shape == (32, 8)


def test_what_must_fail() -> None:
    tiling = derive(atom("m8n8k4"), 16, 16, (1, 1))
    with pytest.raises(LayoutgenError, match="layout 'x': not a derived one; these are accumulator, grouped"):
        named_layout(tiling, "x")
    with pytest.raises(LayoutgenError, match=r"what: lane 32 must lie in 0..31"):
        what(tiling.accumulator, {"lane": 32})
    with pytest.raises(LayoutgenError, match=r"element \(16, 0\): dim0 must lie in 0..15"):
        where(tiling.accumulator, (16, 0))
