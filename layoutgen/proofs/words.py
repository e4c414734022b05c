"""The claims of operands that are handed over as words, and of fetches of several k-steps at once."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout
from layoutgen.algebra.operations import without_copies
from layoutgen.proofs.claims import bases, broadcast, hardware
from layoutgen.proofs.methods import trivial
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict
from layoutgen.proofs.tile import prove
from layoutgen.tiling.words import Words


def prove_words(words: Words) -> tuple[Verdict, ...]:
    """Discharge claims 1 to 4 for the tiling, and claims 2 to 4 again for its operands as words."""
    tiling = words.tiling
    verdicts = [*prove(tiling)]
    for operand, elements in (("a", tiling.fragment_a), ("b", tiling.fragment_b)):
        name = f"words_{operand}"
        fragment, relabelling = words.fragment(operand), words.relabelling(operand)
        verdicts += [
            broadcast(name, words.grouped, fragment, relabelling.shape),
            trivial(name, relabelling.apply(without_copies(fragment)), words.grouped.shrink(relabelling.shape)),
            pairs(name, elements, fragment),
        ]
    return tuple(verdicts)


def pairs(name: str, elements: LinearLayout, words: LinearLayout) -> Verdict:
    """Check that word r of a thread is its elements r and r + 1, for even r, and that these are neighbours in memory.

    Both layouts have the same hardware bits; `words` does not count the lowest bit of the coordinate along which
    elements are neighbours.
    """
    obligation = Obligation(f"{name} are pairs of neighbours", 4, "word r of a thread is its elements r and r + 1")
    axis = next(i for i, (e, w) in enumerate(zip(elements.shape, words.shape, strict=True)) if e != w)
    for bit, (element, word) in enumerate(zip(elements.columns, words.columns, strict=True)):
        have = list(words.codomain.unpack(word))
        have[axis] = 2 * have[axis] + (bit == 0)
        want = elements.codomain.unpack(element)
        if tuple(have) != want:
            return Refutation(
                obligation,
                "rank",
                bases(elements, 1 << bit),
                f"{hardware(elements, 1 << bit)} holds {want}; the word there starts with {tuple(have)}",
            )
    return Certificate(obligation, "rank", (f"{len(words.columns)} bases compared",))


def fetched(name: str, fetch: LinearLayout, buffer: LinearLayout, wanted: LinearLayout) -> Verdict:
    """Check that a fetch reads, from where the store put them, the elements that the k-steps want.

    `fetch` maps hardware bits to places of the buffer, `buffer` a place to the row and column of the tile that was
    stored there, `wanted` hardware bits to row and column: what the instruction takes, the k-steps in a register.
    """
    obligation = Obligation(f"{name} is fetched from where it was stored", 5, "each register gets the element it wants")
    found = buffer.compose(fetch)
    for bit, (have, want) in enumerate(zip(found.columns, wanted.columns, strict=True)):
        if have != want:
            have_at, want_at = buffer.codomain.unpack(have), buffer.codomain.unpack(want)
            return Refutation(
                obligation,
                "rank",
                bases(fetch, 1 << bit),
                f"{hardware(fetch, 1 << bit)} gets {have_at}, wants {want_at}",
            )
    return Certificate(obligation, "rank", (f"{len(found.columns)} bases equal",))
