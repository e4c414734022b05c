"""Claim 5: what a stage writes fills its buffer, each place once, and what that costs in wavefronts."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout, access, gf2
from layoutgen.proofs.claims import bases, hardware
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict


def staged(name: str, layout: LinearLayout, element_bytes: int) -> Verdict:
    """Check that a store through `layout` (hardware bits -> buffer) fills its buffer.

    Zero bases replicate a store: the same value goes to the same place. Any other kernel vector would let two
    elements meet in one place.
    """
    cost = access(layout, element_bytes)
    obligation = Obligation(
        f"{name} fills its buffer",
        5,
        f"each of {layout.codomain.size} places of {list(layout.shape)} is written, by one element",
    )
    for vector in layout.kernel:
        if vector & (vector - 1):
            return Refutation(
                obligation,
                "rank",
                bases(layout, vector),
                f"register 0 and {hardware(layout, vector)} both write {layout.codomain.unpack(0)}",
            )
    if not layout.is_surjective:
        reduced = gf2.echelon(layout.columns)
        missed = next(bit for bit in range(layout.codomain.bits) if reduced.preimage(1 << bit) is None)
        return Refutation(
            obligation,
            "rank",
            f"none reaches {layout.codomain.bit_name(missed)}",
            f"nothing is written to {layout.codomain.unpack(1 << missed)}",
        )
    return Certificate(
        obligation,
        "rank",
        (
            f"rank {layout.rank} of {layout.codomain.bits} bits",
            f"{cost.wavefronts} wavefronts a warp in {cost.instructions} accesses of {cost.width_bytes} bytes, "
            f"{cost.minimum} at least",
        ),
    )
