"""All obligations of a tiling together, and the objects that carry the answers."""

import json

import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError, RefutedError
from layoutgen.proofs import Certificate, Obligation, Refutation, prove, refutations, require
from layoutgen.tiling import derive
from tests.proofs.helpers import ATOM, swapped, tiling_of, with_basis
from tests.tiling.canonical import GRID, Canonical

CASE = Canonical(2, 2, 2, 1)


@pytest.mark.parametrize("case", GRID, ids=str)
def test_every_derived_case_is_proved(case: Canonical) -> None:
    verdicts = prove(tiling_of(case))
    assert all(isinstance(verdict, Certificate) for verdict in verdicts)
    assert [verdict.obligation.claim for verdict in verdicts] == [1, 1, 1, 2, 3, 2, 3, 4, 4]
    require(verdicts)


@pytest.mark.parametrize("arrangement", ["m3,n3", "n3,m3", "m2,n3", "m3,m4", "n3,n4", "n0,m1", "m0,m4"])
def test_every_arrangement_is_proved(arrangement: str) -> None:
    for warps in ((1, 1), (2, 2)):
        require(prove(derive(ATOM, 64, 64, warps, arrangement)))


def moved(layout: LinearLayout) -> list[tuple[str, int, list[int]]]:
    """Every way to set one basis to zero or to that of another bit."""
    changes = []
    flat = [(name, bit) for name in ("register", "lane", "warp") for bit in range(len(layout.bases[name]))]
    for name, bit in flat:
        old = layout.bases[name][bit]
        candidates = [[0, 0], *(layout.bases[other][i] for other, i in flat)]
        changes += [(name, bit, basis) for basis in candidates if basis != old]
    return changes


@pytest.mark.parametrize("field", ["accumulator", "fragment_a", "fragment_b"])
def test_every_single_wrong_basis_is_refuted(field: str) -> None:
    tiling = tiling_of(CASE)
    layout: LinearLayout = getattr(tiling, field)
    changes = moved(layout)
    assert len(changes) > 50
    for name, bit, basis in changes:
        found = refutations(prove(tiling, **{field: with_basis(layout, name, bit, basis)}))
        assert found, (field, name, bit, basis)
        # The basis at fault is named, alone or, when two bits now agree, in their sum.
        named = {part for verdict in found for part in verdict.basis.split(" + ")}
        assert f"{name}{bit}" in named, (field, name, bit, basis, named)


@pytest.mark.parametrize("field", ["accumulator", "fragment_a", "fragment_b"])
def test_every_swap_of_two_bases_is_refuted_unless_they_are_equal(field: str) -> None:
    tiling = tiling_of(CASE)
    layout: LinearLayout = getattr(tiling, field)
    flat = [(name, bit) for name in ("register", "lane", "warp") for bit in range(len(layout.bases[name]))]
    for index, first in enumerate(flat):
        for second in flat[index + 1 :]:
            same = layout.bases[first[0]][first[1]] == layout.bases[second[0]][second[1]]
            found = refutations(prove(tiling, **{field: swapped(layout, first, second)}))
            assert bool(found) != same, (field, first, second)


def test_the_example_of_the_design() -> None:
    tiling = tiling_of(Canonical(1, 1, 1, 1))
    wrong = with_basis(tiling.fragment_a, "register", 1, [8, 0])
    witnesses = [verdict.witness for verdict in refutations(prove(tiling, fragment_a=wrong))]
    assert "register 2 holds (8, 0); the instruction wants (0, 2)" in witnesses


@pytest.mark.parametrize("shape", [(16, 4), (64, 4)])
def test_literals_of_another_size_are_refused(shape: tuple[int, int]) -> None:
    tiling = tiling_of(CASE)
    small = LinearLayout.from_bases({"lane": [[1, 0]] * 5}, shape)
    with pytest.raises(LayoutgenError, match=r"prove: fragment_a maps .* to \[\d+, 4\]; the tiling needs"):
        prove(tiling, fragment_a=small)


OBLIGATION = Obligation("x", 1, "it is so")
GOOD = Certificate(OBLIGATION, "rank", ("one fact", "another"))
BAD = Refutation(OBLIGATION, "rank", "lane0", "lane 1 holds (1, 0)")


def test_text() -> None:
    assert str(GOOD) == "proved   x: it is so [rank: one fact; another]"
    assert str(BAD) == "REFUTED  x: it is so [rank]\n         at basis lane0: lane 1 holds (1, 0)"


def test_json() -> None:
    assert json.loads(json.dumps(GOOD.as_dict())) == {
        "holds": True,
        "name": "x",
        "claim": 1,
        "statement": "it is so",
        "method": "rank",
        "facts": ["one fact", "another"],
    }
    assert BAD.as_dict()["basis"] == "lane0"
    assert BAD.as_dict()["holds"] is False


def test_require_raises_with_the_witness() -> None:
    with pytest.raises(RefutedError, match=r"x: it is so: refuted at basis lane0: lane 1 holds \(1, 0\)"):
        require([GOOD, BAD])
    require([GOOD])
    assert refutations([GOOD, BAD]) == (BAD,)
