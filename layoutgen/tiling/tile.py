"""The derivation: atom, block and warps -> accumulator and fragment layouts and their relabellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.space import is_power_of_two, nearest_power_of_two
from layoutgen.atoms import Atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.relabelling import Product, Relabelling
from layoutgen.tiling.unit import Unit, arrange


@dataclass(frozen=True)
class Tiling:
    """A block of units shared out among warps.

    `accumulator` maps (register, lane, warp) to [block_m, block_n]; `fragment_a` and `fragment_b` map the
    same hardware bits to one k-step of the operands, [block_m, k] and [block_n, k]. All three have the same
    domain, since register r of each goes to the instruction together. An operand that the unit cuts into parts
    (`unit.parts`) is given by its first part: the others hold the same rows and registers, further along k. With free
    lane bits on k the accumulator is [partial sums, block_m, block_n].

    >>> from layoutgen.atoms import atom
    >>> derive(atom("m8n8k4"), 64, 32, (4, 1)).shape
    (4, 2, 8, 2, 2, 2, 4)
    """

    unit: Unit
    block_m: int
    block_n: int
    warps: tuple[int, int]
    accumulator: LinearLayout
    fragment_a: LinearLayout
    fragment_b: LinearLayout

    @property
    def atom(self) -> Atom:
        return self.unit.atom

    @property
    def num_warps(self) -> int:
        return self.warps[0] * self.warps[1]

    @property
    def pack(self) -> int:
        """Accumulator elements of a thread that one instruction updates."""
        return self.atom.accumulator.elements

    @property
    def instructions(self) -> int:
        """Instructions a warp issues for one k-step of the block."""
        return self.block_m * self.block_n // (self.unit.shape[0] * self.unit.shape[1] * self.num_warps)

    @property
    def coordinates(self) -> str:
        """The letters of the accumulator's coordinates: mn, or smn when there are partial sums."""
        return "smn" if self.unit.partial_sums > 1 else "mn"

    def broadcasts(self, operand: str) -> tuple[str, ...]:
        """Return the names of the hardware bits over which operand a or b is broadcast, registers first.

        >>> from layoutgen.atoms import atom
        >>> derive(atom("m8n8k4"), 32, 32, (2, 1)).broadcasts("a")
        ('v2', 'nb0', 'q1')
        """
        order = hardware_order(self.unit, self.block_m, self.block_n, self.warps)
        names = [name for dim in ("register", "lane", "warp") for name in order[dim]]
        fragment = self.fragment_a if operand == "a" else self.fragment_b
        return tuple(name for name, column in zip(names, fragment.columns, strict=True) if column == 0)

    def operand(self, operand: str, block_k: int) -> LinearLayout:
        """Return a whole operand, all k-steps of it, as a thread holds it: [block_m or block_n, block_k].

        Registers are those of the fragment, then the k-steps, then the repeats. Raises LayoutgenError unless block_k is
        a power of two and at least one k-step.
        """
        if operand not in ("a", "b"):
            raise LayoutgenError(f"operand {operand}: a tiling has a and b")
        check_block("block_k", block_k, self.unit.shape[2], 1)
        axis, size = ("m", self.block_m) if operand == "a" else ("n", self.block_n)
        order = hardware_order(self.unit, self.block_m, self.block_n, self.warps)
        steps = (block_k // self.unit.shape[2]).bit_length() - 1
        registers = (
            *self.atom.fragment(operand).register_names,
            *(f"kb{i}" for i in range(steps)),
            *(name for name in order["register"] if name.startswith(f"{axis}b")),
        )
        return _place(self.unit, operand, {axis: size, "k": block_k}, {}, {**order, "register": registers})

    @cached_property
    def product(self) -> Product:
        """The product that the block computes, cut between units."""
        columns = self.block_n.bit_length() - 1
        unit_rows, unit_columns = (size.bit_length() - 1 for size in self.unit.shape[:2])
        cuts = frozenset({columns + unit_rows, unit_columns})
        return Product(self.accumulator, self.fragment_a, self.fragment_b, cuts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The accumulator's shape in which both operands are broadcasts along whole dims."""
        return self.product.shape

    @property
    def grouped(self) -> LinearLayout:
        """The accumulator in its grouped shape."""
        return self.product.grouped

    @property
    def relabel_a(self) -> Relabelling:
        return self.product.relabel_a

    @property
    def relabel_b(self) -> Relabelling:
        return self.product.relabel_b


def derive(atom: Atom, block_m: int, block_n: int, warps: tuple[int, int], arrangement: str | None = None) -> Tiling:
    """Derive the layouts of a [block_m, block_n] accumulator of units shared out among WM x WN warps.

    Registers take the atom's accumulator bits first, then the repeats along n, then those along m; warps take the
    low bits of the units along m, then of those along n. Raises LayoutgenError unless the sizes are powers of two
    and every warp owns at least one unit.
    """
    unit = arrange(atom, arrangement, partial_sums=True)
    check_block("block_m", block_m, unit.shape[0], warps[0])
    check_block("block_n", block_n, unit.shape[1], warps[1])
    order = hardware_order(unit, block_m, block_n, warps)
    accumulator_registers = atom.accumulator.register_names
    layouts = {}
    sums = {"s": unit.partial_sums} if unit.partial_sums > 1 else {}
    for operand, sizes in (
        ("accumulator", {**sums, "m": block_m, "n": block_n}),
        ("a", {"m": block_m, "k": unit.shape[2] // len(unit.parts("a"))}),
        ("b", {"n": block_n, "k": unit.shape[2] // len(unit.parts("b"))}),
    ):
        # The operand's own registers ride on the low accumulator registers; the others replicate it.
        alias = dict(zip(accumulator_registers, atom.fragment(operand).register_names, strict=False))
        layouts[operand] = _place(unit, operand, sizes, alias, order)
    return Tiling(unit, block_m, block_n, warps, layouts["accumulator"], layouts["a"], layouts["b"])


MAX_BLOCK = 1024
"""The largest block size that is derived: 32 warps of 32 rows. Larger ones fit no card."""


def check_block(name: str, block: int, unit: int, warps: int) -> None:
    """Refuse a block that the units and warps cannot tile."""
    if not is_power_of_two(warps) or warps > MAX_BLOCK:
        raise LayoutgenError(f"warps along {name}: {warps} is not a power of two; the nearest below is {_below(warps)}")
    least = unit * warps
    if not is_power_of_two(block) or not least <= block <= MAX_BLOCK:
        units = f"{warps} warps of units of {unit}"
        raise LayoutgenError(
            f"{name} = {block}: must be a power of two and at least {least} ({units}), at most {MAX_BLOCK}; "
            f"the nearest legal value is {nearest_power_of_two(block, least, MAX_BLOCK)}"
        )


def _below(value: int) -> int:
    return min(MAX_BLOCK, 1 << value.bit_length() - 1) if value > 0 else 1


def hardware_order(unit: Unit, block_m: int, block_n: int, warps: tuple[int, int]) -> dict[str, list[str]]:
    """Return the names of the bits of each hardware dim, low first.

    Names beyond the atom's are mb0, mb1, ... and nb0, nb1, ...: the bits of a unit's index in the block.
    """
    bits = {
        "mb": (block_m // unit.shape[0]).bit_length() - 1,
        "nb": (block_n // unit.shape[1]).bit_length() - 1,
    }
    warp_bits = {"mb": warps[0].bit_length() - 1, "nb": warps[1].bit_length() - 1}
    repeats = {axis: [f"{axis}{i}" for i in range(warp_bits[axis], bits[axis])] for axis in bits}
    shared = {axis: [f"{axis}{i}" for i in range(warp_bits[axis])] for axis in bits}
    return {
        "register": [*unit.atom.accumulator.register_names, *repeats["nb"], *repeats["mb"]],
        "lane": list(unit.atom.lane_names),
        "warp": [*shared["mb"], *shared["nb"]],
    }


def _place(
    unit: Unit,
    operand: str,
    sizes: Mapping[str, int],
    alias: Mapping[str, str],
    order: Mapping[str, Sequence[str]],
) -> LinearLayout:
    """Return one operand's layout over the hardware bits of the whole block; `alias` renames registers."""
    codomain = Space.of_shape(tuple(sizes.values()))
    image: dict[str, int] = {}
    for (coordinate, size), dim in zip(sizes.items(), codomain.names, strict=True):
        # The first part of an operand, if it is cut, has fewer bits of k than the unit.
        formula = unit.formula(operand, coordinate)[: size.bit_length() - 1]
        outer = [(f"{coordinate}b{i}",) for i in range(size.bit_length() - 1 - len(formula))]
        for position, terms in enumerate([*formula, *outer]):
            for term in terms:
                image[term] = image.get(term, 0) ^ 1 << codomain.offsets[dim] + position
    names = [name for dim in ("register", "lane", "warp") for name in order[dim]]
    columns = tuple(image.get(alias.get(name, name), 0) for name in names)
    return LinearLayout(hardware_space({dim: len(order[dim]) for dim in order}), codomain, columns)
