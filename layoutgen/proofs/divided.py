"""What warps that share rows rest on: who holds which part, that k is summed once, that all of them get all sums."""

from __future__ import annotations

from layoutgen.algebra import LinearLayout, gf2
from layoutgen.proofs.claims import bases, hardware
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict


def shared_out(name: str, layout: LinearLayout, dim: str | None, warps: int) -> Verdict:
    """Check that the warps of a group divide a dim of a layout among themselves, or with no dim hold the same.

    The group are the highest warp bits; each part of the dim is held as the first one is.
    """
    what = f"each of {warps} warps that share rows holds " + (f"a part of its {dim}" if dim else "all of it")
    obligation = Obligation(f"{name} is shared out", 1, what)
    bits = warps.bit_length() - 1
    total = layout.domain.bits
    start, size = 0, 0
    if dim is not None:
        start, size = layout.codomain.offsets[dim], layout.codomain.bits_of(dim)
    beyond = (1 << bits) - 1 << start + size - bits if dim is not None else 0
    for bit, column in enumerate(layout.columns):
        position = bit - (total - bits)
        want = column & ~beyond
        if position >= 0:
            want = 1 << start + size - bits + position if dim is not None else 0
        if column != want:
            return Refutation(
                obligation,
                "rank",
                bases(layout, 1 << bit),
                f"{hardware(layout, 1 << bit)} holds {layout.codomain.unpack(column)}; "
                f"wanted is {layout.codomain.unpack(want)}",
            )
    return Certificate(obligation, "rank", (f"{bits} warp bits, {total - bits} bases within a part",))


def sums_columns(name: str, query: LinearLayout, key: LinearLayout, columns: int, warps: int) -> Verdict:
    """Check that the partial sums take every column of a part of the head dim once, the same of Q as of K.

    `query` and `key` are what a group fetches at once, [rows, columns fetched] and [keys, columns fetched]; it does so
    columns / columns fetched times, further along each time.
    """
    obligation = Obligation(
        f"the partial sums of {name} take every column once", 4, f"{columns} columns, divided among {warps} warps"
    )
    width = query.shape[1]
    steps = [width << bit for bit in range((columns // width).bit_length() - 1)]
    mask = width - 1
    group = warps.bit_length() - 1
    own, other = ([column & mask for column in layout.columns] for layout in (query, key))
    for position in range(1, group + 1):
        if own[-position] != other[-position]:
            return Refutation(
                obligation,
                "rank",
                bases(query, 1 << query.domain.bits - position),
                f"{hardware(query, 1 << query.domain.bits - position)} holds column {own[-position]} of Q; "
                f"it holds {other[-position]} of K",
            )
    for side, layout, moved in (("Q", query, own), ("K", key, other)):
        taken = [column for column in moved if column] + steps
        if gf2.rank(taken) != len(taken) or 1 << len(taken) != columns:
            bit = next((i for i, column in enumerate(moved) if column and moved.count(column) > 1), 0)
            return Refutation(
                obligation,
                "rank",
                bases(layout, 1 << bit),
                f"{1 << gf2.rank(taken)} of {columns} columns of {side} are taken, 2^{len(taken)} times one",
            )
    return Certificate(obligation, "rank", (f"{1 << len(steps)} fetches of {width} columns",))


def sums_meet(name: str, partial: LinearLayout, sums: LinearLayout) -> Verdict:
    """Check that every warp of a group adds up what each of them has stored for its rows, in the same places.

    `partial` is [warps of a group, rows, columns], as it is stored; `sums` is [rows, columns], as each of the partial
    sums is loaded. From partial sums number w a thread must load what the thread of warp w with the same register, lane
    and rows has stored.
    """
    obligation = Obligation(
        f"{name} is the same in all warps of a group", 5, "each adds up all partial sums, element by element"
    )
    group = partial.codomain.bits_of("dim0")
    total = partial.domain.bits
    for bit, (stored, loaded) in enumerate(zip(partial.columns, sums.columns, strict=True)):
        number, *place = partial.codomain.unpack(stored)
        position = bit - (total - group)
        wanted = 1 << position if position >= 0 else 0
        if number != wanted or tuple(place) != sums.codomain.unpack(loaded):
            return Refutation(
                obligation,
                "rank",
                bases(sums, 1 << bit),
                f"{hardware(sums, 1 << bit)} stores {tuple(place)} of partial sums {number} and loads "
                f"{sums.codomain.unpack(loaded)}",
            )
    return Certificate(obligation, "rank", (f"{total - group} bases equal", f"{1 << group} partial sums"))
