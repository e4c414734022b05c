"""The whole algebra beside `triton.tools.LinearLayout`, on thousands of random layouts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.tools import LinearLayout as Theirs

from layoutgen.algebra import LinearLayout, Space
from layoutgen.algebra.operations import product, pseudo_invert, solve
from tests.algebra.helpers import bijections_between, domains, layouts, layouts_between, shapes

many = settings(max_examples=300)


def theirs(layout: LinearLayout) -> Any:
    """Return Triton's object; it lists input and output dims fastest first."""
    dims = list(reversed(layout.codomain.dims))
    bases = []
    for name, bits in reversed(layout.domain.dims):
        start = layout.domain.offsets[name]
        columns = [layout.codomain.unpack(column) for column in layout.columns[start : start + bits]]
        bases.append((name, [list(reversed(element)) for element in columns]))
    return Theirs.from_bases(bases, [name for name, _ in dims], [1 << bits for _, bits in dims], False)


def same(ours: LinearLayout, answer: Any) -> bool:
    return bool(theirs(ours) == answer)


def onto(codomain: Space) -> st.SearchStrategy[LinearLayout]:
    """Surjective maps with a few more inputs than outputs."""

    @st.composite
    def build(draw: st.DrawFn) -> LinearLayout:
        columns = list(draw(bijections_between(codomain, codomain)).columns)
        columns += draw(st.lists(st.integers(0, codomain.size - 1), max_size=3))
        order = draw(st.permutations(range(len(columns))))
        split = draw(st.integers(0, len(columns)))
        domain = Space((("lane", len(columns) - split), ("register", split)))
        return LinearLayout(domain, codomain, tuple(columns[i] for i in order))

    return build()


@many
@given(layouts(8))
def test_bases_and_predicates(layout: LinearLayout) -> None:
    answer = theirs(layout)
    assert answer.is_surjective() == layout.is_surjective
    assert answer.is_injective() == layout.is_injective
    assert answer.is_invertible() == layout.is_bijective


@many
@given(layouts(8), st.data())
def test_apply(layout: LinearLayout, data: st.DataObject) -> None:
    index = {name: data.draw(st.integers(0, (1 << bits) - 1)) for name, bits in layout.domain.dims}
    answer = theirs(layout).apply(index)
    assert tuple(answer[name] for name in layout.codomain.names) == layout(**index)


@many
@given(st.data())
def test_compose(data: st.DataObject) -> None:
    middle, last = (Space.of_shape(data.draw(shapes(8))) for _ in range(2))
    inner = data.draw(layouts_between(data.draw(domains(8)), middle))
    outer = data.draw(layouts_between(middle, last))
    assert same(outer.compose(inner), theirs(inner).compose(theirs(outer)))


@many
@given(st.data())
def test_invert(data: st.DataObject) -> None:
    codomain = Space.of_shape(data.draw(shapes(8)))
    split = data.draw(st.integers(0, codomain.bits))
    domain = Space((("lane", codomain.bits - split), ("register", split)))
    layout = data.draw(bijections_between(domain, codomain))
    assert same(layout.invert(), theirs(layout).invert())


@many
@given(st.data())
def test_pseudo_invert(data: st.DataObject) -> None:
    layout = data.draw(onto(Space.of_shape(data.draw(shapes(7)))))
    assert same(pseudo_invert(layout), theirs(layout).pseudoinvert())


@many
@given(st.data())
def test_solve_is_invert_and_compose(data: st.DataObject) -> None:
    codomain = Space.of_shape(data.draw(shapes(7)))
    outer = data.draw(onto(codomain))
    target = data.draw(layouts_between(data.draw(domains(7)), codomain))
    # Triton demands that names of inputs and outputs of the result differ or agree in full; renamed, they differ.
    renamed = LinearLayout(Space(tuple((f"new_{n}", b) for n, b in target.domain.dims)), codomain, target.columns)
    assert same(solve(outer, renamed), theirs(renamed).invert_and_compose(theirs(outer)))


@many
@given(layouts(5), layouts(5))
def test_product(first: LinearLayout, second: LinearLayout) -> None:
    answer = theirs(first) * theirs(second)
    ours = product(first, second)
    assert same(ours, answer)


@pytest.mark.parametrize("bits", range(4))
def test_the_named_constructors(bits: int) -> None:
    lane, dim = Space((("lane", bits),)), Space((("dim0", bits),))
    assert same(
        LinearLayout(lane, dim, tuple(1 << i for i in range(bits))), Theirs.identity_1d(1 << bits, "lane", "dim0")
    )
    strided = LinearLayout(lane, Space((("dim0", bits + 2),)), tuple(4 << i for i in range(bits)))
    assert same(strided, Theirs.strided_1d(1 << bits, 4, "lane", "dim0"))
    zeros = LinearLayout(lane, Space((("dim0", 3),)), (0,) * bits)
    assert same(zeros, Theirs.zeros_1d(1 << bits, "lane", "dim0", 8))
