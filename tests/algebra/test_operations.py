"""Products, quotients, concatenation, sublayouts, growth: brute force first, Triton second."""

from itertools import product as cartesian

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout, Space, gf2
from layoutgen.algebra.operations import (
    broadcast,
    concatenate_inputs,
    concatenate_outputs,
    divide_left,
    divide_right,
    expand,
    expand_dims,
    product,
    pseudo_invert,
    rename_bits,
    replicate,
    solve,
    sublayout,
    with_copies,
    without_copies,
)
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, distributed, domains, image, layouts, layouts_between, shapes

ROW = LinearLayout.from_bases({"lane": [[0, 1], [0, 2]]}, (1, 4))


# ---- bits renamed, copies taken away


@given(layouts(6), st.data())
def test_bits_renamed_are_the_bits_of_a_permuted_coordinate(layout: LinearLayout, data: st.DataObject) -> None:
    dim = data.draw(st.sampled_from(layout.codomain.names))
    order = tuple(data.draw(st.permutations(range(layout.codomain.bits_of(dim)))))
    renamed = rename_bits(layout, dim, order)
    at = layout.codomain.names.index(dim)
    for index in coordinates(layout.domain.shape):
        element = list(layout(index))
        element[at] = sum((element[at] >> bit & 1) << new for bit, new in enumerate(order))
        assert renamed(index) == tuple(element)


def test_bits_must_be_renamed_one_to_one() -> None:
    with pytest.raises(LayoutgenError, match="must name each bit of dim1 once"):
        rename_bits(ROW, "dim1", (0, 0))


@given(layouts(6))
def test_without_copies_each_register_moves_something(layout: LinearLayout) -> None:
    thin = without_copies(layout)
    kept = [basis for basis in layout.bases["register"] if any(basis)]
    assert thin.bases == {**layout.bases, "register": kept}
    assert with_copies(thin, layout) == layout


# ---- pseudo-inverse and solve


@given(distributed(7, 0))
def test_the_pseudo_inverse_finds_an_owner_of_every_element(layout: LinearLayout) -> None:
    inverse = pseudo_invert(layout)
    assert layout.compose(inverse) == LinearLayout.identity(layout.codomain)


def test_the_pseudo_inverse_takes_the_lowest_owner() -> None:
    """Exhaustively: the packed owner is the least of all, for every onto map of three bits to two."""
    for columns in cartesian(range(4), repeat=3):
        layout = LinearLayout.from_bases({"lane": [[c] for c in columns]}, (4,))
        if not layout.is_surjective:
            with pytest.raises(LayoutgenError, match="only a surjective layout has a right inverse"):
                pseudo_invert(layout)
            continue
        inverse = pseudo_invert(layout)
        for element in range(4):
            owners = [x for x in range(8) if image(layout, x) == element]
            used = {bit for column in inverse.columns for bit in range(3) if column >> bit & 1}
            first = [bit for bit in range(3) if gf2.rank(columns[: bit + 1]) > gf2.rank(columns[:bit])]
            assert image(inverse, element) in owners
            assert used <= set(first)


@given(st.data())
def test_solve_completes_a_composition(data: st.DataObject) -> None:
    middle, last = (Space.of_shape(data.draw(shapes(6))) for _ in range(2))
    outer = data.draw(layouts_between(middle, last))
    inner = data.draw(layouts_between(data.draw(domains(6)), middle))
    target = outer.compose(inner)
    assert outer.compose(solve(outer, target)) == target


def test_what_cannot_be_solved_is_named() -> None:
    outer = LinearLayout.from_bases({"lane": [[1, 0]]}, (2, 2))
    target = LinearLayout.from_bases({"register": [[1, 0], [0, 1]]}, (2, 2))
    with pytest.raises(LayoutgenError, match=r"solve: register1 goes to \(0, 1\), which the outer map does not reach"):
        solve(outer, target)
    with pytest.raises(LayoutgenError, match="solve: the maps end in"):
        solve(outer, target.reshape((4,)))


# ---- products and quotients


def check_product(first: LinearLayout, second: LinearLayout, result: LinearLayout) -> None:
    """Post-condition: coordinates above and below, in domain and codomain alike."""
    for x in coordinates(first.domain.shape):
        for y in coordinates(second.domain.shape):
            index = dict(zip(first.domain.names, x, strict=True))
            for name, high in zip(second.domain.names, y, strict=True):
                index[name] = index.get(name, 0) + (high << first.domain.bits_of(name))
            low, high_image = first(x), second(y)
            element = dict(zip(result.codomain.names, result(**index), strict=True))
            for name, a in zip(first.codomain.names, low, strict=True):
                rest = dict(zip(second.codomain.names, high_image, strict=True)).get(name, 0)
                assert element[name] == a + (rest << first.codomain.bits_of(name))


@given(layouts(4), layouts(4))
def test_product_puts_the_second_above_the_first(first: LinearLayout, second: LinearLayout) -> None:
    check_product(first, second, product(first, second))


@given(layouts(5), layouts(5))
def test_quotients_undo_products(first: LinearLayout, second: LinearLayout) -> None:
    whole = product(first, second)
    left, right = divide_left(whole, first), divide_right(whole, second)
    assert left is not None
    assert right is not None
    assert product(first, left) == whole
    assert product(right, second) == whole


