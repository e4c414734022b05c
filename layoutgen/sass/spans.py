"""What the tiles of a fast attention launch cost where some of them need masks: two loops, and how often each runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import mean
from typing import TYPE_CHECKING

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import FastAttentionRequest
from layoutgen.sass.counts import count_tiles, wavefronts_of
from layoutgen.sass.inspection import Inspection, inspect, price_loop

if TYPE_CHECKING:
    from layoutgen.toolchain import Compiled, KernelFile


def tiles_of(request: FastAttentionRequest, first_query: int, t_k: int) -> tuple[int, int]:
    """Return how many tiles a block goes through without and with masks, for as many queries as keys.

    The block is that of `first_query`. Requests with a window are not counted here.

    >>> request = FastAttentionRequest(head_dim=64, atom="m8n8k4", block_m=128, block_n=64, causal=True)
    >>> tiles_of(request, 0, 1024), tiles_of(request, 896, 1024)
    ((0, 2), (14, 2))
    """
    if request.window is not None:
        raise LayoutgenError("tiles: of a window the number of tiles is not counted; take causal or neither")
    size = request.block_n
    reach = first_query + 1 if request.causal else t_k
    tiles = -(-min(first_query + request.block_m if request.causal else t_k, t_k) // size)
    whole = min(max(min(t_k // size - 1, reach // size), 0), tiles)
    return whole, tiles - whole


@dataclass(frozen=True)
class Spans:
    """Cycles that all resident warps of an SM take for a tile without masks and for one with them, by the model."""

    request: FastAttentionRequest
    blocks: int
    whole: float
    masked: float

    def cycles_per_pair(self, length: int) -> float:
        """Return the cycles of an SM per attended pair of query and key, for `length` queries and as many keys.

        Prologue and epilogue of a block are left out, and that blocks end at different times.
        """
        cycles, pairs = 0.0, length * (length + 1) / 2 if self.request.causal else float(length * length)
        for first in range(0, length, self.request.block_m):
            whole, masked = tiles_of(self.request, first, length)
            cycles += whole * self.whole + masked * self.masked
        return cycles / self.blocks / pairs


def spans(file: KernelFile, compiled: Compiled) -> Spans:
    """Price both loops of a compiled kernel. Raises LayoutgenError when it is none of the fast design of attention."""
    if not isinstance(file.request, FastAttentionRequest):
        raise LayoutgenError(f"spans {file.path.stem}: is none of the fast design of attention")
    found, counts = inspect(file, compiled), count_tiles(file, compiled)
    loops = [loop for loop in found.program.loops if loop.count("HMMA") == found.hmma]
    longest = max(loops, key=lambda loop: len(loop.body))
    wavefronts = {address: float(count) for address, count in wavefronts_of(longest, counts).items()}
    priced, unpriced = price_loop(longest, found.model, wavefronts)
    masked = replace(found, loop=longest, wavefronts=wavefronts, priced=priced, unpriced=unpriced)
    return Spans(file.request, found.occupied.blocks, _cycles(found), _cycles(masked))


def _cycles(found: Inspection) -> float:
    return mean(run.cycles for run in found.runs)
