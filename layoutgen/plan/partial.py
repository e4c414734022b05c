"""How partial sums get from each warp to all warps that share its rows, through shared memory.

Every warp stores what its threads hold as they hold it, as whole vectors, lane by lane; then each loads the partial
sums of all warps, one after the other, into the same registers and lanes. So no access meets a bank conflict, and all
warps add up the same numbers in the same order. Where one buffer is too small, the columns are halved between two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import Access, LinearLayout, Space, access, hardware_space
from layoutgen.errors import LayoutgenError
from layoutgen.plan.staging import VECTOR_BYTES

SUM_BYTES = 4
"""A partial sum is a float32."""


def left_half(layout: LinearLayout) -> LinearLayout:
    """Return the half of a layout with the low columns, without the register that tells the halves apart.

    Raises LayoutgenError when no register does.

    >>> left_half(LinearLayout.from_bases({"register": [[0, 1], [0, 2]], "lane": [[1, 0]]}, (2, 4))).bases["register"]
    [[0, 1]]
    """
    *outer, columns = layout.shape
    registers = layout.domain.bits_of("register")
    if columns >> 1 not in layout.columns[:registers]:
        raise LayoutgenError(f"partial sums: no register tells columns from {columns >> 1} on of {columns} apart")
    gone = layout.columns.index(columns >> 1)
    codomain = Space.of_shape((*outer, columns >> 1))
    kept = [codomain.pack(layout.codomain.unpack(c)) for bit, c in enumerate(layout.columns) if bit != gone]
    bits = {dim: layout.domain.bits_of(dim) for dim in ("register", "lane", "warp")}
    return LinearLayout(hardware_space({**bits, "register": registers - 1}), codomain, tuple(kept))


@dataclass(frozen=True)
class PartialSums:
    """The exchange of partial sums of a [rows, columns] tile, as a whole or in two halves of its columns.

    `accumulator` is [warps of a group, rows, columns]; `sums` is [rows, columns], held by every warp of a group; both
    are of one piece. `buffer` maps an element's place in the piece's buffer to [warps of a group * rows, columns].
    """

    pieces: int
    accumulator: LinearLayout
    sums: LinearLayout
    buffer: LinearLayout

    @property
    def warps(self) -> int:
        """Warps of a group: how many partial sums there are."""
        return self.accumulator.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a piece, the partial sums one below the other."""
        rows, columns = self.buffer.shape
        return rows, columns

    def in_room(self, size: int) -> LinearLayout:
        """Return `buffer` as the first part of one of `size` bytes: further rows follow it."""
        rows, columns = self.shape
        whole = size // (columns * SUM_BYTES)
        codomain = Space.of_shape((whole, columns))
        first = tuple(codomain.pack(self.buffer.codomain.unpack(column)) for column in self.buffer.columns)
        more = tuple(codomain.pack((rows << bit, 0)) for bit in range((whole // rows).bit_length() - 1))
        return LinearLayout(Space((("place", len(first) + len(more)),)), codomain, (*first, *more))

    def places_in(self, room: LinearLayout) -> LinearLayout:
        """Return which places of a buffer, of which a piece is the first rows, each hardware index writes.

        They are those of the buffer's first part, if all lie there, and those of the whole buffer otherwise.
        """
        embedded = tuple(room.codomain.pack(self.stacked.codomain.unpack(c)) for c in self.stacked.columns)
        found = room.invert().compose(LinearLayout(self.stacked.domain, room.codomain, embedded))
        first = self.buffer.codomain.bits
        if any(column >> first for column in found.columns):
            return found
        return LinearLayout(found.domain, Space((("place", first),)), found.columns)

    @property
    def stacked(self) -> LinearLayout:
        """The partial sums of a piece as one matrix, one tile below the other."""
        return self.accumulator.reshape(self.shape)

    @cached_property
    def stored(self) -> LinearLayout:
        """Which places of the buffer each hardware index writes."""
        return self.buffer.invert().compose(self.stacked)

    @property
    def stored_access(self) -> Access:
        """What a warp pays for the store of a piece."""
        return access(self.stored, SUM_BYTES)

    @cached_property
    def fetched(self) -> LinearLayout:
        """Which places of the buffer each hardware index reads of the first partial sums."""
        embedded = tuple(self.stacked.codomain.pack(self.sums.codomain.unpack(c)) for c in self.sums.columns)
        return self.buffer.invert().compose(LinearLayout(self.sums.domain, self.stacked.codomain, embedded))

    @property
    def fetched_access(self) -> Access:
        """What a warp pays for a piece of the partial sums of one warp."""
        return access(self.fetched, SUM_BYTES)


def exchange_sums(accumulator: LinearLayout, sums: LinearLayout, room: tuple[int, int]) -> PartialSums:
    """Choose the pieces by the bytes that two buffers have, and the order of a piece's elements in its buffer.

    A thread's vectors lie apart, those of all lanes beside each other, then the other registers, then the warps. Raises
    LayoutgenError when even halves do not fit.

    >>> from layoutgen.tiling.divided import copied, stacked
    >>> tile = LinearLayout.from_bases({"register": [[0, 1], [0, 2]], "lane": [[1 << i, 0] for i in range(5)]}, (32, 4))
    >>> found = exchange_sums(stacked(tile, 2), copied(tile, 2), (1024, 0))
    >>> found.pieces, found.shape, found.stored_access.conflict_free, found.fetched_access.conflict_free
    (1, (64, 4), True, True)
    """
    needed = accumulator.codomain.size * SUM_BYTES
    pieces = 1 if needed <= room[0] else 2
    if needed > pieces * min(room[:pieces]):
        raise LayoutgenError(
            f"partial sums: {needed} bytes of {accumulator.shape[0]} warps; K and V have room for "
            f"{room[0]} and {room[1]}: take fewer rows, or fewer column_warps"
        )
    if pieces == 2:
        accumulator, sums = left_half(accumulator), left_half(sums)
    registers = accumulator.domain.bits_of("register")
    lanes = accumulator.domain.bits_of("lane")
    vector = min(registers, (VECTOR_BYTES // SUM_BYTES).bit_length() - 1)
    columns = accumulator.columns
    order = (
        *columns[:vector],
        *columns[registers : registers + lanes],
        *columns[vector:registers],
        *columns[registers + lanes :],
    )
    warps, rows, width = accumulator.shape
    buffer = LinearLayout(Space((("place", len(order)),)), Space.of_shape((warps * rows, width)), order)
    return PartialSums(pieces, accumulator, sums, buffer)