@given(st.data())
def test_a_quotient_exists_only_where_the_product_gives_back_the_layout(data: st.DataObject) -> None:
    space = Space.of_shape((2, 4))
    layout = data.draw(layouts_between(data.draw(domains(5)), space))
    factor = LinearLayout.from_bases({"register": [[0, 1]]}, (1, 2))
    if layout.domain.bits_of("register") == 0:
        with pytest.raises(LayoutgenError, match="divide_left: input dim register has 2 elements in the divisor"):
            divide_left(layout, factor)
        return
    quotient = divide_left(layout, factor)
    low = layout.columns[0] == 1
    others = all(column & 1 == 0 for column in layout.columns[1:])
    assert (quotient is not None) == (low and others)
    if quotient is not None:
        assert product(factor, quotient) == layout


def test_a_factor_larger_than_the_layout_is_refused() -> None:
    with pytest.raises(LayoutgenError, match="divide_right: output dim dim1 has 8 elements in the divisor and 4"):
        divide_right(ROW, LinearLayout.from_bases({"lane": [[0, 1]]}, (1, 8)))


# ---- parts and wholes


@given(layouts(7), st.data())
def test_sublayout_holds_the_other_dims_at_zero(layout: LinearLayout, data: st.DataObject) -> None:
    inputs = data.draw(st.lists(st.sampled_from(layout.domain.names), unique=True))
    outputs = data.draw(st.lists(st.sampled_from(layout.codomain.names), unique=True))
    part = sublayout(layout, inputs, outputs)
    for index in coordinates(part.domain.shape):
        element = dict(zip(layout.codomain.names, layout(**dict(zip(inputs, index, strict=True))), strict=True))
        assert part(index) == tuple(element[name] for name in outputs)


@given(layouts(6))
def test_concatenation_puts_the_parts_together(layout: LinearLayout) -> None:
    names, dims = layout.domain.names, layout.codomain.names
    slow, fast = sublayout(layout, names[:2], dims), sublayout(layout, names[2:], dims)
    assert concatenate_inputs(slow, fast) == layout
    front, back = sublayout(layout, names, dims[:1]), sublayout(layout, names, dims[1:])
    assert concatenate_outputs(front, back) == layout


def test_parts_must_fit() -> None:
    with pytest.raises(LayoutgenError, match=r"concatenate_inputs: .* must be the same"):
        concatenate_inputs(ROW, ROW.reshape((4,)))
    with pytest.raises(LayoutgenError, match=r"concatenate_outputs: .* must be the same"):
        concatenate_outputs(ROW, replicate(ROW, "warp"))
    with pytest.raises(LayoutgenError, match="has no dim dim7"):
        sublayout(ROW, ["lane"], ["dim7"])


# ---- growth


@given(layouts(5), st.sampled_from(["register", "lane", "warp", "block"]), st.integers(0, 2))
def test_replicas_hold_the_same(layout: LinearLayout, name: str, bits: int) -> None:
    result = replicate(layout, name, bits)
    size = 1 << layout.domain.bits_of(name)
    for index in coordinates(result.domain.shape):
        reduced = {n: c % size if n == name else c for n, c in zip(result.domain.names, index, strict=True)}
        assert result(index) == layout(**reduced)
    assert len(result.free_bits) == len(layout.free_bits) + bits


@given(layouts(5), st.data())
def test_expansion_repeats_the_layout_in_registers(layout: LinearLayout, data: st.DataObject) -> None:
    shape = tuple(size << data.draw(st.integers(0, 1)) for size in layout.shape)
    result = expand(layout, shape)
    assert result.shape == shape
    size = 1 << layout.domain.bits_of("register")
    for index in coordinates(result.domain.shape):
        old = layout((*index[:-1], index[-1] % size))
        assert tuple(c % s for c, s in zip(result(index), layout.shape, strict=True)) == old
    assert result.rank == layout.rank + result.codomain.bits - layout.codomain.bits


def test_broadcast_grows_dims_of_size_1_alone() -> None:
    assert broadcast(ROW, (4, 4)).bases["register"] == [[1, 0], [2, 0]]
    with pytest.raises(LayoutgenError, match=r"broadcast: \[1, 4\] to \[1, 8\]: only dims of size 1 may grow"):
        broadcast(ROW, (1, 8))
    with pytest.raises(LayoutgenError, match=r"expand: \[1, 4\] to \[1, 2\]: no dim may shrink"):
        expand(ROW, (1, 2))


def test_expand_dims() -> None:
    assert expand_dims(ROW, 2).shape == (1, 4, 1)
    assert expand_dims(ROW, 2).slice(2) == ROW
    with pytest.raises(LayoutgenError, match=r"expand_dims: position 3 of \[1, 4\]: must lie in 0..2"):
        expand_dims(ROW, 3)


def test_replicate_checks_its_dim() -> None:
    with pytest.raises(LayoutgenError, match="has no dim thread"):
        replicate(ROW, "thread")
    with pytest.raises(LayoutgenError, match="replicate: -1 bits of lane"):
        replicate(ROW, "lane", -1)
