"""Applying a layout: to one element, to all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from tests.algebra.helpers import coordinates, image, layouts


def check_is_linear_extension_of_its_bases(layout: LinearLayout) -> None:
    """Post-condition: the image of every index is the exclusive or of the bases of its set bits, per coordinate."""
    order = list(reversed(layout.domain.names))
    bases = [basis for name in order for basis in layout.bases[name]]
    for packed in range(layout.domain.size):
        expected = [0] * len(layout.shape)
        for bit, basis in enumerate(bases):
            if packed >> bit & 1:
                expected = [a ^ b for a, b in zip(expected, basis, strict=True)]
        assert layout(layout.domain.unpack(packed)) == tuple(expected)


@given(layouts())
def test_every_element_is_the_sum_of_its_bases(layout: LinearLayout) -> None:
    check_is_linear_extension_of_its_bases(layout)


@given(layouts())
def test_the_table_holds_every_image(layout: LinearLayout) -> None:
    assert layout.table().tolist() == [image(layout, packed) for packed in range(layout.domain.size)]


@given(layouts(), st.data())
def test_addition_is_exclusive_or(layout: LinearLayout, data: st.DataObject) -> None:
    index = st.integers(0, layout.domain.size - 1)
    x, y = data.draw(index), data.draw(index)
    sums = [a ^ b for a, b in zip(layout(layout.domain.unpack(x)), layout(layout.domain.unpack(y)), strict=True)]
    assert layout(layout.domain.unpack(x ^ y)) == tuple(sums)


def test_every_map_of_two_bits_to_two_bits() -> None:
    for columns in coordinates((4, 4)):
        layout = LinearLayout.from_bases({"lane": [[columns[0]], [columns[1]]]}, (4,))
        check_is_linear_extension_of_its_bases(layout)


def test_coordinates_by_name_default_to_zero() -> None:
    layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2))
    assert layout(lane=2) == (2, 0)
    assert layout(register=1, lane=1, warp=0) == layout((0, 0, 1, 1)) == (1, 1)


def test_a_layout_of_no_bits_has_one_element() -> None:
    layout = LinearLayout.from_bases({}, (1, 1))
    assert layout() == (0, 0)
    assert layout.table().tolist() == [0]


def test_a_swizzled_basis_of_several_bits() -> None:
    layout = LinearLayout.from_bases({"lane": [[0, 1], [1, 3]]}, (2, 4))
    assert [layout(lane=lane) for lane in range(4)] == [(0, 0), (0, 1), (1, 3), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thread": 1}, "has no dim thread; it has block, warp, lane, register"),
        ({"lane": 4}, "lane must lie in 0..3"),
        ({"lane": -1}, "lane must lie in 0..3"),
        ({"element": (0, 0, 1)}, "has 4 dims"),
    ],
)
def test_what_must_fail(arguments: dict[str, object], message: str) -> None:
    layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2))
    with pytest.raises(LayoutgenError, match=message):
        layout(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bases", "shape", "message"),
    [
        ({"lane": [[1]]}, (2, 2), r"basis lane0 = \[1\] has 1 coordinates; shape \[2, 2\] has 2"),
        ({"lane": [[2, 0]]}, (2, 2), "dim0 must lie in 0..1"),
        ({"thread": [[1]]}, (2,), "unknown hardware dim thread; known are register, lane, warp, block"),
        ({"lane": [[1]]}, (3,), r"shape \[3\]: dim0 = 3: must be a power of two; the nearest above is 4"),
        ({"lane": [[1]]}, (0,), "must be a power of two; the nearest above is 1"),
    ],
)
def test_bases_that_are_no_layout(bases: dict[str, list[list[int]]], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        LinearLayout.from_bases(bases, shape)


def test_columns_must_match_the_domain() -> None:
    space = LinearLayout.from_bases({"lane": [[1]]}, (2,)).codomain
    with pytest.raises(LayoutgenError, match="2 columns for 1 bits of"):
        LinearLayout(space, space, (1, 1))
    with pytest.raises(LayoutgenError, match="basis dim00 = 2 lies outside"):
        LinearLayout(space, space, (2,))
