"""All obligations of a tiling, discharged."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout
from layoutgen.errors import LayoutgenError
from layoutgen.proofs.claims import bijective, broadcast, relabelled, replicated
from layoutgen.proofs.fragments import holds_fragment
from layoutgen.proofs.obligation import Verdict
from layoutgen.tiling import Tiling


def prove(
    tiling: Tiling,
    *,
    accumulator: LinearLayout | None = None,
    fragment_a: LinearLayout | None = None,
    fragment_b: LinearLayout | None = None,
) -> tuple[Verdict, ...]:
    """Discharge claims 1 to 4 for a tiling; one verdict per obligation.

    A layout given by keyword is proved in place of the derived one, under the derived relabelling: this is how
    the literals of a file are checked. Shapes and hardware bits must be those of the derived layout.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> all(verdict.holds for verdict in prove(derive(atom("m8n8k4"), 16, 16, (1, 1))))
    True
    """
    accumulator = _checked("accumulator", accumulator, tiling.accumulator)
    fragment_a = _checked("fragment_a", fragment_a, tiling.fragment_a)
    fragment_b = _checked("fragment_b", fragment_b, tiling.fragment_b)
    grouped = accumulator.reshape(tiling.shape)
    verdicts: list[Verdict] = [
        bijective("accumulator", accumulator),
        replicated("fragment_a", fragment_a),
        replicated("fragment_b", fragment_b),
    ]
    for name, fragment, relabelling in (
        ("fragment_a", fragment_a, tiling.relabel_a),
        ("fragment_b", fragment_b, tiling.relabel_b),
    ):
        verdicts.append(broadcast(name, grouped, fragment, relabelling.shape))
        verdicts.append(relabelled(name, relabelling.apply(fragment), grouped))
    verdicts.append(holds_fragment(tiling.atom, "a", accumulator, fragment_a))
    verdicts.append(holds_fragment(tiling.atom, "b", accumulator, fragment_b))
    return tuple(verdicts)


def _checked(name: str, layout: LinearLayout | None, derived: LinearLayout) -> LinearLayout:
    if layout is None:
        return derived
    if layout.codomain.bits != derived.codomain.bits or layout.domain != derived.domain:
        raise LayoutgenError(
            f"prove: {name} maps {layout.domain} to {list(layout.shape)}; "
            f"the tiling needs {derived.domain} to {list(derived.shape)}"
        )
    return layout.reshape(derived.codomain)
