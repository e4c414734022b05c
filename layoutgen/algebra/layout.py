"""LinearLayout: a linear map over GF(2) from named hardware bits to named tensor dims.

The formalism is that of "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2"
(arXiv 2505.23819) and of Triton's own `LinearLayout`: the image of a hardware index is the exclusive or of
the bases of its set bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from layoutgen.algebra import gf2
from layoutgen.algebra.space import HARDWARE, Space
from layoutgen.errors import LayoutgenError

Bases = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class LinearLayout:
    """A linear map over GF(2) between two spaces, as one packed column per input bit.

    `columns[i]` is the image of input bit i, counted from the fastest bit of `domain`, packed in
    `codomain`. A zero column is a free bit: the layout replicates over it.

    >>> layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2))
    >>> layout(register=1, lane=3)
    (3, 1)
    >>> layout.invert()((3, 1))
    (0, 0, 3, 1)
    """

    domain: Space
    codomain: Space
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != self.domain.bits:
            raise LayoutgenError(
                f"layout: {len(self.columns)} columns for {self.domain.bits} bits of {self.domain}; one each is needed"
            )
        for position, column in enumerate(self.columns):
            if not 0 <= column < self.codomain.size:
                raise LayoutgenError(
                    f"layout: basis {self.domain.bit_name(position)} = {column} lies outside {self.codomain}"
                )

    # ---- construction

    @classmethod
    def from_bases(cls, bases: Bases, shape: Sequence[int] | Space) -> LinearLayout:
        """Build a layout from bases per hardware dim, low bit first, as Gluon writes them.

        `bases` lists its dims fastest first; the dims of HARDWARE that it leaves out have no bits.
        Raises LayoutgenError when a basis has the wrong rank or lies outside the shape.
        """
        codomain = shape if isinstance(shape, Space) else Space.of_shape(shape)
        unknown = [name for name in bases if name not in HARDWARE]
        if unknown:
            raise LayoutgenError(f"layout: unknown hardware dim {unknown[0]}; known are {', '.join(HARDWARE)}")
        columns: list[int] = []
        for name in HARDWARE:
            for bit, basis in enumerate(bases.get(name, ())):
                if len(basis) != len(codomain.dims):
                    raise LayoutgenError(
                        f"layout: basis {name}{bit} = {list(basis)} has {len(basis)} coordinates; "
                        f"shape {list(codomain.shape)} has {len(codomain.dims)}"
                    )
                columns.append(codomain.pack(basis))
        return cls(hardware_space({name: len(bases.get(name, ())) for name in HARDWARE}), codomain, tuple(columns))

    @classmethod
    def identity(cls, space: Space) -> LinearLayout:
        return cls(space, space, tuple(1 << bit for bit in range(space.bits)))

    # ---- reading

    @cached_property
    def bases(self) -> dict[str, list[list[int]]]:
        """Bases per input dim as coordinate lists, fastest dim first, low bit first."""
        result: dict[str, list[list[int]]] = {}
        for name, bits in reversed(self.domain.dims):
            start = self.domain.offsets[name]
            result[name] = [list(self.codomain.unpack(c)) for c in self.columns[start : start + bits]]
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codomain.shape

    def __call__(self, element: Sequence[int] | None = None, **coordinates: int) -> tuple[int, ...]:
        """Return the image of one element, given as a tuple or by name (what is left out is 0)."""
        if element is None:
            for name in coordinates:
                self.domain.bits_of(name)
            element = [coordinates.get(name, 0) for name in self.domain.names]
        return self.codomain.unpack(gf2.apply(self.columns, self.domain.pack(element)))

    def table(self) -> NDArray[np.int64]:
        """Return the packed images of all packed inputs, by doubling: one exclusive or per bit."""
        images = np.zeros(1, dtype=np.int64)
        for column in self.columns:
            images = np.concatenate([images, images ^ column])
        return images

    @cached_property
    def _echelon(self) -> gf2.Echelon:
        return gf2.echelon(self.columns)

    @property
    def rank(self) -> int:
        """Dimension of the image, in bits."""
        return self._echelon.rank

    @property
    def kernel(self) -> tuple[int, ...]:
        """Basis of the packed inputs that map to zero: the directions in which elements are replicated."""
        return self._echelon.kernel

    def preimage(self, packed: int) -> int | None:
        """Return the packed input that maps to a packed element and has the fewest, fastest bits, or None."""
        return self._echelon.preimage(packed)

    @property
    def free_bits(self) -> tuple[str, ...]:
        """Names of the input bits whose basis is zero, fastest first."""
        return tuple(self.domain.bit_name(i) for i, column in enumerate(self.columns) if column == 0)

    @property
    def is_injective(self) -> bool:
        return self.rank == self.domain.bits

    @property
    def is_surjective(self) -> bool:
        return self.rank == self.codomain.bits

    @property
    def is_bijective(self) -> bool:
        return self.is_injective and self.is_surjective

    # ---- the maps

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """Return self after `inner`. The dims of inner's codomain must equal those of self's domain."""
        if inner.codomain != self.domain:
            raise LayoutgenError(
                f"compose: the inner map ends in {inner.codomain}, the outer one starts from {self.domain}; "
                "they must be the same"
            )
        return LinearLayout(inner.domain, self.codomain, gf2.compose(self.columns, inner.columns))

    def invert(self) -> LinearLayout:
        """Return the inverse of a bijective layout.

        Raises LayoutgenError naming a vector of the kernel, or the missing bits, when there is none.
        """
        inverse = gf2.invert(self.columns, self.codomain.bits)
        if inverse is not None:
            return LinearLayout(self.codomain, self.domain, inverse)
        if self.kernel:
            element = dict(zip(self.domain.names, self.domain.unpack(self.kernel[0]), strict=True))
            at = ", ".join(f"{name} {value}" for name, value in reversed(element.items()) if value)
            raise LayoutgenError(f"invert: not injective: {at} maps to {self.codomain.unpack(0)}, as 0 does")
        raise LayoutgenError(
            f"invert: not surjective: rank {self.rank} of {self.codomain.bits} bits of {self.codomain}"
        )

    def reshape(self, shape: Sequence[int] | Space) -> LinearLayout:
        """Regroup the codomain row-major into another shape of the same size. Moves nothing."""
        codomain = shape if isinstance(shape, Space) else Space.of_shape(shape)
        if codomain.bits != self.codomain.bits:
            raise LayoutgenError(
                f"reshape: {list(self.shape)} has {self.codomain.size} elements, "
                f"{list(codomain.shape)} has {codomain.size}; they must be equal"
            )
        return LinearLayout(self.domain, codomain, self.columns)

    def permute(self, order: Sequence[int]) -> LinearLayout:
        """Permute the codomain's dims: dim i of the result is dim `order[i]` of self.

        The result's dims are named by position, as those of a tensor are.
        """
        dims = self.codomain.dims
        if sorted(order) != list(range(len(dims))):
            raise LayoutgenError(f"permute: order {list(order)} must name each of {len(dims)} dims once")
        codomain = Space(tuple((f"dim{i}", dims[source][1]) for i, source in enumerate(order)))
        columns = []
        for column in self.columns:
            coordinates = self.codomain.unpack(column)
            columns.append(codomain.pack([coordinates[source] for source in order]))
        return LinearLayout(self.domain, codomain, tuple(columns))

    def slice(self, dim: int) -> LinearLayout:
        """Project out one dim of the codomain, as Gluon's SliceLayout does; its bits become free."""
        if not 0 <= dim < len(self.codomain.dims):
            raise LayoutgenError(f"slice: dim {dim} of {list(self.shape)}: must lie in 0..{len(self.shape) - 1}")
        kept = [i for i in range(len(self.codomain.dims)) if i != dim]
        codomain = Space.of_shape([self.shape[i] for i in kept])
        columns = []
        for column in self.columns:
            coordinates = self.codomain.unpack(column)
            columns.append(codomain.pack([coordinates[i] for i in kept]))
        return LinearLayout(self.domain, codomain, tuple(columns))

    def shrink(self, shape: Sequence[int]) -> LinearLayout:
        """Keep the low bits of every dim, so that the codomain has the given, smaller shape.

        This is what Triton does with a layout that is larger than its tensor: a basis that reaches
        beyond the tensor is replaced by zero, and the tensor is replicated over that bit.
        """
        if len(shape) != len(self.shape) or any(new > old for new, old in zip(shape, self.shape, strict=True)):
            raise LayoutgenError(f"shrink: {list(self.shape)} to {list(shape)}: no dim may grow and the rank must stay")
        codomain = Space.of_shape(shape)
        columns = []
        for column in self.columns:
            coordinates = self.codomain.unpack(column)
            columns.append(codomain.pack([c & size - 1 for c, size in zip(coordinates, shape, strict=True)]))
        return LinearLayout(self.domain, codomain, tuple(columns))

    # ---- printing

    def __str__(self) -> str:
        lines = [f"{list(self.shape)}"]
        for name, bases in self.bases.items():
            lines.append(f"  {name:<9}" + " ".join("[" + ",".join(map(str, basis)) + "]" for basis in bases))
        return "\n".join(line.rstrip() for line in lines)


def hardware_space(bits: Mapping[str, int]) -> Space:
    """Return the hardware space with the given number of bits per dim; what is left out has none.

    >>> str(hardware_space({"register": 1, "lane": 5}))
    '(block: 1, warp: 1, lane: 32, register: 2)'
    """
    return Space(tuple((name, bits.get(name, 0)) for name in reversed(HARDWARE)))
