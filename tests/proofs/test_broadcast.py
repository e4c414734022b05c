"""Claim 2: each operand is a broadcast against the accumulator's coordinates."""

import numpy as np
import pytest

from layoutgen.proofs.claims import broadcast
from tests.proofs.helpers import SMALL, proved, refuted, tiling_of, with_basis
from tests.tiling.canonical import Canonical

CASE = Canonical(2, 2, 2, 1)


def check_broadcast(case: Canonical) -> None:
    """Post-condition: owners whose accumulator elements differ only along dims of size 1 hold the same."""
    tiling = tiling_of(case)
    for fragment, relabelling in ((tiling.fragment_a, tiling.relabel_a), (tiling.fragment_b, tiling.relabel_b)):
        read = np.array([size > 1 for size in relabelling.shape])
        held: dict[tuple[int, ...], int] = {}
        for element, operand in zip(tiling.grouped.table().tolist(), fragment.table().tolist(), strict=True):
            key = tuple(np.array(tiling.grouped.codomain.unpack(element))[read].tolist())
            assert held.setdefault(key, operand) == operand


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_derived_operand_is_a_broadcast(case: Canonical) -> None:
    tiling = tiling_of(case)
    for fragment, relabelling in ((tiling.fragment_a, tiling.relabel_a), (tiling.fragment_b, tiling.relabel_b)):
        verdict = proved(broadcast("fragment", tiling.grouped, fragment, relabelling.shape))
        assert verdict.obligation.claim == 2
        bits = f"reads {fragment.rank} of {tiling.grouped.codomain.bits} accumulator bits"
        assert bits in verdict.facts[0]
    if case.mb * case.nb <= 4:
        check_broadcast(case)


def test_an_operand_that_reads_a_column_is_refuted_there() -> None:
    tiling = tiling_of(CASE)
    wrong = with_basis(tiling.fragment_a, "lane", 3, [4, 0])
    verdict = refuted(broadcast("fragment_a", tiling.grouped, wrong, tiling.relabel_a.shape))
    assert verdict.basis == "lane3"
    assert verdict.witness == (
        "accumulator elements (0, 0, 0, 0, 0, 0, 0) and (0, 0, 0, 0, 1, 0, 0) differ along a dim of size 1, "
        "but their owners hold (0, 0) and (4, 0)"
    )


def test_without_a_bijective_accumulator_there_are_no_coordinates() -> None:
    tiling = tiling_of(CASE)
    wrong = with_basis(tiling.accumulator, "lane", 3, [0, 0]).reshape(tiling.shape)
    verdict = refuted(broadcast("fragment_a", wrong, tiling.fragment_a, tiling.relabel_a.shape))
    assert verdict.basis == "accumulator"
    assert "not a bijection" in verdict.witness
