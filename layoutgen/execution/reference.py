"""float64 references, and bounds on the error that a kernel may make against them, element by element.

The bounds follow the kernel's roundings: u16 = 2^-11 for every rounding to fp16, and for every k-step in the tensor
core k products, the accumulator and the sum truncated, each by less than one unit of 2^-23 of the largest
magnitude that occurs, which the sum of the terms' magnitudes bounds from above (facts: V100 numerics).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from layoutgen.execution.epilogue import SUBNORMAL16, U16, U32, Values, finished
from layoutgen.kernels import AttentionRequest, FastAttentionRequest, FastMatmulRequest, MatmulRequest, Request
from layoutgen.kernels.matmul_fast import SUMMED_K
from layoutgen.kernels.matmul_workspace import PRODUCTS

ULP32 = 2.0**-23


@dataclass(frozen=True)
class Reference:
    """The float64 result of one output and the error that it may have."""

    value: Values
    bound: Values


def step_loss(k: int) -> float:
    """Return what one k-step may lose, relative to the magnitudes summed so far: k products, the sum and the result."""
    return (k + 2) * ULP32


def references(request: Request, values: Mapping[str, Values]) -> dict[str, Reference]:
    """Return the reference of every output by name, from the inputs as they were given to the kernel."""
    if isinstance(request, AttentionRequest):
        return attention_reference(request, values)
    return {"c": matmul_reference(request, values)}


def matmul_reference(request: MatmulRequest, values: Mapping[str, Values]) -> Reference:
    a, b = values["a"], values["b"]
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    if request.a_order == "km":
        a64 = a64.swapaxes(-1, -2)
    if request.b_order == "nk":
        b64 = b64.swapaxes(-1, -2)
    value = a64 @ b64
    magnitude = np.abs(a64) @ np.abs(b64)
    bound = summed(request, a64.shape[-1], magnitude)
    if whole(request, a64, b64, magnitude):
        bound = np.zeros_like(value)
    elif isinstance(request, FastMatmulRequest) and request.operand_dtype:
        bound = bound + parted(a64, b64, magnitude)
    if isinstance(request, FastMatmulRequest):
        value, bound = finished(request, value, bound, values)
    if request.c_dtype != "float32":
        bound = bound + U16 * (np.abs(value) + bound) + SUBNORMAL16
    return Reference(value, bound)


def whole(request: MatmulRequest, a: Values, b: Values, magnitude: Values) -> bool:
    """Whether every order of summation is exact: integers whose sums fp32 holds, and whose lower parts are zero."""
    with np.errstate(invalid="ignore"):
        integers = not any(np.any(x % 1) for x in (a, b)) and magnitude.max(initial=0.0) < 1 / U32
    parts = isinstance(request, FastMatmulRequest) and request.operand_dtype is not None
    return integers and not (parts and max(np.abs(x).max(initial=0.0) for x in (a, b)) > 1 / U16)


def summed(request: MatmulRequest, k: int, magnitude: Values) -> Values:
    """Return what summing over K may lose: in the tensor core, and where sums are added to one another in fp32.

    fp32 operands make three products of parts, whose magnitudes together exceed that of the product by 2^-9 at most.
    """
    unit_k = request.tiling.unit.shape[2]
    tiles = -(-k // request.block_k)
    share = 0.0
    if isinstance(request, FastMatmulRequest):
        if request.operand_dtype:
            tiles, magnitude = PRODUCTS * tiles, magnitude * (1 + 2.0**-9)
            k = tiles * request.block_k
        share = (request.split_k - 1) * U32
        if request.summed_by_part:
            share += tiles * (request.block_k // SUMMED_K) * U32
            k = min(k, SUMMED_K)
    loss: Values = (-(-k // unit_k) * step_loss(unit_k) + share) * magnitude
    return loss


def parted(a: Values, b: Values, magnitude: Values) -> Values:
    """Return what two 16-bit parts of each operand may be off by, and what undoing their scales may round.

    Per element, 2^-23 of it or 2^-39 of the largest of its row; between two lower parts, which are left out, 2^-22.
    """
    rows = np.abs(a).max(-1, keepdims=True, initial=0.0)
    columns = np.abs(b).max(-2, keepdims=True, initial=0.0)
    small = rows * np.abs(b).sum(-2, keepdims=True) + columns * np.abs(a).sum(-1, keepdims=True)
    loss: Values = 2.0**-21 * magnitude + 2.0**-38 * small + 2.0**-148
    return loss


def attention_reference(request: AttentionRequest, values: Mapping[str, Values]) -> dict[str, Reference]:
    """From Q as the kernel scales it (the simple design rounds it then); K and V are shared by the heads of a group."""
    q, k, v = values["q"], values["k"], values["v"]
    scale = np.float32(request.head_dim**-0.5)
    if request.design == "fast":  # it scales the scores
        q64 = q.astype(np.float64) * np.float64(scale)
    else:
        q64 = (q.astype(np.float32) * scale).astype(q.dtype).astype(np.float64)
    group = q.shape[1] // k.shape[1]
    k64, v64 = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = q64 @ k64.swapaxes(-1, -2)
    magnitude = np.abs(q64) @ np.abs(k64).swapaxes(-1, -2)
    if isinstance(request, FastAttentionRequest) and request.softcap is not None:
        scores = request.softcap * np.tanh(scores / request.softcap)
    if request.bias:
        scores = scores + values["bias"].astype(np.float64)
    if isinstance(request, FastAttentionRequest):
        scores = np.where(hidden(request, *scores.shape[-2:]), -np.inf, scores)
    if "mask" in values:
        scores = np.where(values["mask"].astype(bool), scores, -np.inf)
    unit_k = request.tilings["scores"].unit.shape[2]
    steps = -(-sum(request.parts) // unit_k)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    if "sinks" in values:
        top = np.maximum(top, values["sinks"].astype(np.float64)[None, :, None, None])
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    if "sinks" in values:
        total = total + np.exp(values["sinks"].astype(np.float64)[None, :, None, None] - top)
    empty = total == 0
    safe = np.where(empty, 1.0, total)
    value = np.where(empty, 0.0, weights @ v64 / safe)
    lse = np.where(empty, -np.inf, top + np.log(safe))[..., 0]

    finite = np.where(np.isfinite(scores), np.abs(scores), 0.0)
    # A score is off by its truncations and by what the log2 domain rounds: three operations on magnitudes of its size.
    capped = request.softcap or 0.0  # the tanh is off by roundings of 1, times the cap
    per_row = (steps * step_loss(unit_k) * magnitude + 8 * U32 * (finite + np.abs(top) + capped + 1)).max(
        -1, keepdims=True, initial=0.0
    )
    off = np.expm1(2 * per_row)  # of every weight, relative, against numerator and sum
    spread = weights @ np.abs(v64) / safe
    key_steps = -(-k.shape[2] // request.block_n) * request.block_n // unit_k
    bound = spread * (off + U16 * (1 + off) + key_steps * (step_loss(unit_k) + 8 * U32)) + SUBNORMAL16 * np.abs(
        v64
    ).sum(-2, keepdims=True)
    if "sinks" in values:
        off = off + 8 * U32 * (np.abs(values["sinks"]).max() + np.abs(top) + 1)
        bound = bound + np.abs(value) * off
    if request.o_dtype != "float32":
        bound = bound + U16 * (np.abs(value) + bound) + SUBNORMAL16
    lse_bound = (off[..., 0] + key_steps * 8 * U32) + 8 * U32 * (np.abs(np.where(np.isfinite(lse), lse, 0.0)) + 1)
    return {"out": Reference(value, bound), "lse": Reference(lse, lse_bound)}


def hidden(request: FastAttentionRequest, t_q: int, t_k: int) -> Values:
    """Return [Tq, Tk]: whether causality or the window hides a key from a query."""
    own = np.arange(t_q)[:, None] + (t_k - t_q if request.alignment == "bottom-right" else 0)
    key = np.arange(t_k)[None, :]
    result = np.zeros((t_q, t_k), bool)
    if request.right is not None:
        result |= key > own + request.right
    if request.left is not None:
        result |= key < own - request.left
    return result


def error(reference: Reference, got: Values) -> Values:
    """Return the absolute error; infinite where one side is not a number, 0 where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        difference = np.abs(got.astype(np.float64) - reference.value)
    same = got.astype(np.float64) == reference.value
    overflow = np.isinf(got) & (np.sign(got) == np.sign(reference.value)) & (got.dtype == np.float16)
    beyond = np.abs(reference.value) + reference.bound >= 65520  # rounds to infinity in fp16
    difference = np.where(same | (overflow & beyond), 0.0, difference)
    return np.where(np.isnan(difference), np.inf, difference)
