"""Rank, kernel and free bits."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout, gf2
from tests.algebra.helpers import bijections, dense_rank, distributed, image, layouts, matrix


def check_kernel(layout: LinearLayout) -> None:
    """Post-condition: the kernel vectors are independent and span exactly what maps to zero."""
    spanned = {0}
    for vector in layout.kernel:
        assert vector not in spanned
        spanned |= {vector ^ other for other in spanned}
    assert spanned == {packed for packed in range(layout.domain.size) if image(layout, packed) == 0}


@given(layouts())
def test_rank_is_that_of_the_matrix(layout: LinearLayout) -> None:
    assert layout.rank == dense_rank(matrix(layout))
    assert layout.rank + len(layout.kernel) == layout.domain.bits
    assert len({image(layout, packed) for packed in range(layout.domain.size)}) == 1 << layout.rank


@given(layouts())
def test_the_kernel_is_what_maps_to_zero(layout: LinearLayout) -> None:
    check_kernel(layout)


def test_every_map_of_three_bits_to_two() -> None:
    for columns in product(range(4), repeat=3):
        layout = LinearLayout.from_bases({"lane": [[c] for c in columns]}, (4,))
        assert layout.rank == dense_rank(matrix(layout))
        check_kernel(layout)


@given(layouts())
def test_predicates_count_owners(layout: LinearLayout) -> None:
    owners = [0] * layout.codomain.size
    for element in layout.table().tolist():
        owners[element] += 1
    assert layout.is_injective == (max(owners) <= 1)
    assert layout.is_surjective == (min(owners) >= 1)
    assert layout.is_bijective == (set(owners) == {1})


@given(bijections())
def test_bijections_have_no_kernel(layout: LinearLayout) -> None:
    assert layout.is_bijective
    assert layout.kernel == ()


@given(distributed())
def test_layouts_of_gluon_reach_everything(layout: LinearLayout) -> None:
    assert layout.is_surjective


def test_free_bits_are_the_zero_bases_by_name() -> None:
    layout = LinearLayout.from_bases({"register": [[0], [1]], "lane": [[2], [0]], "warp": [[0]]}, (4,))
    assert layout.free_bits == ("register0", "lane1", "warp0")


def test_a_kernel_vector_need_not_be_a_free_bit() -> None:
    layout = LinearLayout.from_bases({"register": [[1]], "lane": [[1]]}, (2,))
    assert layout.free_bits == ()
    assert layout.kernel == (0b11,)


@given(layouts(), st.data())
def test_a_preimage_maps_back(layout: LinearLayout, data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, layout.codomain.size - 1))
    found = gf2.echelon(layout.columns).preimage(wanted)
    reached = {image(layout, packed) for packed in range(layout.domain.size)}
    assert (found is not None) == (wanted in reached)
    if found is not None:
        assert image(layout, found) == wanted
