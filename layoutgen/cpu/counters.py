"""What an execution costs, counted: warp instructions, shared wavefronts, global sectors, mma.

Rules (Volta; facts in NVIDIA's "Nsight Compute: Memory Tables" and measured by others): a shared access of
32, 64 or 128 bits is split into 1, 2 or 4 phases of consecutive lanes; a phase takes as many wavefronts as
the largest number of distinct 4-byte words that fall into one of the 32 banks. A global access takes one
sector for every distinct 32-byte piece that its warp touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BANKS = 32
SECTOR = 32


def _distinct(keys: Array, active: Array | None) -> Array:
    """Sorted along axis 0, which entries are the first of their value; inactive ones never are."""
    if active is not None:
        keys = np.where(active, keys, np.int64(-1))
    keys = np.sort(keys, axis=0)
    first = np.empty(keys.shape, np.bool_)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    if active is not None:
        first &= keys >= 0
    return np.where(first, keys, -1)


def wavefronts(address: Array, active: Array | None, width: int) -> tuple[int, int]:
    """Wavefronts of shared accesses, and the fewest that accesses of this width can take.

    `address` (bytes) and `active` have the shape [32 lanes, warps]; `width` is a lane's whole access in
    bytes. The minimum is one wavefront for every phase with an active lane.

    >>> import numpy as np
    >>> wavefronts(np.arange(32).reshape(32, 1) * 4, None, 4), wavefronts(np.arange(32).reshape(32, 1) * 8, None, 4)
    ((1, 1), (2, 1))
    """
    warps = address.shape[1]
    words = max(width // 4, 1)
    lanes = 32 // words
    # [phase, lane, warp] -> the words of a phase side by side: [lane x word, phase x warp]
    first = (address.astype(np.int64) >> 2).reshape(words, lanes, warps).transpose(1, 0, 2)
    key = (first[:, None] + np.arange(words)[None, :, None, None]).reshape(32, words * warps)
    mask = None
    if active is not None:
        lane = active.reshape(words, lanes, warps).transpose(1, 0, 2)
        mask = np.broadcast_to(lane[:, None], (lanes, words, words, warps)).reshape(32, words * warps)
    distinct = _distinct(key, mask)
    columns = distinct.shape[1]
    bank = np.where(distinct >= 0, distinct & (BANKS - 1), BANKS) + np.arange(columns) * (BANKS + 1)
    load = np.bincount(bank.ravel(), minlength=columns * (BANKS + 1)).reshape(columns, BANKS + 1)[:, :BANKS]
    worst = load.max(axis=1)
    return int(worst.sum()), int(np.count_nonzero(worst))


def sectors(address: Array, active: Array | None, width: int) -> tuple[int, int]:
    """Sectors of global accesses, and the fewest that could carry the distinct bytes of each warp.

    Shapes as in `wavefronts`; accesses are aligned to their width, so that a lane touches one sector.
    """
    key = address.astype(np.int64)
    distinct = _distinct(key, active)
    touched = _distinct(key >> 5, active)
    items = np.count_nonzero(distinct >= 0, axis=0)
    return int(np.count_nonzero(touched >= 0)), int((-(-items * width // SECTOR)).sum())


@dataclass(frozen=True)
class LineCount:
    """The cost of one source line (or of all): sums over the warps of a launch."""

    instructions: int = 0
    mma: int = 0
    wavefronts: int = 0
    wavefronts_minimum: int = 0
    sectors: int = 0
    sectors_minimum: int = 0

    def __add__(self, other: LineCount) -> LineCount:
        return LineCount(
            self.instructions + other.instructions,
            self.mma + other.mma,
            self.wavefronts + other.wavefronts,
            self.wavefronts_minimum + other.wavefronts_minimum,
            self.sectors + other.sectors,
            self.sectors_minimum + other.sectors_minimum,
        )

    def __str__(self) -> str:
        return (
            f"{self.instructions} warp instructions, {self.mma} mma, "
            f"{self.wavefronts} wavefronts (at least {self.wavefronts_minimum}), "
            f"{self.sectors} sectors (at least {self.sectors_minimum})"
        )


class Counters:
    """Counts per instruction number, added up while executing."""

    def __init__(self, instructions: int) -> None:
        self.issued = [0] * instructions
        self.shared: dict[int, list[int]] = {}
        self.glob: dict[int, list[int]] = {}
        self._patterns: dict[tuple[bytes, bytes, int], tuple[int, int]] = {}

    def shared_access(self, pc: int, address: Array, active: Array | None, width: int, times: int) -> None:
        """Count a shared access of [32, warps] lanes that happens `times` times over (in so many blocks)."""
        key = (address.tobytes(), b"" if active is None else active.tobytes(), width)
        found = self._patterns.get(key)
        if found is None:
            found = wavefronts(address, active, width)
            if len(self._patterns) < 4096:
                self._patterns[key] = found
        entry = self.shared.setdefault(pc, [0, 0])
        entry[0] += found[0] * times
        entry[1] += found[1] * times

    def global_access(self, pc: int, address: Array, active: Array | None, width: int) -> None:
        """Count a global access of [32, warps] lanes."""
        taken, least = sectors(address, active, width)
        entry = self.glob.setdefault(pc, [0, 0])
        entry[0] += taken
        entry[1] += least

    def at(self, pc: int, is_mma: bool) -> LineCount:
        """What instruction number `pc` has cost so far."""
        shared, glob = self.shared.get(pc, (0, 0)), self.glob.get(pc, (0, 0))
        mma = self.issued[pc] if is_mma else 0
        return LineCount(self.issued[pc], mma, shared[0], shared[1], glob[0], glob[1])
