"""Claim 3: relabelling moves no data; Triton's own answer is the second opinion."""

import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.proofs.claims import relabelled
from tests.proofs.helpers import SMALL, proved, refuted, swapped, tiling_of
from tests.tiling.canonical import Canonical
from tests.triton_oracle import trivially_converts

CASE = Canonical(2, 2, 2, 1)


def operands(case: Canonical) -> list[tuple[LinearLayout, LinearLayout]]:
    """Return each operand after relabelling, and the accumulator in its grouped shape."""
    tiling = tiling_of(case)
    return [
        (tiling.relabel_a.apply(tiling.fragment_a), tiling.grouped),
        (tiling.relabel_b.apply(tiling.fragment_b), tiling.grouped),
    ]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_derived_relabelling_moves_nothing(case: Canonical) -> None:
    for operand, grouped in operands(case):
        verdict = proved(relabelled("fragment", operand, grouped))
        assert verdict.obligation.claim == 3
        bases = grouped.domain.bits
        assert verdict.facts == (f"{bases} of {bases} bases equal",)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_triton_agrees(case: Canonical) -> None:
    for operand, grouped in operands(case):
        assert trivially_converts(operand, grouped.shrink(operand.shape))


SWAPS = [
    (("lane", 0), ("lane", 1)),
    (("lane", 2), ("lane", 4)),
    (("register", 0), ("lane", 0)),
    (("register", 0), ("register", 1)),
    (("warp", 0), ("lane", 2)),
]


@pytest.mark.parametrize(("first", "second"), SWAPS)
def test_a_swapped_basis_is_refuted_at_the_first_of_the_two(first: tuple[str, int], second: tuple[str, int]) -> None:
    tiling = tiling_of(CASE)
    wrong = tiling.relabel_a.apply(swapped(tiling.fragment_a, first, second))
    verdict = refuted(relabelled("fragment_a", wrong, tiling.grouped))
    order = [("register", i) for i in range(5)] + [("lane", i) for i in range(5)] + [("warp", 0)]
    name, bit = min((first, second), key=order.index)
    assert verdict.basis == f"{name}{bit}"
    assert verdict.witness.startswith(f"{name} {1 << bit} holds (")
    # A permutation of registers moves nothing, though it is no relabelling; Triton calls it trivial.
    registers_only = first[0] == second[0] == "register"
    assert trivially_converts(wrong, tiling.grouped.shrink(wrong.shape)) == registers_only


def test_the_witness_names_both_elements() -> None:
    tiling = tiling_of(CASE)
    wrong = tiling.relabel_a.apply(swapped(tiling.fragment_a, ("lane", 0), ("lane", 1)))
    verdict = refuted(relabelled("fragment_a", wrong, tiling.grouped))
    assert verdict.witness == (
        "lane 1 holds (0, 0, 0, 0, 0, 0, 2); the accumulator's layout has (0, 0, 1, 0, 0, 0, 0) there"
    )


def test_other_hardware_bits_are_refuted() -> None:
    narrow, wide = tiling_of(CASE), tiling_of(Canonical(2, 4, 2, 1))
    verdict = refuted(relabelled("fragment_a", narrow.relabel_a.apply(narrow.fragment_a), wide.grouped))
    assert verdict.basis == "domain"
    assert "register: 16" in verdict.witness
    assert "register: 32" in verdict.witness
