"""Three ways to one answer, and the answers as LaTeX."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.algebra import LinearLayout, Space, classify, hardware_space
from layoutgen.algebra.layout import Bases
from layoutgen.atoms import atom
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import Certificate, Obligation, Refutation, methods
from layoutgen.proofs.methods import METHODS, bijection, equal, latex, trivial
from layoutgen.tiling import derive
from tests.algebra.helpers import bijections_between, layouts
from tests.proofs.helpers import proved, refuted, swapped, tiling_of, with_basis
from tests.tiling.canonical import Canonical

CASE = Canonical(2, 2, 2, 1)
ACCUMULATOR = tiling_of(CASE).accumulator
SPACE = Space.of_shape((4, 8))
DOMAIN = hardware_space({"register": 2, "lane": 3})
few = settings(max_examples=40)


@few
@given(layouts(6), st.data())
def test_equality_three_ways(layout: LinearLayout, data: st.DataObject) -> None:
    columns = list(layout.columns)
    if columns and data.draw(st.booleans()):
        columns[data.draw(st.integers(0, len(columns) - 1))] = data.draw(st.integers(0, layout.codomain.size - 1))
    other = LinearLayout(layout.domain, layout.codomain, tuple(columns))
    verdicts = [equal("tile", layout, other, method) for method in METHODS]
    assert [verdict.holds for verdict in verdicts] == [layout == other] * 3
    assert [verdict.method for verdict in verdicts] == list(METHODS)
    if layout != other:
        assert len({(refuted(v).basis, refuted(v).witness) for v in verdicts}) == 1


@few
@given(layouts(6))
def test_bijectivity_three_ways(layout: LinearLayout) -> None:
    verdicts = [bijection("tile", layout, method) for method in METHODS]
    assert [verdict.holds for verdict in verdicts] == [layout.is_bijective] * 3


@few
@given(bijections_between(DOMAIN, SPACE), st.permutations(range(5)), st.booleans())
def test_triviality_three_ways(source: LinearLayout, order: list[int], registers_only: bool) -> None:
    if registers_only:
        order = [1, 0, 2, 3, 4]
    target = LinearLayout(DOMAIN, SPACE, tuple(source.columns[i] for i in order))
    verdicts = [trivial("tile", source, target, method) for method in METHODS]
    assert [verdict.holds for verdict in verdicts] == [classify(source, target).is_trivial] * 3


@pytest.mark.parametrize("method", METHODS)
def test_every_derived_accumulator_is_a_bijection_in_each_way(method: str) -> None:
    verdict = proved(bijection("accumulator", ACCUMULATOR, method))
    assert verdict.method == method
    if method == "symbolic":
        # The inverse, bit by bit: who holds element (m, n).
        assert verdict.facts[0] == "warp[0] = dim04"
        assert "register[1] = dim01" in verdict.facts


@pytest.mark.parametrize("method", METHODS)
def test_relabelling_is_equal_and_trivial_in_each_way(method: str) -> None:
    tiling = tiling_of(CASE)
    operand = tiling.relabel_a.apply(tiling.fragment_a)
    wanted = tiling.grouped.shrink(operand.shape)
    proved(equal("fragment_a", operand, wanted, method))
    proved(trivial("fragment_a", operand, wanted, method))


@pytest.mark.parametrize("method", METHODS)
def test_a_swapped_basis_is_refuted_in_each_way(method: str) -> None:
    wrong = swapped(ACCUMULATOR, ("lane", 0), ("lane", 1))
    verdict = refuted(equal("accumulator", wrong, ACCUMULATOR, method))
    assert verdict.basis == "lane0"
    assert verdict.witness == "lane 1 holds (0, 2); wanted is (1, 0)"
    verdict = refuted(trivial("accumulator", wrong, ACCUMULATOR, method))
    assert verdict.basis == "lane0"
    assert verdict.witness == "lane 1 wants (1, 0), which is in lane 2, register 0"


@pytest.mark.parametrize("method", METHODS)
def test_two_owners_are_named_in_each_way(method: str) -> None:
    verdict = refuted(bijection("accumulator", with_basis(ACCUMULATOR, "lane", 1, [1, 0]), method))
    assert verdict.basis == "lane0 + lane1"
    assert verdict.witness.endswith("both hold (0, 0)") or "both hold (1, 0)" in verdict.witness


@pytest.mark.parametrize("method", METHODS)
def test_an_orphan_is_named_in_each_way(method: str) -> None:
    layout = LinearLayout.from_bases({"lane": [[1, 1]]}, (2, 2))
    assert refuted(bijection("tile", layout, method)).witness in ("nobody holds (0, 1)", "nobody holds (1, 0)")


def test_a_symbolic_refutation_names_the_relation() -> None:
    layout = LinearLayout.from_bases({"lane": [[1, 1]]}, (2, 2))
    assert refuted(bijection("tile", layout, "symbolic")).basis == "dim10 + dim00 = 0 for every index"


@few
@given(layouts(6))
def test_the_witness_of_a_symbolic_refutation_is_true(layout: LinearLayout) -> None:
    verdict = bijection("tile", layout, "symbolic")
    if isinstance(verdict, Refutation) and verdict.witness.startswith("nobody holds "):
        assert eval(verdict.witness.removeprefix("nobody holds ")) not in {
            layout(layout.domain.unpack(packed)) for packed in range(layout.domain.size)
        }


def test_p_is_refuted_with_the_value_that_moves() -> None:
    tiling = derive(atom("m8n8k4"), 16, 32, (1, 1))
    verdict = refuted(trivial("S", tiling.accumulator, tiling.operand("a", 32)))
    assert verdict.basis == "register1"
    assert verdict.witness == "register 2 wants (0, 2), which is in lane 2, register 0"


def test_a_choice_that_depends_on_the_lane_is_refuted() -> None:
    source = LinearLayout.from_bases({"register": [[1], [2]], "lane": [[0]]}, (4,))
    target = LinearLayout.from_bases({"register": [[1]], "lane": [[2]]}, (4,))
    verdict = refuted(trivial("tile", source, target))
    assert verdict.witness.endswith("which register depends on the thread")


def test_unknown_methods_and_unlike_layouts() -> None:
    with pytest.raises(LayoutgenError, match="method 'magic': must be one of rank, symbolic, exhaustive"):
        equal("x", ACCUMULATOR, ACCUMULATOR, "magic")
    with pytest.raises(LayoutgenError, match=r"equal: x maps .* to \[32, 32\], the other"):
        equal("x", ACCUMULATOR, ACCUMULATOR.reshape((1024,)))


# ---- ways that contradict each other: faults of the library, which no layout brings about


def test_an_inverse_that_does_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LinearLayout.from_bases({"lane": [[1], [2]]}, (4,))
    wrong = LinearLayout(layout.codomain, layout.domain, (2, 1))
    monkeypatch.setattr(LinearLayout, "invert", lambda _: wrong)
    with pytest.raises(AssertionError, match="the inverse of tile does not cancel at lane0"):
        bijection("tile", layout, "symbolic")


def test_sums_that_do_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = LinearLayout.from_bases({"lane": [[1, 1]]}, (2, 2))
    with monkeypatch.context() as patched:
        patched.setattr(methods, "gf2", SimpleNamespace(echelon=lambda _: SimpleNamespace(kernel=[1])))
        with pytest.raises(AssertionError, match="a relation between coordinates does not cancel"):
            bijection("tile", narrow, "symbolic")
    monkeypatch.setattr(LinearLayout, "kernel", (1,))
    with pytest.raises(AssertionError, match="the sum of lane0 does not cancel in lane0"):
        bijection("tile", narrow, "symbolic")


@pytest.mark.parametrize(
    ("bases", "owners", "method", "message"),
    [
        ({"register": [[1], [2]]}, (1, 2), "exhaustive", "the owners of tile do not hold what is wanted"),
        ({"register": [[1], [2]]}, (1, 2), "symbolic", "the owners of tile do not cancel: register 1 holds"),
        ({"register": [[1], [2]], "lane": [[0]]}, (2, 1, 0), "symbolic", "an owner of tile is in another lane"),
    ],
)
def test_owners_that_are_none(
    monkeypatch: pytest.MonkeyPatch, bases: Bases, owners: tuple[int, ...], method: str, message: str
) -> None:
    source = LinearLayout.from_bases(bases, (4,))
    target = LinearLayout.from_bases({**bases, "register": [[2], [1]]}, (4,))
    proved(trivial("tile", source, target, method))
    found = replace(classify(source, target), owners=LinearLayout(target.domain, source.domain, owners))
    monkeypatch.setattr(methods, "classify", lambda *_: found)
    with pytest.raises(AssertionError, match=message):
        trivial("tile", source, target, method)


# ---- printing


def test_latex_of_a_refutation_escapes() -> None:
    verdict = Refutation(Obligation("frag_a", 4, "it holds"), "exhaustive", "lane0", "50% of {x} ^ y")
    assert latex(verdict) == (
        "\\paragraph{Claim 4: frag\\_a.} It holds.\n"
        "\\emph{Refuted} by exhaustion: at basis lane0, 50\\% of \\{x\\} \\(\\oplus\\) y."
    )


def test_latex_tells_powers_from_sums() -> None:
    facts = ("R = F L^-1", "2^10 owners", "dim0[0] = lane0 ^ lane_1 ^ 1", "2^k_0 - 1")
    text = latex(Certificate(Obligation("x", 1, "so it is"), "rank", facts))
    assert r"R = F \(L^{-1}\); \(2^{10}\) owners; " in text
    assert r"dim0[0] = lane0 \(\oplus\) lane\_1 \(\oplus\) 1; " in text
    assert r"\(2^{k\_0}\) - 1. " in text


def test_latex_of_a_symbolic_proof_has_the_equations() -> None:
    text = latex(bijection("accumulator", ACCUMULATOR, "symbolic"))
    assert "by symbolic expansion: warp[0] = dim04;" in text
    assert text.endswith("\\(\\square\\)")
