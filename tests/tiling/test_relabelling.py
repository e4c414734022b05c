"""The relabelling: reshape, permute, reshape of a loaded fragment."""

import numpy as np
import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import Relabelling, derive
from layoutgen.tiling.relabelling import coordinate_map, grouped_shape, relabel, selected_bits

ATOM = atom("m8n8k4")
CASES = [
    (16, 16, (1, 1), None),
    (64, 32, (4, 1), None),
    (128, 64, (2, 2), None),
    (64, 32, (2, 1), "m2,n3"),
    (64, 32, (1, 4), "m3,m4"),
    (32, 64, (1, 1), "n3,n4"),
    (64, 64, (2, 2), "n0,m1"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_puts_each_operand_element_where_its_accumulator_elements_are(
    case: tuple[int, int, tuple[int, int], str],
) -> None:
    """With numpy's reshape and transpose: what an owner holds is what its broadcast coordinate reads."""
    tiling = derive(ATOM, *case)
    for fragment, relabelling in ((tiling.fragment_a, tiling.relabel_a), (tiling.fragment_b, tiling.relabel_b)):
        operand = np.arange(fragment.codomain.size).reshape(fragment.shape)
        relabelled = operand.reshape(relabelling.split).transpose(relabelling.order).reshape(relabelling.shape)
        broadcast = np.broadcast_to(relabelled, tiling.shape).reshape(-1)
        # Owner by owner: the operand element it holds, and the one its accumulator element reads.
        assert (broadcast[tiling.grouped.table()] == operand.reshape(-1)[fragment.table()]).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_short_as_it_can_be(case: tuple[int, int, tuple[int, int], str]) -> None:
    """Neighbouring dims that stay neighbours in order are one dim."""
    tiling = derive(ATOM, *case)
    for relabelling in (tiling.relabel_a, tiling.relabel_b):
        assert all(second != first + 1 for first, second in zip(relabelling.order, relabelling.order[1:], strict=False))


def test_layout_and_relabelling_agree() -> None:
    tiling = derive(ATOM, 64, 32, (4, 1))
    relabelled = tiling.relabel_a.apply(tiling.fragment_a)
    assert relabelled == tiling.grouped.shrink(tiling.relabel_a.shape)
    assert isinstance(tiling.relabel_a, Relabelling)


def accumulator() -> LinearLayout:
    return LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2))


def test_a_bit_that_feeds_two_operand_bits_is_no_broadcast() -> None:
    operand = LinearLayout.from_bases({"register": [[3]], "lane": [[0]]}, (4,))
    with pytest.raises(LayoutgenError, match="accumulator bit dim10 feeds several operand bits"):
        selected_bits(coordinate_map(accumulator(), operand))


def test_two_bits_that_feed_one_operand_bit_are_no_broadcast() -> None:
    operand = LinearLayout.from_bases({"register": [[1]], "lane": [[1]]}, (2,))
    with pytest.raises(
        LayoutgenError, match="accumulator bit dim00 feeds operand bit dim00, which another one already"
    ):
        selected_bits(coordinate_map(accumulator(), operand))


def test_an_operand_bit_that_nobody_carries_is_refused() -> None:
    operand = LinearLayout.from_bases({"register": [[1]], "lane": [[0]]}, (4,))
    selected = selected_bits(coordinate_map(accumulator(), operand))
    with pytest.raises(LayoutgenError, match="relabelling: 1 of the operand's 2 bits are carried"):
        relabel(selected, operand.codomain, accumulator().codomain)


def test_grouping_cuts_where_readers_change_and_at_units() -> None:
    both, none = ((0, 1), (None, None))
    assert grouped_shape([1, 1], set(), (both, none)) == (2, 2)
    # Columns low to high: read, unread; rows: read, read, with a cut between them.
    assert grouped_shape([2, 2], {3}, ((0, None, 1, 2),)) == (2, 2, 2, 2)
    # A boundary at the top of an axis stands for one unit: a dim of size 1.
    assert grouped_shape([1, 1], {2}, (both,)) == (1, 2, 2)
