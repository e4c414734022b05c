"""What the requests of all kernel families share: checks and the launch of a kernel, described without arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutgen.algebra.space import is_power_of_two, nearest_power_of_two
from layoutgen.atoms import Atom, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.tile import MAX_BLOCK

STATISTICS_DTYPE = "float32"
"""What every kernel accumulates in."""


@dataclass(frozen=True)
class Array:
    """Shape, strides (in elements) and dtype of one launch argument; address 0 stands for a 256-byte aligned one."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int = 0

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Return one stride, or all of them, as torch does."""
        return self.strides if dim is None else self.strides[dim]

    def data_ptr(self) -> int:
        return self.address


def contiguous(shape: Sequence[int], dtype: str) -> Array:
    """Return a row-major array, with torch's strides, which are never 0.

    >>> contiguous((2, 3), "float16").strides, contiguous((2, 0, 3), "float16").strides
    ((3, 1), (3, 3, 1))
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return Array(tuple(shape), tuple(reversed(strides)), dtype)


def parse_warps(text: str) -> tuple[int, int]:
    """Read warps written as WMxWN.

    >>> parse_warps("4x1")
    (4, 1)
    """
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise LayoutgenError(f"warps {text!r}: must be written WMxWN, for example 4x1")
    return int(parts[0]), int(parts[1])


def float_atom(name: str) -> Atom:
    """Return an atom that kernels can be built from: one that accumulates in float32."""
    found = atom(name)
    if found.accumulator.dtype != STATISTICS_DTYPE:
        raise LayoutgenError(
            f"atom {found.name} accumulates in {found.accumulator.dtype}; kernels need {STATISTICS_DTYPE}"
        )
    for operand in ("a", "b"):
        if found.parts(operand) > 1:
            raise LayoutgenError(
                f"atom {found.name}: {operand} comes in {found.parts(operand)} parts; kernels need operands of one part"
            )
    return found


def check_power_of_two(name: str, value: int, least: int, what: str) -> None:
    """Refuse a block size that is no power of two, less than `least`, which is `what`, or larger than any block."""
    if not is_power_of_two(value) or not least <= value <= MAX_BLOCK:
        raise LayoutgenError(
            f"{name} = {value}: must be a power of two and at least {least}, {what}, at most {MAX_BLOCK}; "
            f"the nearest legal value is {nearest_power_of_two(value, least, MAX_BLOCK)}"
        )


def check_shape(shape: Sequence[int], letters: str) -> None:
    """Refuse a launch shape that does not have one size of at least 0 per letter, as in "Z,M,N,K"."""
    names = letters.split(",")
    if len(shape) != len(names):
        given = ",".join(map(str, shape))
        raise LayoutgenError(
            f"shape {given}: must be {letters}, {len(names)} sizes; for example {','.join('1' * len(names))}"
        )
    for name, size in zip(names, shape, strict=True):
        if size < 0:
            raise LayoutgenError(f"shape: {name} = {size}: must be 0 or more")
