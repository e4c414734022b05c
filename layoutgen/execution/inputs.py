"""The arrays of a launch: values by kind, laid out in memory by order, gaps, expansion and alignment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu import Tensor
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import Array, AttentionRequest, MatmulRequest, Request
from layoutgen.kernels.matmul_workspace import WORKSPACE

KINDS = {
    "normal": "standard normal values",
    "integers": "small integers, so that every order of summation is exact",
    "large": "normal values times 32",
    "nan": "normal values in arrays whose memory holds NaN between and after the elements",
}
STRIDES = {
    "contiguous": "no gaps",
    "padded": "gaps after every row",
    "expanded": "stride 0 along the batch, and along the heads of K and V (attention)",
}
HEAD_ORDERS = {"bhtd": (0, 1, 2, 3), "bthd": (0, 2, 1, 3), "bhdt": (0, 1, 3, 2)}
"""Attention: the dims of Q, K, V and the output from the slowest to the fastest in memory."""
TRANSPOSED = {"nn": "", "nt": "b", "tn": "a", "tt": "ab"}
"""Matmul: which of A and B lie transposed in memory."""
PADDING = 8
MAX_BYTES = 2**30
"""Bytes of arrays in a run; the executor keeps several times as much."""
OUTPUTS = ("out", "lse", "c")
WRITTEN = (*OUTPUTS, *WORKSPACE)
"""Arguments that come without values: outputs, and what one kernel of a call leaves for the next."""


@dataclass(frozen=True)
class Launch:
    """What a launch chooses: sizes, input kind, order in memory, strides, misalignment in bytes, and the seed."""

    shape: tuple[int, ...]
    inputs: str = "normal"
    order: str | None = None
    strides: str = "contiguous"
    misalign: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.inputs not in KINDS:
            raise LayoutgenError(f"inputs {self.inputs!r}: must be one of {', '.join(KINDS)}")
        if self.strides not in STRIDES:
            raise LayoutgenError(f"strides {self.strides!r}: must be one of {', '.join(STRIDES)}")
        if self.seed < 0:
            raise LayoutgenError(f"seed {self.seed}: must be 0 or more")
        if self.misalign % 2 or not 0 <= self.misalign < 256:
            raise LayoutgenError(f"misalign {self.misalign}: must be an even number of bytes below 256")


@dataclass(frozen=True)
class Placed:
    """One argument: its values (None for an output), and the array that says how they lie in memory."""

    values: NDArray[np.generic] | None
    array: Array

    def tensor(self, name: str) -> Tensor:
        """Return the argument in the memory that kernels execute on."""
        misalign = self.array.address
        if self.values is None:
            return Tensor.output(name, self.array.shape, self.array.dtype, self.array.strides, misalign=misalign)
        return Tensor.input(name, self.values, self.array.strides, misalign=misalign)


def check_size(request: Request, launch: Launch) -> None:
    """Refuse a launch without a block, or one whose arrays are more than the executor should be asked to hold."""
    arrays = request.arrays(launch.shape)
    given = ",".join(map(str, launch.shape))
    size = sum(math.prod(array.shape) * np.dtype(array.dtype).itemsize for array in arrays.values())
    if not all(math.prod(array.shape) for name, array in arrays.items() if name in OUTPUTS):
        raise LayoutgenError(
            f"shape {given}: has an empty output, so that nothing is launched; take sizes of at least 1"
        )
    if size > MAX_BYTES:
        raise LayoutgenError(f"shape {given}: its arrays take {size} bytes; a run holds at most {MAX_BYTES}")


def place(request: Request, launch: Launch, rng: np.random.Generator | None) -> dict[str, Placed]:
    """Return the arguments of a launch by name; without `rng` they have places but no values.

    Raises LayoutgenError on a shape or an order that is none.
    """
    known = list(HEAD_ORDERS if isinstance(request, AttentionRequest) else TRANSPOSED)
    order = known[0] if launch.order is None else launch.order
    if order not in known:
        raise LayoutgenError(f"order {order!r}: must be one of {', '.join(known)}")
    placed = {}
    for name, plain in request.arrays(launch.shape).items():
        memory = _memory_order(request, name, order, len(plain.shape))
        expanded = _expanded(request, name, launch, plain.shape)
        values = None if rng is None or name in WRITTEN else _values(rng, launch.inputs, plain, expanded)
        gaps = name not in WORKSPACE  # which has none
        padding = PADDING if gaps and (launch.strides == "padded" or launch.inputs == "nan") else 0
        misalign = -(-launch.misalign // np.dtype(plain.dtype).itemsize) * np.dtype(plain.dtype).itemsize
        strides = _strides(plain.shape, memory, padding, expanded)
        placed[name] = Placed(values, Array(plain.shape, strides, plain.dtype, misalign))
    return placed


def _memory_order(request: Request, name: str, order: str, rank: int) -> tuple[int, ...]:
    """Return the dims from the slowest to the fastest in memory."""
    if isinstance(request, MatmulRequest):
        return (0, 2, 1) if name in TRANSPOSED[order] else tuple(range(rank))
    return HEAD_ORDERS[order] if name in ("q", "k", "v", "out") else tuple(range(rank))


def _expanded(request: Request, name: str, launch: Launch, shape: tuple[int, ...]) -> tuple[int, ...]:
    if launch.strides != "expanded" or name in WRITTEN:
        return ()
    if isinstance(request, AttentionRequest):
        return {"q": (), "k": (0, 1), "v": (0, 1)}.get(name, tuple(range(len(shape) - 2)))
    return (0,)


def _values(rng: np.random.Generator, kind: str, plain: Array, expanded: tuple[int, ...]) -> NDArray[np.generic]:
    shape = tuple(1 if dim in expanded else size for dim, size in enumerate(plain.shape))
    if plain.dtype == "bool":  # some rows attend to nothing
        attended = (rng.random(shape) < 0.7) & (rng.random((*shape[:-1], 1)) < 0.9)
        return np.broadcast_to(attended, plain.shape)
    if kind == "integers":
        drawn = rng.integers(-4, 5, shape).astype(np.float64)
    else:
        drawn = rng.standard_normal(shape) * (32 if kind == "large" else 1)
    return np.broadcast_to(drawn.astype(plain.dtype), plain.shape)


def _strides(
    shape: tuple[int, ...], memory: tuple[int, ...], padding: int, expanded: tuple[int, ...]
) -> tuple[int, ...]:
    """Return strides that leave `padding` elements after every row and after every matrix, and 0 where expanded."""
    strides = [0] * len(memory)
    step = 1
    for position, dim in enumerate(reversed(memory)):
        if dim in expanded:
            continue
        strides[dim] = step
        step *= max(1, shape[dim])
        if position < 2:
            step += padding * (step if position else 1)
    return tuple(strides)
