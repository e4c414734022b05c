"""Random layouts, and the second opinion of plain arithmetic on bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from layoutgen.algebra import LinearLayout, Space, hardware_space

Matrix = NDArray[np.uint8]


def matrix(layout: LinearLayout) -> Matrix:
    """Return the layout as a dense 0/1 matrix, row i and column j for output bit i and input bit j."""
    rows = layout.codomain.bits
    return np.array([[column >> row & 1 for column in layout.columns] for row in range(rows)], dtype=np.uint8).reshape(
        rows, len(layout.columns)
    )


def dense_rank(dense: Matrix) -> int:
    """Return the rank over GF(2) by schoolbook elimination."""
    work = dense.copy()
    rank = 0
    for column in range(work.shape[1]):
        pivots = [row for row in range(rank, work.shape[0]) if work[row, column]]
        if not pivots:
            continue
        work[[rank, pivots[0]]] = work[[pivots[0], rank]]
        for row in range(work.shape[0]):
            if row != rank and work[row, column]:
                work[row] ^= work[rank]
        rank += 1
    return rank


def image(layout: LinearLayout, packed: int) -> int:
    """Return the packed image of a packed input: the exclusive or of the columns of its set bits."""
    result = 0
    for bit, column in enumerate(layout.columns):
        if packed >> bit & 1:
            result ^= column
    return result


def shapes(max_bits: int = 8, max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    def of_bits(bits: list[int]) -> tuple[int, ...]:
        return tuple(1 << b for b in bits)

    sizes = st.lists(st.integers(0, 4), min_size=1, max_size=max_rank)
    return sizes.filter(lambda bits: sum(bits) <= max_bits).map(of_bits)


@st.composite
def domains(draw: st.DrawFn, max_bits: int = 8) -> Space:
    bits = {
        "register": draw(st.integers(0, 3)),
        "lane": draw(st.integers(0, 5)),
        "warp": draw(st.integers(0, 2)),
        "block": draw(st.integers(0, 1)),
    }
    while sum(bits.values()) > max_bits:
        widest = max(bits, key=lambda name: bits[name])
        bits[widest] -= 1
    return hardware_space(bits)


def layouts_between(domain: Space, codomain: Space) -> st.SearchStrategy[LinearLayout]:
    """Any map: zero bases, repeated ones, bases of several bits."""
    column = st.one_of(
        st.integers(0, codomain.size - 1),
        st.integers(0, max(codomain.bits - 1, 0)).map(lambda bit: (1 << bit) % codomain.size),
        st.just(0),
    )
    columns = st.lists(column, min_size=domain.bits, max_size=domain.bits)
    return columns.map(lambda values: LinearLayout(domain, codomain, tuple(values)))


@st.composite
def layouts(draw: st.DrawFn, max_bits: int = 8) -> LinearLayout:
    return draw(layouts_between(draw(domains(max_bits)), Space.of_shape(draw(shapes(max_bits)))))


@st.composite
def bijections_between(draw: st.DrawFn, domain: Space, codomain: Space) -> LinearLayout:
    """A permutation of bits times random elementary additions: every bijection can come up."""
    columns = [1 << bit for bit in draw(st.permutations(range(codomain.bits)))]
    if len(columns) > 1:
        pair = st.tuples(st.integers(0, len(columns) - 1), st.integers(0, len(columns) - 1))
        for target, source in draw(st.lists(pair, max_size=8)):
            if target != source:
                columns[target] ^= columns[source]
    return LinearLayout(domain, codomain, tuple(columns))


@st.composite
def bijections(draw: st.DrawFn, max_bits: int = 8) -> LinearLayout:
    codomain = Space.of_shape(draw(shapes(max_bits)))
    bits = codomain.bits
    registers = draw(st.integers(0, bits))
    lanes = draw(st.integers(0, bits - registers))
    domain = hardware_space({"register": registers, "lane": lanes, "warp": bits - registers - lanes})
    return draw(bijections_between(domain, codomain))


@st.composite
def distributed(draw: st.DrawFn, max_bits: int = 9, warps: int = 2) -> LinearLayout:
    """A layout as Gluon takes it: five lane bits, every element owned, each basis one bit of its own or zero."""
    codomain = Space.of_shape(draw(shapes(max_bits, 3)))
    bits = max(codomain.bits, 5 + warps) + draw(st.integers(0, 2))
    columns = [1 << bit for bit in range(codomain.bits)] + [0] * (bits - codomain.bits)
    domain = hardware_space({"register": bits - 5 - warps, "lane": 5, "warp": warps})
    return LinearLayout(domain, codomain, tuple(draw(st.permutations(columns))))


def coordinates(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all elements of a shape, row-major."""
    return [tuple(map(int, index)) for index in np.ndindex(*shape)]
