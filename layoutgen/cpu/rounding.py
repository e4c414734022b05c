"""Floating-point arithmetic with exactly one rounding, on NumPy arrays.

NumPy has no fused multiply-add, and a float64 intermediate rounds twice. Everything here therefore goes
through *round to odd*: an exact value that float64 cannot hold is replaced by the neighbouring float64 whose
last significand bit is one. Such a value rounds to any format of at most 51 bits as the exact value would
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").

Arrays may have any shapes that broadcast against each other. Infinities and NaN follow IEEE 754; the caller
holds `numpy.errstate(all="ignore")`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NAN32 = np.uint32(0x7FFFFFFF)
"""The NaN that every fp32 instruction returns (PTX ISA, "Floating point instructions")."""
NAN16 = np.uint16(0x7FFF)
"""The NaN that every fp16 instruction returns (PTX ISA, "Half precision floating point instructions")."""


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded float64 sum of `x` and `y` and its exact error (Knuth); the error is NaN when the sum is
    not finite."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def to_odd(total: Array, error: Array) -> Array:
    """The exact value `total + error` rounded to odd in float64.

    Pre: `error` is smaller than one unit in the last place of `total`. A NaN error means that `total` is not
    finite, and leaves it as it is.
    """
    bits = np.asarray(total).view(np.int64)
    inexact = np.abs(error) > 0  # false for NaN
    even = (bits & 1) == 0
    outward = (error > 0) == (total > 0)
    step = np.where(outward, 1, -1)
    return np.asarray(np.where(inexact & even, bits + step, bits)).view(np.float64)


def sum_to_odd(terms: Sequence[Array]) -> Array:
    """The exact sum of float64 `terms`, rounded to odd in float64.

    The terms are distilled into a non-overlapping expansion (Shewchuk 1997, Grow-Expansion), whose
    components are then added from the smallest to the largest, each time rounding to odd. Cost: quadratic
    in the number of terms. Zero results are +0.
    """
    expansion: list[Array] = [np.asarray(terms[0], np.float64)]
    for term in terms[1:]:
        grown = []
        carry = np.asarray(term, np.float64)
        for component in expansion:
            carry, error = two_sum(carry, component)
            grown.append(error)
        expansion = [*grown, carry]
    total = expansion[0]
    for component in expansion[1:]:
        total = to_odd(*two_sum(total, component))
    plain = np.asarray(terms[0], np.float64)
    for term in terms[1:]:
        plain = plain + term
    return np.where(np.isfinite(plain), total + 0.0, plain)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` of float32 arrays with one rounding to nearest even; subnormals are kept."""
    product = a.astype(np.float64) * b.astype(np.float64)  # 48 bits: exact
    addend = c.astype(np.float64)
    total = product + addend
    # A second rounding can only go wrong where the first ended half way between two float32 values.
    low = total.view(np.int64) & 0x1FFFFFFF
    suspect = (low == 0x10000000) | (np.abs(total) < 2.0**-125)
    if suspect.any():
        total, error = two_sum(product, addend)
        total = to_odd(total, error)
    return total.astype(np.float32)


def fma64_to(a: Array, b: Array, c: Array, dtype: type[np.floating[Any]]) -> Array:
    """`a * b + c` rounded once to `dtype` (float16 or float32), for operands of at most 24 significant
    bits."""
    product = a.astype(np.float64) * b.astype(np.float64)
    return to_odd(*two_sum(product, c.astype(np.float64))).astype(dtype)


def canonical(value: Array) -> Array:
    """The same values with every NaN replaced by the GPU's one NaN (0x7FFFFFFF in fp32, 0x7FFF in fp16)."""
    nan = value != value
    if not nan.any():
        return value
    if value.dtype == np.float32:
        return np.where(nan, NAN32, value.view(np.uint32)).view(np.float32)
    if value.dtype == np.float16:
        return np.where(nan, NAN16, value.view(np.uint16)).view(np.float16)
    return value


def flush(value: Array) -> Array:
    """`value` (float32) with subnormals replaced by zeros of the same sign, as `.ftz` does."""
    small = np.abs(value) < np.float32(2.0**-126)
    if not small.any():
        return value
    return np.where(small, np.copysign(np.float32(0), value), value)
