"""Named spaces of bits: the domain and the codomain of a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from layoutgen.errors import LayoutgenError

HARDWARE = ("register", "lane", "warp", "block")
"""The hardware dims, fastest first, as Triton and the linear-layouts paper list them."""
LANE_BITS = 5
LANES = 1 << LANE_BITS
"""The threads of a warp."""


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def nearest_power_of_two(value: int, least: int, most: int) -> int:
    """Return the power of two between two of them that is nearest to a value.

    >>> nearest_power_of_two(63, 16, 1024), nearest_power_of_two(3, 16, 1024)
    (64, 16)
    """
    below = 1 << max(value, 1).bit_length() - 1
    near = below if value - below <= 2 * below - value else 2 * below
    return min(max(near, least), most)


def log2(value: int, what: str) -> int:
    """Return log2 of a power of two; `what` names it in the error.

    >>> log2(8, "warps")
    3
    """
    if not is_power_of_two(value):
        nearest = 1 << max(value - 1, 0).bit_length() if value > 0 else 1
        raise LayoutgenError(f"{what} = {value}: must be a power of two; the nearest above is {nearest}")
    return value.bit_length() - 1


@dataclass(frozen=True)
class Space:
    """A product of named dims, each 2^bits long, listed slowest first like a shape.

    An element is a tuple of coordinates in the order of `dims`, or one packed integer: the row-major
    index, so that the last dim holds the lowest bits. Regrouping the bits into other dims therefore
    leaves packed integers unchanged, which is why a reshape never moves data.

    >>> Space.of_shape((4, 8)).pack((1, 3))
    11
    >>> Space.of_shape((4, 8)).unpack(11)
    (1, 3)
    """

    dims: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.dims]
        if len(set(names)) != len(names):
            raise LayoutgenError(f"space {names}: every dim needs a name of its own")
        for name, bits in self.dims:
            if bits < 0:
                raise LayoutgenError(f"space: dim {name} has {bits} bits; a dim has 0 or more")

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> Space:
        """Return the space of a tensor shape; its dims are named dim0, dim1, ... as Triton does."""
        return cls(tuple((f"dim{i}", log2(size, f"shape {list(shape)}: dim{i}")) for i, size in enumerate(shape)))

    @classmethod
    def of_sizes(cls, sizes: Mapping[str, int]) -> Space:
        """Return a space from name -> size, slowest first."""
        return cls(tuple((name, log2(size, name)) for name, size in sizes.items()))

    @cached_property
    def bits(self) -> int:
        return sum(bits for _, bits in self.dims)

    @property
    def size(self) -> int:
        return 1 << self.bits

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.dims)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 << bits for _, bits in self.dims)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Name -> position of the dim's lowest bit in a packed integer."""
        offsets: dict[str, int] = {}
        position = self.bits
        for name, bits in self.dims:
            position -= bits
            offsets[name] = position
        return offsets

    def bits_of(self, name: str) -> int:
        """Return how many bits the dim `name` has."""
        for dim, bits in self.dims:
            if dim == name:
                return bits
        raise LayoutgenError(f"space {self}: has no dim {name}; it has {', '.join(self.names) or 'none'}")

    def pack(self, coordinates: Sequence[int]) -> int:
        """Return the packed integer of coordinates given in the order of `dims`."""
        if len(coordinates) != len(self.dims):
            raise LayoutgenError(f"element {tuple(coordinates)}: space {self} has {len(self.dims)} dims")
        packed = 0
        for coordinate, (name, bits) in zip(coordinates, self.dims, strict=True):
            if not 0 <= coordinate < 1 << bits:
                raise LayoutgenError(f"element {tuple(coordinates)}: {name} must lie in 0..{(1 << bits) - 1}")
            packed = packed << bits | coordinate
        return packed

    def unpack(self, packed: int) -> tuple[int, ...]:
        """Return the coordinates of a packed integer, in the order of `dims`."""
        if not 0 <= packed < self.size:
            raise LayoutgenError(f"packed element {packed}: space {self} has {self.size} elements")
        return tuple(packed >> self.offsets[name] & (1 << bits) - 1 for name, bits in self.dims)

    def bit_name(self, position: int) -> str:
        """Return the name of one bit of a packed integer, for example lane2.

        >>> Space.of_sizes({"lane": 32, "register": 8}).bit_name(3)
        'lane0'
        """
        for name, bits in reversed(self.dims):
            if position < bits:
                return f"{name}{position}"
            position -= bits
        raise LayoutgenError(f"space {self}: has no bit {position + self.bits}")

    def __str__(self) -> str:
        return "(" + ", ".join(f"{name}: {1 << bits}" for name, bits in self.dims) + ")"
