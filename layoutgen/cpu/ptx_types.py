"""The fundamental types of PTX and the NumPy types that hold them (PTX ISA, "Fundamental Types")."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

BITS: dict[str, int] = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "pred": 1,
}  # fmt: skip

_UNSIGNED: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}


def storage(bits: int) -> Any:
    """The NumPy type that a register of `bits` bits is kept in: unsigned, or bool for a predicate."""
    return _UNSIGNED[bits]


def numpy_type(name: str) -> Any:
    """The NumPy type in which PTX type `name` is computed. bf16 and the packed types are bit patterns."""
    bits = BITS[name]
    if name[0] == "s":
        return _SIGNED[bits]
    if name in ("f16", "f32", "f64"):
        return _FLOAT[bits]
    return _UNSIGNED[bits]


def is_float(name: str) -> bool:
    """Whether `name` is one of f16, bf16, f32, f64."""
    return name in ("f16", "bf16", "f32", "f64")


def is_signed(name: str) -> bool:
    """Whether `name` is a signed integer type."""
    return name[0] == "s"


def resize(value: Array, bits: int) -> Array:
    """A register's bits cut or zero-extended to `bits` bits."""
    want: DTypeLike = _UNSIGNED[bits]
    return value if value.dtype == want else value.astype(want)
