"""Wrong layouts made from right ones, and what a refutation of them must say."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import atom
from layoutgen.proofs import Certificate, Refutation, Verdict
from layoutgen.tiling import Tiling, derive
from tests.tiling.canonical import GRID, Canonical

ATOM = atom("m8n8k4")
SMALL = [case for case in GRID if case.mb * case.nb <= 16]


def tiling_of(case: Canonical) -> Tiling:
    return derive(ATOM, 16 * case.mb, 16 * case.nb, (case.wm, case.wn))


def with_basis(layout: LinearLayout, name: str, bit: int, basis: list[int]) -> LinearLayout:
    bases = {key: [list(b) for b in value] for key, value in layout.bases.items()}
    bases[name][bit] = basis
    return LinearLayout.from_bases(bases, layout.shape)


def swapped(layout: LinearLayout, first: tuple[str, int], second: tuple[str, int]) -> LinearLayout:
    bases = {key: [list(b) for b in value] for key, value in layout.bases.items()}
    (a, i), (b, j) = first, second
    bases[a][i], bases[b][j] = bases[b][j], bases[a][i]
    return LinearLayout.from_bases(bases, layout.shape)


def refuted(verdict: Verdict) -> Refutation:
    assert isinstance(verdict, Refutation), verdict
    assert not verdict.holds
    return verdict


def proved(verdict: Verdict) -> Certificate:
    assert isinstance(verdict, Certificate), verdict
    assert verdict.holds
    return verdict
