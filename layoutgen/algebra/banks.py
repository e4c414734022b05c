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
    """What one warp pays to move a tile between its registers and a row-major buffer in shared memory."""

    instructions: int
    width_bytes: int
    wavefronts: int
    minimum: int

    @property
    def conflict_free(self) -> bool:
        return self.wavefronts == self.minimum


def access(layout: LinearLayout, element_bytes: int) -> Access:
    """Return one warp's cost of a load or store of all its registers through `layout`.

    `layout` maps hardware bits to a buffer whose packed coordinate is its element address. Registers that hold
    neighbouring elements move together, up to 16 bytes a lane; registers that replicate others do not move. The minimum
    is what the distinct words of each phase would take if they were spread over all banks.

    >>> row = LinearLayout.from_bases({"register": [[1], [2]], "lane": [[4], [8], [16], [32], [64]]}, (128,))
    >>> access(row, 2)
    Access(instructions=1, width_bytes=8, wavefronts=2, minimum=2)
    """
    register_bits = layout.domain.bits_of("register")
    registers = [column for column in layout.columns[:register_bits] if column]
    lanes = layout.columns[register_bits : register_bits + layout.domain.bits_of("lane")]
    vector = 1
    while vector in registers and 2 * vector * element_bytes <= MAX_WIDTH_BYTES:
        registers.remove(vector)
        vector *= 2
    width = vector * element_bytes
    lane_addresses = [element_bytes * gf2.apply(lanes, lane) for lane in range(1 << len(lanes))]
    total = minimum = 0
    for group in range(1 << len(registers)):
        # Exclusive or with the registers' part of the address: the columns are linear over GF(2).
        offset = element_bytes * gf2.apply(registers, group)
        addresses = [address ^ offset for address in lane_addresses]
        total += wavefronts(addresses, width)
        minimum += least_wavefronts(addresses, width)
    return Access(1 << len(registers), width, total, minimum)
