"""Shared-memory wavefronts of one warp's access.

128 bytes move per clock, through 32 banks of 4 bytes. A 32, 64 or 128-bit access is split into 1, 2 or 4
phases (the whole warp, half warps, quarter warps); a phase takes as many wavefronts as the largest number of
distinct 4-byte words that fall into one bank. Exact duplicates within a phase are free, duplicates across
phases are not. Source: facts on sm_70 shared memory in docs/facts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutgen.algebra import gf2
from layoutgen.algebra.layout import LinearLayout
from layoutgen.errors import LayoutgenError

BANKS = 32
BANK_BITS = 5
WORD_BYTES = 4
MAX_WIDTH_BYTES = 16


def phases(width_bytes: int) -> int:
    """Return how many phases an access of this width per lane is split into (1 for 4 bytes or less)."""
    if width_bytes not in (1, 2, 4, 8, 16):
        raise LayoutgenError(f"phases: an access of {width_bytes} bytes a lane; 1, 2, 4, 8 or 16 exist")
    return max(1, width_bytes // WORD_BYTES)


def wavefronts(addresses: Sequence[int], width_bytes: int) -> int:
    """Return the wavefronts of one access, from the byte address of each of the warp's 32 lanes.

    >>> wavefronts([4 * lane for lane in range(32)], 4)
    1
    >>> wavefronts([128 * lane for lane in range(32)], 4)
    32
    >>> wavefronts([8 * lane for lane in range(32)], 8)
    2
    """
    total = 0
    for touched in _words(addresses, width_bytes):
        banks = [0] * BANKS
        for word in touched:
            banks[word % BANKS] += 1
        total += max(banks)
    return total


def least_wavefronts(addresses: Sequence[int], width_bytes: int) -> int:
    """Return the wavefronts that the same words would take if every phase spread them evenly over the banks.

    >>> least_wavefronts([128 * lane for lane in range(32)], 4)
    1
    """
    return sum(-(-len(touched) // BANKS) for touched in _words(addresses, width_bytes))


def _words(addresses: Sequence[int], width_bytes: int) -> list[set[int]]:
    """Return the distinct words that each phase touches."""
    count = phases(width_bytes)
    lanes = len(addresses) // count
    words = max(1, width_bytes // WORD_BYTES)
    return [
        {
            address // WORD_BYTES + word
            for address in addresses[phase * lanes : (phase + 1) * lanes]
            for word in range(words)
        }
        for phase in range(count)
    ]


@dataclass(frozen=True)
class Access:
    """What one warp pays to move a tile between its registers and a buffer in shared memory."""

    instructions: int
    width_bytes: int
    wavefronts: int
    minimum: int

    @property
    def conflict_free(self) -> bool:
        return self.wavefronts == self.minimum


def vector_elements(layout: LinearLayout, element_bytes: int) -> int:
    """Return how many neighbouring elements move together: registers 1, 2, 4, ... of the buffer, aligned.

    An address bit that another register or a lane sets as well would exchange the elements within the vector.
    """
    count = layout.domain.bits_of("register")
    registers = [column for column in layout.columns[:count] if column]
    vector = 1
    while (
        2 * vector * element_bytes <= MAX_WIDTH_BYTES
        and vector in registers
        and sum(column & vector != 0 for column in layout.columns) == registers.count(vector)
    ):
        vector *= 2
    return vector


def access(layout: LinearLayout, element_bytes: int) -> Access:
    """Return one warp's cost of a load or store of all its registers through `layout`, by rank.

    `layout` maps hardware bits to a buffer whose packed coordinate is its element address; for a swizzled buffer,
    compose it with the swizzle first. Registers that hold neighbouring elements move together, up to 16 bytes a lane;
    registers whose basis is zero replicate others and do not move; the other register bases must be independent. The
    minimum is what the distinct words of each phase would take if they were spread over all banks.

    In a phase, lane bits and words of the vector map linearly to words. They touch 2^rank words, in 2^(rank of the
    five bank bits) banks, each equally often: the quotient is the number of wavefronts. Other phases and registers only
    translate the words, so they cost the same.

    >>> row = LinearLayout.from_bases({"register": [[1], [2]], "lane": [[4], [8], [16], [32], [64]]}, (128,))
    >>> access(row, 2)
    Access(instructions=1, width_bytes=8, wavefronts=2, minimum=2)
    """
    vector = vector_elements(layout, element_bytes)
    width = vector * element_bytes
    words, banks = word_ranks(layout, element_bytes, width)
    count = layout.domain.bits_of("register")
    moved = [column for column in layout.columns[:count] if column >= vector]
    times = phases(width) << len(moved)
    return Access(1 << len(moved), width, times << words - banks, times << max(0, words - BANK_BITS))


def word_columns(layout: LinearLayout, element_bytes: int, width: int) -> tuple[int, ...]:
    """Return the word address of each bit of one phase: lane bits first, then the words of a lane's vector."""
    start, bits = layout.domain.bits_of("register"), layout.domain.bits_of("lane")
    phase_bits = phases(width).bit_length() - 1
    lanes = layout.columns[start : start + bits - phase_bits]
    words = range((width // WORD_BYTES).bit_length() - 1) if width >= WORD_BYTES else ()
    return (*(column * element_bytes // WORD_BYTES for column in lanes), *(1 << word for word in words))


def word_ranks(layout: LinearLayout, element_bytes: int, width: int) -> tuple[int, int]:
    """Return log2 of the distinct words of a phase, and of the banks that they lie in."""
    columns = word_columns(layout, element_bytes, width)
    return gf2.rank(columns), gf2.rank(column & BANKS - 1 for column in columns)


def conflict(layout: LinearLayout, element_bytes: int) -> str | None:
    """Name two lanes of a phase that want different words of one bank although there are banks left, or None.

    >>> column = LinearLayout.from_bases({"lane": [[32], [64], [128], [256], [512]]}, (1024,))
    >>> conflict(column, 4)
    'lanes 0 and 1 want words 0 and 32, both in bank 0'
    """
    if access(layout, element_bytes).conflict_free:
        return None
    width = vector_elements(layout, element_bytes) * element_bytes
    columns = word_columns(layout, element_bytes, width)
    lanes = layout.domain.bits_of("lane") - (phases(width).bit_length() - 1)
    for vector in gf2.echelon(column & BANKS - 1 for column in columns).kernel:
        word = gf2.apply(columns, vector)
        if word:
            return f"lanes 0 and {vector & (1 << lanes) - 1} want words 0 and {word}, both in bank 0"
    raise AssertionError(f"{layout}: more words than banks, by rank, yet no two words share one")
