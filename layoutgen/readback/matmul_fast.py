"""Reading a file of the fast matmul design back: each of its layouts is the one that is proved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from layoutgen.algebra import Blocked, LinearLayout
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.matmul_fast import FastMatmulRequest
from layoutgen.proofs import Verdict
from layoutgen.proofs.methods import equal


def prove_fast_matmul(
    path: Path, literals: Mapping[str, LinearLayout | Blocked], request: FastMatmulRequest
) -> tuple[Verdict, ...]:
    """Discharge every obligation of a request, and that the layouts of the file are those that it is about.

    Raises LayoutgenError when a layout that the kernel needs is missing or has another shape.
    """
    derived = {"MATRIX_C": request.tiling.accumulator, "ACCUMULATOR_C": request.words.grouped}
    for name, way in request.operands.items():
        derived[f"TILE_{name.upper()}"] = way.portion if request.summed_by_part else way.staging.loaded
        derived[f"FRAGMENT_{name.upper()}"] = way.fetch_words
    verdicts = [*request.proofs]
    for name, layout in derived.items():
        found = literals.get(name)
        wanted = layout.reshape(layout.shape)
        if not isinstance(found, LinearLayout) or found.domain != wanted.domain or found.shape != wanted.shape:
            raise LayoutgenError(f"{path}: has no layout {name} of {list(wanted.shape)} over {wanted.domain}")
        verdicts.append(equal(name, found, wanted))
    return tuple(verdicts)
