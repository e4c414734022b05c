"""What follows the product in the fast design of matmul, in float64 and with the error that it may make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.kernels import FastMatmulRequest

Values = NDArray[Any]

U16 = 2.0**-11
SUBNORMAL16 = 2.0**-25
U32 = 2.0**-24
APPROXIMATE = 2.0**-20
"""What the approximations of a GPU's functions may be off by, relative to their arguments and results."""


def finished(
    request: FastMatmulRequest,
    value: Values,
    bound: Values,
    values: Mapping[str, Values],
    alpha: float = 1.0,
    beta: float = 1.0,
) -> tuple[Values, Values]:
    """Return C before its last rounding, and the bound of its error, from the product and its bound."""
    if request.scale:
        value, bound = alpha * value, abs(alpha) * bound + U32 * np.abs(alpha * value)
    if request.bias:
        bias = beta * np.broadcast_to(values["bias"].astype(np.float64), value.shape)
        bound = bound + 2 * U32 * (np.abs(value) + np.abs(bias))
        value = value + bias
    if request.rounded and request.c_dtype != "float32":
        bound = bound + U16 * (np.abs(value) + bound) + SUBNORMAL16
    if request.epilogue != "none":
        result = request.expression.evaluate(value)
        off = [np.abs(request.expression.evaluate(value + side * bound) - result) for side in (-1, 1)]
        size = np.abs(result) * (1 + np.abs(value)) + np.abs(value)
        value, bound = result, np.maximum(*off) + APPROXIMATE * size
    if request.residual:
        residual = values["residual"].astype(np.float64)
        bound = bound + U32 * (np.abs(value) + np.abs(residual))
        value = value + residual
    return value, bound
