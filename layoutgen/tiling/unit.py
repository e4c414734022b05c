"""The unit: one atom with its free lane bits spent on rows and columns.

m8n8k4 leaves two lane bits free, so one instruction computes four independent products. An arrangement says
where these bits go: `m3,n3` puts the first on row bit 3 and the second on column bit 3, which tiles the
quadpairs 2x2 to 16x16. The atom's own bits keep their order and fill the positions that are left. A bit on k, as in
`k2,m3`, lets the products share rows and columns and take different k: each accumulator element then exists once per
product, as a partial sum.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import Atom
from layoutgen.atoms.atom import formula_layout
from layoutgen.errors import LayoutgenError

Formula = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Unit:
    """An atom and the place of each of its free lane bits: (free bit, coordinate, bit position).

    >>> from layoutgen.atoms import atom
    >>> arrange(atom("m8n8k4")).shape
    (16, 16, 4)
    """

    atom: Atom
    places: tuple[tuple[str, str, int], ...]

    @property
    def arrangement(self) -> str:
        return ",".join(f"{coordinate}{position}" for _, coordinate, position in self.places)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and k of the product that one instruction of one warp computes."""
        m, n, k = (size << len(self.placed(axis)) for axis, size in zip("mnk", self.atom.shape, strict=True))
        return m, n, k

    def placed(self, coordinate: str) -> tuple[str, ...]:
        """Return the free lane bits on one coordinate, lowest position first."""
        return tuple(name for name, c, _ in sorted(self.places, key=lambda place: place[2]) if c == coordinate)

    @property
    def partial_sums(self) -> int:
        """How many partial sums of each accumulator element there are: 1 unless free lane bits lie on k."""
        return 1 << len(self.placed("k"))

    def parts(self, operand: str) -> tuple[int, ...]:
        """Return the first k of each part of an operand that holds more registers than there are accumulators.

        Register r of every operand goes to the instruction together with accumulator r, so such an operand is handed
        over in parts, which differ in its highest registers; these must be its highest k. Otherwise there is one part.

        >>> from layoutgen.atoms import atom
        >>> arrange(atom("m16n8k16")).parts("a")
        (0, 8)
        """
        extra = self.atom.parts(operand).bit_length() - 1
        if extra == 0:
            return (0,)
        formula = self.formula(operand, "k")
        registers = self.atom.fragment(operand).register_names[-extra:]
        if formula[len(formula) - extra :] != tuple((name,) for name in registers):
            raise LayoutgenError(
                f"arrangement {self.arrangement!r} of {self.atom.name}: {operand} holds {self.atom.parts(operand)} "
                f"registers per accumulator, so that registers {' '.join(registers)} must be its highest k"
            )
        return tuple(range(0, 1 << len(formula), 1 << len(formula) - extra))

    def formula(self, operand: str, coordinate: str) -> Formula:
        """Return the bits of one coordinate of one operand within the unit, low first.

        Coordinate s of the accumulator numbers the partial sums.
        """
        if coordinate == "s":
            return tuple((name,) for name in self.placed("k"))
        bits = list(self.atom.fragment(operand).formula(coordinate))
        for name, _, position in sorted((p for p in self.places if p[1] == coordinate), key=lambda p: p[2]):
            bits.insert(position, (name,))
        return tuple(bits)

    def table(self, operand: str) -> LinearLayout:
        """Return the unit's fragment as a layout (register, lane) -> coordinates within the unit."""
        fragment = self.atom.fragment(operand)
        sums = ("s",) if operand == "accumulator" and self.partial_sums > 1 else ()
        rows = tuple((c, self.formula(operand, c)) for c in (*sums, *fragment.coordinates))
        return formula_layout(fragment.register_names, self.atom.lane_names, rows)


def arrange(atom: Atom, arrangement: str | None = None, partial_sums: bool = False) -> Unit:
    """Return the unit of an atom; without an arrangement, the one that the atom's table names.

    The arrangement is a comma-separated list with one entry per free lane bit, low first: m, n or k and the bit
    position within the unit. k is for callers that add up `partial_sums`. Raises LayoutgenError when an entry is
    malformed, or when the positions leave a gap.
    """
    text = atom.arrangement if arrangement is None else arrangement
    entries = [entry for entry in text.split(",") if entry]
    free = atom.free_lane_bits
    if len(entries) != len(free):
        raise LayoutgenError(
            f"arrangement {text!r}: {len(entries)} places for the {len(free)} free lane bits of {atom.alias} "
            f"({' '.join(free)}); for example {atom.arrangement!r}"
        )
    places = []
    for name, entry in zip(free, entries, strict=True):
        match = re.fullmatch(r"([mnk])(\d{1,2})", entry)
        if match is None:
            raise LayoutgenError(
                f"arrangement {text!r}: {entry!r} is not a row, column or k bit; for example {atom.arrangement!r}"
            )
        if match[1] == "k" and not partial_sums:
            raise LayoutgenError(
                f"arrangement {text!r}: {entry!r} makes partial sums, which nothing here adds up; use row and column "
                f"bits, for example {atom.arrangement!r}"
            )
        places.append((name, match[1], int(match[2])))
    unit = Unit(atom, tuple(places))
    for coordinate, size in zip("mnk", unit.shape, strict=True):
        taken = [position for _, c, position in places if c == coordinate]
        limit = size.bit_length() - 1
        if len(set(taken)) != len(taken) or any(position >= limit for position in taken):
            raise LayoutgenError(
                f"arrangement {text!r}: {coordinate} has {limit} bits with it; its places must differ and lie in "
                f"{coordinate}0..{coordinate}{limit - 1}"
            )
    return unit
