"""What a tensor core makes of its operands, bit for bit.

Two arithmetics:

* `v100`: the recipe of a V100's HMMA.884 (Fasi, Higham, Mikaitis and Pranesh 2021, PeerJ CS 7:e330; MMA-Sim,
  arXiv 2511.10909). Each product keeps the exponent e(a) + e(b); all five terms are cut toward zero to
  multiples of 2^(E - 23), E being the largest exponent; their exact sum is cut toward zero to 24 bits (f32
  accumulator) or rounded to nearest even (f16 accumulator).
* `exact`: the exact sum is rounded once, to nearest even.

Arrays are problem-shaped, with independent problems along the last axis: a[g, m, k, w], b[g, k, n, w],
c[g, m, n, w]. Values are bit patterns (uint16 for f16 and bf16, uint32 for f32).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.cpu.rounding import sum_to_odd
from layoutgen.errors import LayoutgenError

Array = NDArray[Any]

_ZERO = -1000  # exponent of a zero: below every sum of real exponents
_SPECIAL = 8000  # exponent of an infinity or a NaN: above every one, even after _ZERO is added
_LIMIT = 4000
_CHUNK = 1 << 14  # elements at once: keeps the float64 scratch within a core's second-level cache


class ArithmeticUnavailableError(LayoutgenError):
    """An arithmetic was asked for an instruction that the machine it describes does not have."""


@dataclass(frozen=True)
class Recipe:
    """How a k = 4 step rounds; the defaults are those of a V100. Other values are near misses for the
    tests."""

    alignment_bits: int = 23
    renormalise: bool = False
    floor: bool = False
    final_nearest: bool = False


V100 = Recipe()


def _half_tables() -> tuple[Array, Array]:
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        value = bits.view(np.float16).astype(np.float64)
    field = (bits >> 10) & 31
    exponent = np.maximum(field, 1).astype(np.int16) - np.int16(15)
    exponent[(bits & 0x7FFF) == 0] = _ZERO
    exponent[field == 31] = _SPECIAL
    return value, exponent


HALF_VALUE, HALF_EXPONENT = _half_tables()


def _exponent32(bits: Array) -> Array:
    field = (bits >> np.uint32(23)).astype(np.int16) & np.int16(255)
    exponent = np.maximum(field, 1) - np.int16(127)
    exponent = np.where((bits << np.uint32(1)) == 0, np.int16(_ZERO), exponent)
    return np.where(field == 255, np.int16(_SPECIAL), exponent)


def _power_of_two(exponent: Array) -> Array:
    return ((exponent.astype(np.int64) + 1023) << 52).view(np.float64)


def _round_out(value: Array, accumulator: str) -> Array:
    """float64 -> result bits, to nearest even, with the unit's one NaN and no negative zero."""
    if accumulator == "f32":
        out = (value + 0.0).astype(np.float32)
        bits = out.view(np.uint32)
        nan = out != out
        return np.where(nan, np.uint32(0x7FFFFFFF), bits) if nan.any() else bits
    half = (value + 0.0).astype(np.float16)
    return np.where(half != half, np.uint16(0x7FFF), half.view(np.uint16))


