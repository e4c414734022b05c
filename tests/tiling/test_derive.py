"""The derivation against the canonical layouts, and its dependence on the atom's table."""

from dataclasses import replace

import pytest

from layoutgen.atoms import Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import Tiling, derive
from tests.tiling.canonical import GRID, Canonical

ATOM = atom("m8n8k4")


def derived(case: Canonical) -> Tiling:
    return derive(ATOM, 16 * case.mb, 16 * case.nb, (case.wm, case.wn))


@pytest.mark.parametrize("case", GRID, ids=str)
def test_is_canonical(case: Canonical) -> None:
    tiling = derived(case)
    assert tiling.accumulator == case.accumulator
    assert tiling.fragment_a == case.fragment_a
    assert tiling.fragment_b == case.fragment_b
    assert tiling.shape == case.shape
    assert tiling.grouped == case.accumulator.reshape(case.shape)


@pytest.mark.parametrize("case", GRID, ids=str)
def test_operands_are_the_canonical_broadcasts(case: Canonical) -> None:
    tiling = derived(case)
    assert tiling.relabel_a.shape == (case.mb, 2, 8, 1, 1, 1, 4)
    assert tiling.relabel_b.shape == (1, 1, 8, case.nb, 2, 1, 4)


@pytest.mark.parametrize("case", GRID, ids=str)
def test_counts(case: Canonical) -> None:
    tiling = derived(case)
    assert tiling.num_warps == case.wm * case.wn
    assert tiling.instructions == case.mb * case.nb // tiling.num_warps
    assert 1 << tiling.accumulator.domain.bits_of("register") == tiling.pack * tiling.instructions


CHANGES = {
    "accumulator": {"m": ("a0 v1 b", "b v1 a0"), "n": ("v0 a1 v2", "v2 a1 v0")},
    "a": {"m": ("a0 a1 b", "b a1 a0"), "k": ("i0 i1", "i1 i0")},
    "b": {"n": ("a0 a1 b", "a1 a0 b"), "k": ("i0 i1", "i1 i0")},
}


def with_row(operand: str, coordinate: str, row: str) -> Atom:
    fragment = ATOM.fragment(operand)
    rows = tuple((name, row if name == coordinate else old) for name, old in fragment.rows)
    return replace(ATOM, **{operand: replace(fragment, rows=rows)})  # type: ignore[arg-type]


@pytest.mark.parametrize(("operand", "coordinate"), [(o, c) for o, rows in CHANGES.items() for c in rows])
def test_a_changed_row_of_the_table_changes_its_layout_and_no_other(operand: str, coordinate: str) -> None:
    old, new = CHANGES[operand][coordinate]
    assert dict(ATOM.fragment(operand).rows)[coordinate] == old
    before, after = (derive(a, 64, 32, (2, 1)) for a in (ATOM, with_row(operand, coordinate, new)))
    layouts = {"accumulator": "accumulator", "a": "fragment_a", "b": "fragment_b"}
    for name, field in layouts.items():
        assert (getattr(before, field) == getattr(after, field)) == (name != operand)


def test_a_changed_row_lands_where_the_table_says() -> None:
    changed = derive(with_row("accumulator", "m", "b v1 a0"), 16, 16, (1, 1))
    assert changed.accumulator.bases["lane"] == [[4, 0], [0, 2], [8, 0], [0, 8], [1, 0]]


@pytest.mark.parametrize(
    ("block_m", "block_n", "warps", "message"),
    [
        (48, 16, (1, 1), "block_m = 48: must be a power of two and at least 16 .* nearest legal value is 32"),
        (16, 8, (1, 1), r"block_n = 8: .* at least 16 \(1 warps of units of 16\), .* the nearest legal value is 16"),
        (32, 32, (4, 1), r"block_m = 32: .* at least 64 \(4 warps of units of 16\)"),
        (64, 64, (3, 1), "warps along block_m: 3 is not a power of two; the nearest below is 2"),
        (64, 64, (1, 0), "warps along block_n: 0 is not a power of two; the nearest below is 1"),
        (-16, 16, (1, 1), "block_m = -16: must be a power of two"),
    ],
)
def test_blocks_that_cannot_be_tiled(block_m: int, block_n: int, warps: tuple[int, int], message: str) -> None:
    with pytest.raises(LayoutgenError, match=message):
        derive(ATOM, block_m, block_n, warps)
