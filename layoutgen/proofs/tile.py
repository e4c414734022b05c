"""All obligations of a tiling, discharged."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from layoutgen.proofs.claims import bijective, broadcast, relabelled, replicated
from layoutgen.proofs.fragments import holds_fragment, sums_partition
from layoutgen.proofs.obligation import Verdict
from layoutgen.tiling import Tiling


def prove(
    tiling: Tiling,
    *,
    accumulator: LinearLayout | None = None,
    fragment_a: LinearLayout | None = None,
    fragment_b: LinearLayout | None = None,
    names: tuple[str, str, str] = ("accumulator", "fragment_a", "fragment_b"),
) -> tuple[Verdict, ...]:
    """Discharge claims 1 to 4 for a tiling; one verdict per obligation.

    A layout given by keyword is proved in place of the derived one, under the derived relabelling: this is how
    the literals of a file are checked. Shapes and hardware bits must be those of the derived layout. `names` are what
    the verdicts call the three layouts.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> all(verdict.holds for verdict in prove(derive(atom("m8n8k4"), 16, 16, (1, 1))))
    True
    """
    name, name_a, name_b = names
    accumulator = _checked(name, accumulator, tiling.accumulator)
    fragment_a = _checked(name_a, fragment_a, tiling.fragment_a)
    fragment_b = _checked(name_b, fragment_b, tiling.fragment_b)
    grouped = accumulator.reshape(tiling.shape)
    verdicts = (
        bijective(name, accumulator),
        replicated(name_a, fragment_a),
        replicated(name_b, fragment_b),
        broadcast(name_a, grouped, fragment_a, tiling.relabel_a.shape),
        relabelled(name_a, tiling.relabel_a.apply(fragment_a), grouped),
        broadcast(name_b, grouped, fragment_b, tiling.relabel_b.shape),
        relabelled(name_b, tiling.relabel_b.apply(fragment_b), grouped),
        holds_fragment(name_a, tiling.unit, "a", accumulator, fragment_a),
        holds_fragment(name_b, tiling.unit, "b", accumulator, fragment_b),
    )
    if tiling.unit.partial_sums == 1:
        return verdicts
    return *verdicts, sums_partition(name, tiling.unit, accumulator)


def _checked(name: str, layout: LinearLayout | None, derived: LinearLayout) -> LinearLayout:
    if layout is None:
        return derived
    if layout.codomain.bits != derived.codomain.bits or layout.domain != derived.domain:
        raise LayoutgenError(
            f"prove: {name} maps {layout.domain} to {list(layout.shape)}; "
            f"the tiling needs {derived.domain} to {list(derived.shape)}"
        )
    return layout.reshape(derived.codomain)