def _chunks(c: Array) -> Iterator[slice]:
    """Slices of the problems that together have about `_CHUNK` elements each."""
    step = max(1, _CHUNK // max(1, c[..., 0].size))
    for start in range(0, c.shape[-1], step):
        yield slice(start, start + step)


class Operand:
    """One decoded fp16 operand: values as float64 and exponents, kept so that several steps may reuse them."""

    __slots__ = ("exponent", "value")

    def __init__(self, bits: Array) -> None:
        self.value: Array = np.take(HALF_VALUE, bits)
        self.exponent: Array = np.take(HALF_EXPONENT, bits)


def v100(a: Operand, b: Operand, c: Array, accumulator: str = "f32", recipe: Recipe = V100) -> Array:
    """One k = 4 step of a V100: the bits of d[g, m, n, w].

    Pre: `a` decoded from [g, m, 4, w], `b` from [g, 4, n, w]; `c` holds uint32 bits for an f32 accumulator,
    uint16 for f16. Facts: see the module's docstring; data: 5,000 published results.
    """
    out = np.empty(c.shape, c.dtype)
    for part in _chunks(c):
        out[..., part] = _v100_chunk(
            a.value[..., part], a.exponent[..., part], b.value[..., part], b.exponent[..., part],
            c[..., part], accumulator, recipe,
        )  # fmt: skip
    return out


def _v100_chunk(av: Array, ae: Array, bv: Array, be: Array, c: Array, accumulator: str, recipe: Recipe) -> Array:
    if accumulator == "f32":
        addend = np.ascontiguousarray(c).view(np.float32).astype(np.float64)
        top = _exponent32(c)
    else:
        addend, top = np.take(HALF_VALUE, c), np.take(HALF_EXPONENT, c)
    steps = range(av.shape[2])
    scratch = np.empty(c.shape, np.float64)
    small = np.empty(c.shape, np.int16)
    for k in steps:
        np.add(ae[:, :, k, None, :], be[:, k, None, :, :], out=small)
        if recipe.renormalise:
            np.multiply(av[:, :, k, None, :], bv[:, k, None, :, :], out=scratch)
            small = np.where(scratch != 0, np.frexp(scratch)[1] - 1, small).astype(np.int16)
        np.maximum(top, small, out=top)
    special = top >= _LIMIT if int(top.max(initial=_ZERO)) >= _LIMIT else None
    top = np.maximum(top, -126)
    if special is not None:
        top = np.where(special, np.int16(0), top)
    up = _power_of_two(recipe.alignment_bits - top)
    cut = np.floor if recipe.floor else np.trunc
    total = cut(addend * up)
    for k in steps:
        np.multiply(av[:, :, k, None, :], bv[:, k, None, :, :], out=scratch)
        np.multiply(scratch, up, out=scratch)
        cut(scratch, out=scratch)
        total += scratch
    if accumulator == "f32" and not recipe.final_nearest:
        total.view(np.int64)[...] &= ~0x1FFFFFFF  # sign and magnitude: clearing bits cuts toward zero
    total *= _power_of_two(top - recipe.alignment_bits)
    if special is not None:
        plain = addend
        for k in steps:
            plain = plain + av[:, :, k, None, :] * bv[:, k, None, :, :]
        total = np.where(special, plain, total)
    return _round_out(total, accumulator)


def exact(a: Array, b: Array, c: Array, accumulator: str = "f32", operand: str = "f16") -> Array:
    """The exact sum of c and all products, rounded once to nearest even: the bits of d[g, m, n, w].

    `operand` is "f16" or "bf16" and says how the uint16 of `a` and `b` are read.
    """
    out = np.empty(c.shape, c.dtype)
    for part in _chunks(c):
        out[..., part] = _exact_chunk(a[..., part], b[..., part], c[..., part], accumulator, operand)
    return out


def _exact_chunk(a: Array, b: Array, c: Array, accumulator: str, operand: str) -> Array:
    if accumulator == "f32":
        addend = np.ascontiguousarray(c).view(np.float32).astype(np.float64)
    else:
        addend = np.take(HALF_VALUE, c)
    if operand == "f16":
        av, bv = np.take(HALF_VALUE, a), np.take(HALF_VALUE, b)
    else:
        av = (a.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        bv = (b.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    products = [av[:, :, k, None, :] * bv[:, k, None, :, :] for k in range(a.shape[2])]
    if operand == "f16":
        # fp16 products are multiples of 2^-48 below 2^32: two fixed-point halves add up exactly in float64
        high = np.zeros(c.shape)
        low = np.zeros(c.shape)
        for product in products:
            upper = np.rint(product * 256.0) / 256.0
            high += upper
            low += np.where(np.isfinite(product), product - upper, 0.0)
        terms = [low, high, addend]
    else:
        terms = [*products, addend]
    return _round_out(sum_to_odd(terms), accumulator)
