"""Claim 5: what a stage writes fills its buffer, each place once, where the fetch will look for it, at a known cost."""

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


def in_slabs(name: str, place: LinearLayout, k_dim: int, k: int) -> Verdict:
    """Check that a buffer holds one slab per k-step, row by row: what a fragment is fetched from.

    `place` maps an element of the tile, whose k runs along dim `k_dim`, to its place in the buffer [k-steps * rows, k].
    Element (row, k) must lie in slab k // k-step, at that row.

    >>> from layoutgen.algebra import Space
    >>> tile = LinearLayout.identity(Space.of_shape((2, 8)))
    >>> in_slabs("K", tile.reshape((2, 2, 4)).permute((1, 0, 2)).reshape((4, 4)), 1, 4).holds
    True
    """
    rows = place.domain.shape[1 - k_dim]
    obligation = Obligation(f"{name} lies in slabs of {k} k", 5, "element (row, k) is at row of slab k // k-step")
    for dim, (dim_name, count) in enumerate(place.domain.dims):
        for bit in range(count):
            value = 1 << bit
            element = tuple(value if i == dim else 0 for i in range(2))
            wanted = (value // k * rows, value % k) if dim == k_dim else (value, 0)
            found = place(element)
            if found != wanted:
                element = tuple(value if i == dim else 0 for i in range(2))
                return Refutation(
                    obligation,
                    "rank",
                    f"{dim_name}{bit}",
                    f"element {element} is at {found}; the fetch looks at {wanted}",
                )
    return Certificate(obligation, "rank", (f"{place.domain.bits} bases equal",))
