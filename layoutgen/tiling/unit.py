"""The unit: one atom with its free lane bits spent on rows and columns.

m8n8k4 leaves two lane bits free, so one instruction computes four independent products. An arrangement says
where these bits go: `m3,n3` puts the first on row bit 3 and the second on column bit 3, which tiles the
quadpairs 2x2 to 16x16. The atom's own bits keep their order and fill the positions that are left.
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
        m, n, k = self.atom.shape
        rows = sum(coordinate == "m" for _, coordinate, _ in self.places)
        return m << rows, n << len(self.places) - rows, k

    def formula(self, operand: str, coordinate: str) -> Formula:
        """Return the bits of one coordinate of one operand within the unit, low first."""
        bits = list(self.atom.fragment(operand).formula(coordinate))
        for name, _, position in sorted((p for p in self.places if p[1] == coordinate), key=lambda p: p[2]):
            bits.insert(position, (name,))
        return tuple(bits)

    def table(self, operand: str) -> LinearLayout:
        """Return the unit's fragment as a layout (register, lane) -> coordinates within the unit."""
        fragment = self.atom.fragment(operand)
        rows = tuple((c, self.formula(operand, c)) for c in fragment.coordinates)
        return formula_layout(fragment.register_names, self.atom.lane_names, rows)


def arrange(atom: Atom, arrangement: str | None = None) -> Unit:
    """Return the unit of an atom; without an arrangement, the one that the atom's table names.

    The arrangement is a comma-separated list with one entry per free lane bit, low first: m or n and the bit
    position within the unit. Raises LayoutgenError when an entry is malformed, or when the positions leave a gap.
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
        match = re.fullmatch(r"([mn])(\d+)", entry)
        if match is None:
            raise LayoutgenError(
                f"arrangement {text!r}: {entry!r} is not a row or column bit; for example {atom.arrangement!r}"
            )
        places.append((name, match[1], int(match[2])))
    unit = Unit(atom, tuple(places))
    for coordinate, size in zip("mn", unit.shape, strict=False):
        taken = [position for _, c, position in places if c == coordinate]
        limit = size.bit_length() - 1
        if len(set(taken)) != len(taken) or any(position >= limit for position in taken):
            raise LayoutgenError(
                f"arrangement {text!r}: {coordinate} has {limit} bits with it; its places must differ and lie in "
                f"{coordinate}0..{coordinate}{limit - 1}"
            )
    return unit
