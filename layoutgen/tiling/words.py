"""Operands in the order in which they lie in memory, as 32-bit words.

An atom is taken in the form whose operands run, in a thread's registers, along what is contiguous in memory: along k,
or along the rows of A (the columns of B). Two neighbouring 16-bit elements of a register are then one word from the
load of a fragment to the instruction, and no thread ever takes a word apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from layoutgen.algebra import LinearLayout, Space
from layoutgen.algebra.operations import expand, rename_bits
from layoutgen.atoms import CATALOGUE, DTYPE_BYTES, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.relabelling import Product, Relabelling
from layoutgen.tiling.tile import Tiling, hardware_order

WORD_BYTES = 4
AXIS = {"a": "m", "b": "n"}


def runs_along(atom: Atom, operand: str) -> str:
    """Return the coordinate of which a thread holds neighbouring elements: k, or the operand's m or n.

    >>> from layoutgen.atoms import atom
    >>> runs_along(atom("m8n8k4"), "b"), runs_along(atom("m8n8k4.row.row"), "b")
    ('k', 'n')
    """
    fragment = atom.fragment(operand)
    for coordinate in fragment.coordinates:
        if fragment.formula(coordinate)[0] == (fragment.register_names[0],):
            return coordinate
    raise LayoutgenError(f"atom {atom.alias}: a thread holds no neighbouring elements of {operand}")


def oriented(atom: Atom, along_a: str, along_b: str) -> Atom:
    """Return the form of an atom whose operands run along the given coordinates.

    Raises LayoutgenError when the catalogue has none.

    >>> from layoutgen.atoms import atom
    >>> oriented(atom("m8n8k4"), "m", "k").alias
    'm8n8k4.col.col'
    """
    for other in CATALOGUE:
        same = (other.shape, other.lane, other.accumulator, other.operand_dtype, other.native) == (
            atom.shape,
            atom.lane,
            atom.accumulator,
            atom.operand_dtype,
            atom.native,
        )
        if same and (runs_along(other, "a"), runs_along(other, "b")) == (along_a, along_b):
            return other
    raise LayoutgenError(
        f"atom {atom.alias}: the catalogue has no form of it with neighbours of A along {along_a} and of B along "
        f"{along_b} in a thread's registers; take design simple"
    )


def gather_neighbours(tiling: Tiling, operand: str, vector: int) -> Tiling:
    """Rename the rows of A (columns of B) so that a thread's registers hold `vector` neighbouring ones.

    The rows of a product may come in any order; so the bits that lie in registers are called the low ones. Raises
    LayoutgenError when a thread has fewer.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> tiling = derive(atom("m8n8k4.row.row"), 16, 64, (1, 2), "m2,n2")
    >>> gather_neighbours(tiling, "b", 8).fragment_b.bases["register"]
    [[1, 0], [2, 0], [0, 0], [4, 0]]
    """
    fragment = tiling.fragment_a if operand == "a" else tiling.fragment_b
    order = hardware_order(tiling.unit, tiling.block_m, tiling.block_n, tiling.warps)
    registers = len(order["register"])
    k_bits = fragment.codomain.bits_of("dim1")
    held = sorted((column >> k_bits).bit_length() - 1 for column in fragment.columns[:registers] if column >> k_bits)
    first = held[: vector.bit_length() - 1]
    if 1 << len(first) < vector:
        raise LayoutgenError(
            f"block_{AXIS[operand]} = {fragment.shape[0]}: a thread holds {1 << len(held)} neighbours of {operand}, "
            f"and whole vectors need {vector}; the nearest legal value is {fragment.shape[0] * vector >> len(held)}"
        )
    others = [bit for bit in range(fragment.codomain.bits_of("dim0")) if bit not in first]
    place = {bit: position for position, bit in enumerate([*first, *others])}
    renamed = tuple(place[bit] for bit in range(len(place)))
    accumulator = rename_bits(tiling.accumulator, "dim0" if operand == "a" else "dim1", renamed)
    if operand == "a":
        return replace(tiling, accumulator=accumulator, fragment_a=rename_bits(fragment, "dim0", renamed))
    return replace(tiling, accumulator=accumulator, fragment_b=rename_bits(fragment, "dim0", renamed))


def paired(layout: LinearLayout) -> LinearLayout:
    """Return a layout of 16-bit elements as one of words: without the coordinate bit that register 0 alone moves.

    >>> elements = LinearLayout.from_bases({"register": [[0, 1], [0, 2]], "lane": [[1, 0]]}, (2, 4))
    >>> paired(elements).bases["register"], paired(elements).shape
    ([[0, 0], [0, 1]], (2, 2))
    """
    low = layout.columns[0]
    position = low.bit_length() - 1
    name = next((n for n in layout.codomain.names if layout.codomain.offsets[n] == position), None)
    if low != 1 << position or name is None or any(column & low for column in layout.columns[1:]):
        raise LayoutgenError("words: register 0 must move the lowest bit of one coordinate, and no other bit may")
    shape = [size >> (dim == name) for dim, size in zip(layout.codomain.names, layout.shape, strict=True)]
    below = low - 1
    columns = (0, *(column >> position + 1 << position | column & below for column in layout.columns[1:]))
    return LinearLayout(layout.domain, Space.of_shape(shape), columns)


def deepened(fragment: LinearLayout, steps: int) -> LinearLayout:
    """Return what a thread fetches of `steps` k-steps at once, [rows, steps * k]: the steps are the highest registers.

    >>> deepened(LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2)), 2).bases["register"]
    [[0, 1], [0, 2]]
    """
    rows, k = fragment.shape
    return expand(fragment, (rows, k * steps))


@dataclass(frozen=True)
class Words:
    """A tiling whose operands are handed over as words. `fragment` gives one k-step of an operand.

    The accumulator is cut into dims along which these are broadcasts: `shape` and `grouped`.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> Words(derive(atom("m8n8k4"), 16, 16, (1, 1))).fragment("a").shape
    (16, 2)
    """

    tiling: Tiling

    def __post_init__(self) -> None:
        if DTYPE_BYTES[self.tiling.atom.operand_dtype] * 2 != WORD_BYTES:
            raise LayoutgenError(f"words: {self.tiling.atom.alias} takes {self.tiling.atom.operand_dtype}, not 16 bits")

    @cached_property
    def product(self) -> Product:
        """The tiling's product with words for operands, cut nowhere but where these demand it."""
        tiling = self.tiling
        return Product(tiling.accumulator, paired(tiling.fragment_a), paired(tiling.fragment_b), frozenset())

    def fragment(self, operand: str) -> LinearLayout:
        """One k-step of operand a or b, [rows, k] with the pairs counted once; copies in registers included."""
        return {"a": self.product.fragment_a, "b": self.product.fragment_b}[operand]

    def relabelling(self, operand: str) -> Relabelling:
        """How the words of one k-step become a broadcast operand."""
        return self.product.relabel_a if operand == "a" else self.product.relabel_b

    @property
    def shape(self) -> tuple[int, ...]:
        return self.product.shape

    @property
    def grouped(self) -> LinearLayout:
        return self.product.grouped
