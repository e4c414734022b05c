"""Literals of the exchange of partial sums between warps that share rows, in the fast design of attention."""

from __future__ import annotations

from dataclasses import dataclass

from layoutgen.emission.attention_fast_views import buffer_offsets
from layoutgen.kernels.attention_fast import FastAttentionRequest


@dataclass(frozen=True)
class PartialPiece:
    """A piece of the partial sums: its tensor, what is fetched, its buffer, and how that lies in a buffer of K or V."""

    tensor: str
    scores: str
    buffer: str
    host: str
    layout: str
    offsets: str
    whole: str
    subview: str


@dataclass(frozen=True)
class PartialSumsView:
    """The exchange of partial sums: S of all warps, one below the other, and its pieces."""

    layout: str
    whole: str
    pieces: tuple[PartialPiece, ...]
    rows: tuple[int, ...]
    comment: tuple[str, ...]


def partial_sums_view(request: FastAttentionRequest) -> PartialSumsView | None:
    """Return how warps that share rows exchange the partial sums of S, if there are any."""
    sums = request.partial_sums
    if sums is None:
        return None
    stored, fetched = sums.stored_access, sums.fetched_access
    sides = [("", "k", request.parts)]
    if sums.pieces == 2:
        sides = [("_low", "k", request.parts), ("_high", "v", request.value_parts)]
    pieces = []
    for side, kind, parts in sides:
        room = sums.in_room(request.block_n * parts[0] * request.element_bytes)
        pieces.append(
            PartialPiece(
                tensor=f"partial{side}",
                scores=f"scores{side}",
                buffer=f"s_buffer{side}",
                host=f"{kind}_buffer{'0' * (len(parts) > 1)}",
                layout=f"BUFFER_S{side.upper()}",
                offsets=buffer_offsets(room),
                whole=str(list(room.shape)),
                subview="" if room.shape == sums.shape else f".slice(0, {sums.shape[0]}, dim=0)",
            )
        )
    what = "The partial sums of S" + ", a half" * (sums.pieces == 2)
    return PartialSumsView(
        layout="MATRIX_S" if sums.pieces == 1 else "HALF_S",
        whole=str([sums.shape[0], request.block_n]),
        pieces=tuple(pieces),
        rows=tuple(range(0, sums.shape[0], request.block_m)),
        comment=(
            f"{what}: a warp stores {stored.instructions} x {8 * stored.width_bytes} bits in "
            f"{stored.wavefronts} wavefronts ({stored.minimum} at least),",
            f"and fetches those of each warp in {fetched.wavefronts} ({fetched.minimum}).",
        ),
    )
