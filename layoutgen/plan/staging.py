"""How a tile goes from global memory into a shared buffer that fragments can be read from.

A buffer holds one slab per k-step: rows of k consecutive k, one per row (or column) of the operand, so that a
fragment is one vector load. A tile whose k runs along its columns is cut up as it is; one whose k runs along
its rows is transposed by the store: each thread holds k consecutive k of a column and writes them as one vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import Access, Blocked, LinearLayout, access
from layoutgen.algebra.space import LANES

VECTOR_BYTES = 16
"""What a thread loads at once where it can."""
ROW_BYTES = 64
"""What neighbouring lanes read of one row where they can: two whole sectors."""


@dataclass(frozen=True)
class Staging:
    """The staging of a [rows, columns] tile with k along dim `k_dim`, in k-steps of `k`.

    tile.reshape(split).permute(order).reshape(buffer) is what is stored, through `blocked` in registers.

    >>> staging = stage((32, 64), 0, 4, 2, 4)
    >>> staging.buffer, staging.access.conflict_free
    ((512, 4), True)
    """

    shape: tuple[int, int]
    k_dim: int
    k: int
    element_bytes: int
    blocked: Blocked

    @property
    def split(self) -> tuple[int, ...]:
        rows, columns = self.shape
        return (rows // self.k, self.k, columns) if self.k_dim == 0 else (rows, columns // self.k, self.k)

    @property
    def order(self) -> tuple[int, ...]:
        return (0, 2, 1) if self.k_dim == 0 else (1, 0, 2)

    @property
    def steps(self) -> int:
        """k-steps in the tile."""
        return self.shape[self.k_dim] // self.k

    @property
    def slab(self) -> int:
        """Rows of the buffer that one k-step takes up."""
        return self.shape[1 - self.k_dim]

    @property
    def buffer(self) -> tuple[int, int]:
        return self.steps * self.slab, self.k

    def into_buffer(self, layout: LinearLayout) -> LinearLayout:
        """Return where each hardware index writes, for a tile held in `layout`."""
        return layout.reshape(self.split).permute(self.order).reshape(self.buffer)

    @cached_property
    def loaded(self) -> LinearLayout:
        """Who holds which element between the load and the store."""
        return self.blocked.layout(self.shape)

    @cached_property
    def stored(self) -> LinearLayout:
        return self.into_buffer(self.loaded)

    @property
    def access(self) -> Access:
        """What a warp pays for the store."""
        return access(self.stored, self.element_bytes)


def stage(shape: tuple[int, int], k_dim: int, k: int, element_bytes: int, num_warps: int) -> Staging:
    """Choose how threads share a tile out among themselves.

    Each thread takes whole vectors, and shorter ones before threads go without: replicated elements would be
    loaded and stored more than once.
    """
    rows, columns = shape
    share = rows * columns // (LANES * num_warps)
    if k_dim == 1:
        run, vector = 1, max(1, min(VECTOR_BYTES // element_bytes, columns, share))
        across = max(1, min(ROW_BYTES // element_bytes, columns) // vector)
    else:
        run, vector = max(1, min(k, share)), max(1, min(VECTOR_BYTES // (k * element_bytes), columns, share // k))
        across = columns // vector
    across = min(across, LANES)
    # Where the rows run out, lanes first and then warps go along the columns.
    while LANES // across * run * num_warps > rows and across < min(columns // vector, LANES):
        across *= 2
    down = LANES // across
    warps_down = min(num_warps, max(1, rows // (down * run)))
    blocked = Blocked((run, vector), (down, across), (warps_down, num_warps // warps_down), (1, 0))
    return Staging(shape, k_dim, k, element_bytes, blocked)
