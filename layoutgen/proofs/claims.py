"""The claims about layouts, each as a function that returns a certificate or a refutation with a witness."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout, gf2
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict


def hardware(layout: LinearLayout, packed: int) -> str:
    """Name a packed hardware index by its parts that are not 0: "register 2, lane 5"."""
    values = zip(layout.domain.names, layout.domain.unpack(packed), strict=True)
    parts = [f"{name} {value}" for name, value in reversed(list(values)) if value]
    return ", ".join(parts) or f"{layout.domain.names[-1]} 0"


def bases(layout: LinearLayout, packed: int) -> str:
    """Name the input bits that are set in a packed hardware index."""
    return " + ".join(layout.domain.bit_name(i) for i in range(layout.domain.bits) if packed >> i & 1)


def bijective(name: str, layout: LinearLayout) -> Verdict:
    """Claim 1: each element has exactly one owner."""
    obligation = Obligation(
        f"{name} is a bijection", 1, f"each of {layout.codomain.size} elements of {list(layout.shape)} has one owner"
    )
    if layout.kernel:
        vector = layout.kernel[0]
        element = layout.codomain.unpack(0)
        return Refutation(
            obligation, "rank", bases(layout, vector), f"register 0 and {hardware(layout, vector)} both hold {element}"
        )
    if not layout.is_surjective:
        orphan, bit = _orphan(layout)
        return Refutation(obligation, "rank", bit, f"nobody holds {orphan}")
    return Certificate(obligation, "rank", (f"rank {layout.rank} of {layout.codomain.bits} bits", "kernel {0}"))


def replicated(name: str, layout: LinearLayout) -> Verdict:
    """Claim 1 for a replicated layout: every element has an owner, and exactly the zero bases are free."""
    free = layout.free_bits
    obligation = Obligation(
        f"{name} is replicated over its zero bases alone",
        1,
        f"each of {layout.codomain.size} elements of {list(layout.shape)} has 2^{len(free)} owners",
    )
    for vector in layout.kernel:
        if vector & (vector - 1):
            element = layout.codomain.unpack(0)
            return Refutation(
                obligation,
                "rank",
                bases(layout, vector),
                f"register 0 and {hardware(layout, vector)} both hold {element}, though no basis among them is zero",
            )
    if not layout.is_surjective:
        orphan, bit = _orphan(layout)
        return Refutation(obligation, "rank", bit, f"nobody holds {orphan}")
    return Certificate(
        obligation, "rank", (f"rank {layout.rank} of {layout.codomain.bits} bits", f"free: {' '.join(free) or 'none'}")
    )


def _orphan(layout: LinearLayout) -> tuple[tuple[int, ...], str]:
    reduced = gf2.echelon(layout.columns)
    for bit in range(layout.codomain.bits):
        if reduced.preimage(1 << bit) is None:
            return layout.codomain.unpack(1 << bit), f"none reaches {layout.codomain.bit_name(bit)}"
    raise AssertionError(f"{layout}: by rank nobody holds some element, yet every coordinate bit is reached")


def broadcast(name: str, accumulator: LinearLayout, fragment: LinearLayout, shape: tuple[int, ...]) -> Verdict:
    """Claim 2: in accumulator coordinates the operand depends only on the dims that `shape` keeps.

    `accumulator` is in its grouped shape; `shape` is that shape with 1 for every dim the operand may not read.
    """
    obligation = Obligation(
        f"{name} is a broadcast",
        2,
        f"in accumulator coordinates {list(accumulator.shape)} it is that of {list(shape)}",
    )
    if not accumulator.is_bijective:
        return Refutation(obligation, "rank", "accumulator", "not a bijection, so the operand has no coordinates in it")
    coordinates = fragment.compose(accumulator.invert())
    codomain = accumulator.codomain
    for bit, column in enumerate(coordinates.columns):
        position = codomain.unpack(1 << bit)
        read = all(kept > c for kept, c in zip(shape, position, strict=True))
        if column and not read:
            owner = accumulator.invert().columns[bit]
            return Refutation(
                obligation,
                "rank",
                bases(accumulator, owner),
                f"accumulator elements {codomain.unpack(0)} and {position} differ along a dim of size 1, but "
                f"their owners hold {fragment.codomain.unpack(0)} and {fragment.codomain.unpack(column)}",
            )
    kept = sum(1 for column in coordinates.columns if column)
    return Certificate(
        obligation, "rank", (f"R = F L^-1 reads {kept} of {codomain.bits} accumulator bits, all in dims it keeps",)
    )


def relabelled(name: str, relabelled: LinearLayout, accumulator: LinearLayout) -> Verdict:
    """Claim 3: the relabelled fragment already lies in the accumulator's layout, so converting moves no data.

    `relabelled` is the fragment after reshape, permute and reshape; `accumulator` is in its grouped shape.
    """
    wanted = accumulator.shrink(relabelled.shape)
    obligation = Obligation(
        f"relabelling {name} moves no data", 3, f"as {list(relabelled.shape)} it lies in the accumulator's layout"
    )
    if relabelled.domain != wanted.domain:
        return Refutation(
            obligation, "rank", "domain", f"the fragment has hardware bits {relabelled.domain}, not {wanted.domain}"
        )
    for bit, (have, want) in enumerate(zip(relabelled.columns, wanted.columns, strict=True)):
        if have != want:
            return Refutation(
                obligation,
                "rank",
                wanted.domain.bit_name(bit),
                f"{hardware(wanted, 1 << bit)} holds {wanted.codomain.unpack(have)}; "
                f"the accumulator's layout has {wanted.codomain.unpack(want)} there",
            )
    return Certificate(obligation, "rank", (f"{len(wanted.columns)} of {len(wanted.columns)} bases equal",))
