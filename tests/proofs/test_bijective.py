"""Claim 1: one owner each, or replication over exactly the zero bases."""

import pytest
from hypothesis import given

from layoutgen.algebra import LinearLayout
from layoutgen.proofs.claims import _orphan, bijective, replicated
from tests.algebra.helpers import image, layouts
from tests.proofs.helpers import SMALL, proved, refuted, tiling_of, with_basis
from tests.tiling.canonical import Canonical

FOUR = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2))


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_derived_accumulator_is_a_bijection(case: Canonical) -> None:
    verdict = proved(bijective("accumulator", tiling_of(case).accumulator))
    assert (verdict.method, verdict.obligation.claim) == ("rank", 1)
    assert verdict.facts[1] == "kernel {0}"


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_derived_fragment_is_replicated_over_its_free_bits(case: Canonical) -> None:
    tiling = tiling_of(case)
    for fragment in (tiling.fragment_a, tiling.fragment_b):
        verdict = proved(replicated("fragment", fragment))
        owners = fragment.domain.size // fragment.codomain.size
        assert 1 << len(fragment.free_bits) == owners
        assert verdict.facts[1] == "free: " + " ".join(fragment.free_bits)


@given(layouts(7))
def test_decides_bijectivity(layout: LinearLayout) -> None:
    images = sorted(layout.table().tolist())
    assert bijective("any", layout).holds == (images == list(range(layout.codomain.size)))


@given(layouts(7))
def test_decides_replication(layout: LinearLayout) -> None:
    """Onto, and two indices meet only when they differ in free bits alone."""
    free = sum(1 << bit for bit, column in enumerate(layout.columns) if column == 0)
    images: dict[int, set[int]] = {}
    for packed in range(layout.domain.size):
        images.setdefault(image(layout, packed), set()).add(packed & ~free)
    whole = len(images) == layout.codomain.size and all(len(owners) == 1 for owners in images.values())
    assert replicated("any", layout).holds == whole


def test_two_owners_are_named() -> None:
    verdict = refuted(bijective("tile", with_basis(FOUR, "lane", 1, [1, 0])))
    assert verdict.basis == "lane0 + lane1"
    assert verdict.witness == "register 0 and lane 3 both hold (0, 0)"


def test_a_zero_basis_is_named() -> None:
    verdict = refuted(bijective("tile", with_basis(FOUR, "register", 0, [0, 0])))
    assert verdict.basis == "register0"
    assert verdict.witness == "register 0 and register 1 both hold (0, 0)"


def test_an_orphan_is_named() -> None:
    verdict = refuted(bijective("tile", LinearLayout.from_bases({"lane": [[1, 0], [2, 0]]}, (4, 2))))
    assert verdict.basis == "none reaches dim10"
    assert verdict.witness == "nobody holds (0, 1)"


def test_replication_over_a_sum_is_refuted() -> None:
    layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]], "warp": [[3, 0]]}, (4, 2))
    verdict = refuted(replicated("tile", layout))
    assert verdict.basis == "lane0 + lane1 + warp0"
    assert verdict.witness == ("register 0 and lane 3, warp 1 both hold (0, 0), though no basis among them is zero")


def test_no_orphan_where_rank_says_there_is_one_is_a_fault_of_the_library() -> None:
    with pytest.raises(AssertionError, match="yet every coordinate bit is reached"):
        _orphan(LinearLayout.from_bases({"lane": [[1], [2]]}, (4,)))


def test_a_replicated_layout_with_an_orphan_is_refuted() -> None:
    verdict = refuted(replicated("tile", LinearLayout.from_bases({"lane": [[1, 0], [0, 0]]}, (4, 2))))
    assert verdict.basis == "none reaches dim10"
    assert verdict.witness == "nobody holds (0, 1)"
