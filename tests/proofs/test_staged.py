"""Claim 5: a stage fills its buffer, each place once, at a known cost."""

import pytest
from hypothesis import given

from layoutgen.algebra import Blocked, LinearLayout, Space
from layoutgen.proofs.staging import in_slabs, staged
from tests.algebra.helpers import layouts
from tests.proofs.helpers import proved, refuted

VALUE = Blocked((4, 2), (1, 32), (4, 1), (1, 0)).layout((32, 64)).reshape((8, 4, 64)).permute((0, 2, 1))


def test_the_value_tile_fills_its_buffer_without_conflict() -> None:
    verdict = proved(staged("value", VALUE.reshape((512, 4)), 2))
    assert verdict.obligation.claim == 5
    assert verdict.facts[0] == "rank 11 of 11 bits"
    assert verdict.facts[1].startswith("8 wavefronts a warp in 2 accesses of 16 bytes, 8 at least")


def test_a_conflicting_staging_is_proved_with_its_price() -> None:
    blocked = Blocked((1, 8), (8, 4), (4, 1), (1, 0))
    layout = blocked.layout((64, 32)).reshape((64, 8, 4)).permute((1, 0, 2)).reshape((512, 4))
    assert (
        proved(staged("query", layout, 2))
        .facts[1]
        .startswith("32 wavefronts a warp in 4 accesses of 8 bytes, 8 at least")
    )


@given(layouts(7))
def test_decides_whether_each_place_is_written_by_one_element(layout: LinearLayout) -> None:
    """Replication over zero bases writes the same element to the same place; anything else would be two."""
    free = sum(1 << bit for bit, column in enumerate(layout.columns) if column == 0)
    writers: dict[int, set[int]] = {}
    for packed, place in enumerate(layout.table().tolist()):
        writers.setdefault(place, set()).add(packed & ~free)
    whole = len(writers) == layout.codomain.size and all(len(w) == 1 for w in writers.values())
    assert staged("any", layout, 2).holds == whole


def test_two_elements_in_one_place_are_named() -> None:
    wrong = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [0, 1]]}, (2, 2))
    verdict = refuted(staged("tile", wrong, 2))
    assert verdict.basis == "register0 + lane1"
    assert verdict.witness == "register 0 and register 1, lane 2 both write (0, 0)"


def test_a_gap_in_the_buffer_is_named() -> None:
    wrong = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[0, 0]]}, (2, 2))
    verdict = refuted(staged("tile", wrong, 2))
    assert verdict.basis == "none reaches dim00"
    assert verdict.witness == "nothing is written to (1, 0)"


# ---- slabs


def placed(shape: tuple[int, int], split: tuple[int, ...], order: tuple[int, ...], k: int) -> LinearLayout:
    tile = LinearLayout.identity(Space.of_shape(shape))
    return tile.reshape(split).permute(order).reshape((shape[0] * shape[1] // k, k))


@pytest.mark.parametrize(
    ("shape", "split", "order", "k_dim"),
    [((64, 32), (64, 8, 4), (1, 0, 2), 1), ((32, 64), (8, 4, 64), (0, 2, 1), 0), ((16, 4), (16, 1, 4), (1, 0, 2), 1)],
)
def test_both_ways_of_cutting_up_a_tile(
    shape: tuple[int, int], split: tuple[int, ...], order: tuple[int, ...], k_dim: int
) -> None:
    place = placed(shape, split, order, 4)
    proved(in_slabs("tile", place, k_dim, 4))
    rows = shape[1 - k_dim]
    for row in range(rows):
        for k in range(shape[k_dim]):
            element = (row, k) if k_dim == 1 else (k, row)
            assert place(element) == (k // 4 * rows + row, k % 4)


def test_a_tile_that_is_cut_up_otherwise_is_refuted() -> None:
    verdict = refuted(in_slabs("tile", placed((64, 32), (64, 8, 4), (0, 1, 2), 4), 1, 4))
    assert verdict.basis == "dim00"
    assert verdict.witness == "element (1, 0) is at (8, 0); the fetch looks at (1, 0)"
    verdict = refuted(in_slabs("tile", placed((64, 32), (64, 4, 8), (1, 0, 2), 4), 1, 4))
    assert verdict.witness.startswith("element (1, 0) is at (2, 0); the fetch looks at (1, 0)")
