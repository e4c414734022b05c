"""How a tile goes through shared memory as rows of whole vectors, so that fetches are as wide as stores.

A buffer keeps 16 bytes of a row together. Some rows stand beside each other before the next 16 bytes of a row follow:
how many is chosen so that neither the store nor the fetch meets a bank conflict that can be avoided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import Access, LinearLayout, Space, access, hardware_space
from layoutgen.algebra.space import LANE_BITS, log2
from layoutgen.plan.staging import VECTOR_BYTES


@dataclass(frozen=True)
class RowStaging:
    """The staging of a [rows, columns] tile.

    `loaded` says who holds what between the load and the store; `buffer` maps an element's place in the buffer to its
    row and column. A fetch is a layout into the tile, for one step of it.

    >>> fragment = LinearLayout.from_bases({"register": [[0, 1], [0, 2], [0, 4]], "lane": [[1, 0]] * 5}, (8, 8))
    >>> stage_rows((32, 64), fragment, 2, 4).stored_access.conflict_free
    True
    """

    element_bytes: int
    loaded: LinearLayout
    buffer: LinearLayout

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.loaded.shape
        return rows, columns

    @cached_property
    def _place(self) -> LinearLayout:
        return self.buffer.invert()

    def into_buffer(self, layout: LinearLayout) -> LinearLayout:
        """Return which places of the buffer each hardware index touches, for a part of the tile held in `layout`."""
        embedded = [self.loaded.codomain.pack(layout.codomain.unpack(column)) for column in layout.columns]
        return self._place.compose(LinearLayout(layout.domain, self.loaded.codomain, tuple(embedded)))

    @property
    def stored(self) -> LinearLayout:
        return self.into_buffer(self.loaded)

    @property
    def stored_access(self) -> Access:
        """What a warp pays for the store."""
        return access(self.stored, self.element_bytes)

    def rows_held(self, turn: int | None = None) -> int:
        """How many rows a thread's vectors lie in; `turn` is a column bit that tells two rows apart as well."""
        codomain = self.loaded.codomain
        apart = [codomain.unpack(column) for column in self.loaded.columns[: self.loaded.domain.bits_of("register")]]
        return 1 << sum(1 for row, column in apart if row or (turn is not None and column == 1 << turn))

    def fetched_access(self, fragment: LinearLayout) -> Access:
        """What a warp pays for the fetch of one step."""
        return access(self.into_buffer(fragment), self.element_bytes)


def stage_rows(
    shape: tuple[int, int],
    fragment: LinearLayout,
    element_bytes: int,
    num_warps: int,
    *,
    few_rows: bool = False,
    turn: int | None = None,
) -> RowStaging:
    """Choose the buffer and who loads what: fewest wavefronts of the fetch, then of the store, then the longest runs.

    `fragment` is what one step fetches, in the coordinates of the tile. Each thread takes whole vectors, and shorter
    ones before threads go without. With `few_rows` a thread's vectors lie in as few rows as they can, before runs are
    long: then one address serves several of its loads. `turn` is a column bit on which a row's address depends as well.

    >>> fragment = LinearLayout.from_bases({"register": [[0, 1], [0, 2], [0, 4]], "lane": [[1, 0]] * 5}, (8, 8))
    >>> stage_rows((32, 64), fragment, 2, 4, few_rows=True).loaded.bases["register"]
    [[0, 1], [0, 2], [0, 4], [0, 32]]
    """

    def cost(staging: RowStaging) -> tuple[int, int, int]:
        rows = staging.rows_held(turn) if few_rows else 0
        return staging.fetched_access(fragment).wavefronts, staging.stored_access.wavefronts, rows

    return min(_candidates(shape, element_bytes, num_warps, few_rows), key=cost)


def _candidates(shape: tuple[int, int], element_bytes: int, num_warps: int, sectors: bool) -> Iterator[RowStaging]:
    """Yield the stagings, those whose lanes read long runs of a row first. With `sectors` no run is below 32 bytes."""
    rows, columns = (log2(size, "tile") for size in shape)
    lanes, warps = LANE_BITS, log2(num_warps, "warps")
    whole = log2(VECTOR_BYTES // element_bytes, "vector")
    vector = min(whole, columns, max(0, rows + columns - lanes - warps))
    buffers = [_buffer(rows, columns, min(whole, columns), group) for group in range(rows + 1)]
    for down in range(2, lanes if sectors else lanes + 1):
        for buffer in buffers:
            yield RowStaging(element_bytes, _loaded(rows, columns, vector, down, lanes, warps, sectors), buffer)


def _buffer(rows: int, columns: int, vector: int, group: int) -> LinearLayout:
    """The buffer whose groups of 2^group rows stand beside each other, 2^vector columns wide."""
    row = [1 << columns + bit for bit in range(rows)]
    column = [1 << bit for bit in range(columns)]
    places = (*column[:vector], *row[:group], *column[vector:], *row[group:])
    return LinearLayout(Space((("place", rows + columns),)), Space.of_shape((1 << rows, 1 << columns)), places)


def _loaded(rows: int, columns: int, vector: int, down: int, lanes: int, warps: int, sectors: bool) -> LinearLayout:
    """Lanes take 2^down rows and then vectors along the columns; warps and registers take the rest.

    With `sectors` the second vector of a sector comes after four rows, so that a quarter of a warp reads whole sectors.
    """
    row = [1 << columns + bit for bit in range(rows)]
    column = [1 << bit for bit in range(columns)]
    across = column[vector : vector + lanes - min(down, rows)]
    first = min(2, down) if sectors else down
    spread = [*row[:first], *across, *row[first:down], *row[down:], *column[vector + len(across) :]]
    spread += [0] * (lanes + warps - len(spread))
    registers = (*column[:vector], *spread[lanes + warps :])
    domain = hardware_space({"register": len(registers), "lane": lanes, "warp": warps})
    return LinearLayout(domain, Space.of_shape((1 << rows, 1 << columns)), (*registers, *spread[: lanes + warps]))
