"""The approximate functions of the special-function unit, modelled as correctly rounded.

The hardware's bits are not public. Each function is computed in float64 and rounded once to float32, which
lies within the error that the PTX ISA allows; PTX and machine code use the same model, so that both can be
compared bit for bit. Arguments and results are float32 arrays; flushing of subnormals is the caller's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _wide(function: Any) -> Any:
    def evaluate(value: Array) -> Array:
        result: Array = function(value.astype(np.float64)).astype(np.float32)
        return result

    return evaluate


exp2 = _wide(np.exp2)
log2 = _wide(np.log2)
sine = _wide(np.sin)
cosine = _wide(np.cos)
tangent_hyperbolic = _wide(np.tanh)
square_root = _wide(np.sqrt)
reciprocal = _wide(np.reciprocal)
reciprocal_square_root = _wide(lambda value: 1.0 / np.sqrt(value))


def divide_full(a: Array, b: Array) -> Array:
    """div.full.f32: a times the rounded reciprocal of b, both scaled where the reciprocal would be
    subnormal or overflow (PTX ISA: at most 2 units in the last place over the full range)."""
    size = np.abs(b)
    scale = np.where(size > np.float32(2.0**126), np.float32(0.25), np.float32(1))
    scale = np.where(size < np.float32(2.0**-126), np.float32(2.0**24), scale)
    inverse: Array = reciprocal(b * scale)
    return (a * scale) * inverse
