"""What an atom is: one MMA instruction as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.space import LANE_BITS, log2
from layoutgen.errors import LayoutgenError

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Fragment:
    """One operand's fragment table: which element each register of each lane holds.

    `registers` names the bits of the element index within a thread, low bit first. `rows` gives, for each
    of the operand's two coordinates, its bits (low first) as names of lane and register bits; several names
    joined by ^ are added over GF(2). This is the ISA's formula for the coordinate, read bit by bit:
    "m = a0 + 2 v1 + 4 b" is ("m", "a0 v1 b").
    """

    registers: str
    rows: tuple[tuple[str, str], ...]
    dtype: str

    @property
    def register_names(self) -> tuple[str, ...]:
        return tuple(self.registers.split())

    @property
    def coordinates(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.rows)

    def formula(self, coordinate: str) -> tuple[tuple[str, ...], ...]:
        """Return the bits of one coordinate, low first, each as the names that are added up."""
        for name, row in self.rows:
            if name == coordinate:
                return tuple(tuple(bit.split("^")) for bit in row.split())
        raise LayoutgenError(f"fragment: has no coordinate {coordinate}; it has {', '.join(self.coordinates)}")

    @property
    def elements(self) -> int:
        """Elements a thread holds."""
        return 1 << len(self.register_names)

    @property
    def words(self) -> int:
        """32-bit registers a thread spends on the fragment."""
        return self.elements * DTYPE_BYTES[self.dtype] // 4


@dataclass(frozen=True)
class Atom:
    """One MMA instruction: its PTX text, its shape, and the fragment tables of its three operands.

    Invariants, checked here: each coordinate has as many bits as the shape asks for and names only bits
    that exist, the accumulator owns each of its elements once per value of the free lane bits, and no
    operand depends on a free lane bit. A free lane bit is one that no fragment uses: the instruction
    computes that many independent products at once (the quadpairs of m8n8k4).
    """

    name: str
    alias: str
    instruction: str
    shape: tuple[int, int, int]
    lane: str
    a: Fragment
    b: Fragment
    accumulator: Fragment
    arrangement: str
    native: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        if len(self.lane_names) != LANE_BITS:
            raise LayoutgenError(f"atom {self.name}: {len(self.lane_names)} lane bits; a warp has {LANE_BITS}")
        sizes = dict(zip("mnk", self.shape, strict=True))
        for operand, expected in (("a", ("m", "k")), ("b", ("n", "k")), ("accumulator", ("m", "n"))):
            fragment = self.fragment(operand)
            if fragment.coordinates != expected:
                raise LayoutgenError(
                    f"atom {self.name}: {operand} has coordinates {fragment.coordinates}, not {expected}"
                )
            known = {*self.lane_names, *fragment.register_names}
            for coordinate in expected:
                formula = fragment.formula(coordinate)
                if len(formula) != log2(sizes[coordinate], f"atom {self.name}: {coordinate}"):
                    raise LayoutgenError(
                        f"atom {self.name}: {coordinate} of {operand} has {len(formula)} bits; "
                        f"a size of {sizes[coordinate]} needs {log2(sizes[coordinate], coordinate)}"
                    )
                unknown = [name for bit in formula for name in bit if name not in known]
                if unknown:
                    raise LayoutgenError(
                        f"atom {self.name}: {coordinate} of {operand} names {unknown[0]}, which is neither a lane bit "
                        f"({self.lane}) nor a register bit ({fragment.registers})"
                    )
            table = self.table(operand)
            if not table.is_surjective:
                raise LayoutgenError(
                    f"atom {self.name}: {operand} reaches 2^{table.rank} of its {table.codomain.size} elements"
                )
        if self.a.dtype != self.b.dtype:
            raise LayoutgenError(
                f"atom {self.name}: operands of {self.a.dtype} and {self.b.dtype}; both must be the same"
            )
        if len(self.table("accumulator").kernel) != len(self.free_lane_bits):
            raise LayoutgenError(f"atom {self.name}: an accumulator element has more than one owner")

    def fragment(self, operand: str) -> Fragment:
        """Return the fragment of operand a, b or accumulator."""
        if operand not in ("a", "b", "accumulator"):
            raise LayoutgenError(f"operand {operand}: an atom has a, b and accumulator")
        fragment: Fragment = getattr(self, operand)
        return fragment

    @property
    def lane_names(self) -> tuple[str, ...]:
        return tuple(self.lane.split())

    @cached_property
    def free_lane_bits(self) -> tuple[str, ...]:
        """Lane bits that no fragment depends on, low first."""
        used = {
            name
            for operand in ("a", "b", "accumulator")
            for coordinate in self.fragment(operand).coordinates
            for bit in self.fragment(operand).formula(coordinate)
            for name in bit
        }
        return tuple(name for name in self.lane_names if name not in used)

    def parts(self, operand: str) -> int:
        """Return how many times as many elements of an operand as accumulators a thread holds, at least 1."""
        return max(1, self.fragment(operand).elements // self.accumulator.elements)

    @property
    def operand_dtype(self) -> str:
        return self.a.dtype

    def table(self, operand: str) -> LinearLayout:
        """Return the fragment table of operand a, b or accumulator as a layout (register, lane) -> coordinates."""
        fragment = self.fragment(operand)
        return formula_layout(
            fragment.register_names, self.lane_names, tuple((c, fragment.formula(c)) for c in fragment.coordinates)
        )

    def __str__(self) -> str:
        return self.name


def formula_layout(
    registers: Sequence[str], lanes: Sequence[str], rows: Sequence[tuple[str, tuple[tuple[str, ...], ...]]]
) -> LinearLayout:
    """Return the layout of named register and lane bits that coordinate formulas describe."""
    names = [*registers, *lanes]
    codomain = Space(tuple((coordinate, len(bits)) for coordinate, bits in rows))
    columns = [0] * len(names)
    for coordinate, bits in rows:
        for position, terms in enumerate(bits):
            for term in terms:
                columns[names.index(term)] ^= 1 << codomain.offsets[coordinate] + position
    domain = hardware_space({"register": len(registers), "lane": len(lanes)})
    return LinearLayout(domain, codomain, tuple(columns))
