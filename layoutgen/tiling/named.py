"""Derived layouts by name, and what they say about single elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layoutgen.algebra import LinearLayout, gf2
from layoutgen.errors import LayoutgenError
from layoutgen.tiling.tile import Tiling

NAMES = ("accumulator", "grouped", "fragment_a", "fragment_b", "operand_a", "operand_b")


def named_layout(tiling: Tiling, name: str, block_k: int | None = None) -> LinearLayout:
    """Return a layout of a tiling by name; `operand_a` and `operand_b` cover all k-steps of `block_k`.

    Without `block_k` an operand is as deep as the accumulator is wide, which is what a second product takes.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> named_layout(derive(atom("m8n8k4"), 16, 32, (1, 1)), "operand_a").shape
    (16, 32)
    """
    if name in ("operand_a", "operand_b"):
        return tiling.operand(name[-1], block_k or tiling.block_n)
    if name not in NAMES:
        raise LayoutgenError(f"layout {name!r}: not a derived one; these are {', '.join(NAMES)}")
    layout: LinearLayout = getattr(tiling, name)
    return layout


@dataclass(frozen=True)
class Holding:
    """One element and one of the places that hold it."""

    element: tuple[int, ...]
    place: Mapping[str, int]

    def row(self, names: Sequence[str]) -> dict[str, int]:
        """Return the hardware index, then the element's coordinates under their `names`, as one flat row of a table.

        >>> Holding((3, 9), {"register": 3, "lane": 9}).row("mn")
        {'register': 3, 'lane': 9, 'm': 3, 'n': 9}
        """
        return {**self.place, **dict(zip(names, self.element, strict=True))}


def where(layout: LinearLayout, element: tuple[int, ...]) -> list[Holding]:
    """Return every place that holds an element, lowest hardware index first.

    >>> layout = LinearLayout.from_bases({"register": [[1]], "lane": [[2], [0]]}, (4,))
    >>> [dict(holding.place) for holding in where(layout, (3,))]
    [{'register': 1, 'lane': 1}, {'register': 1, 'lane': 3}]
    """
    owner = layout.preimage(layout.codomain.pack(element))
    if owner is None:
        return []
    kernel = layout.kernel
    owners = sorted(owner ^ gf2.apply(kernel, choice) for choice in range(1 << len(kernel)))
    return [Holding(element, _place(layout, packed)) for packed in owners]


def what(layout: LinearLayout, place: Mapping[str, int]) -> list[Holding]:
    """Return what is held at a place; a hardware dim that is left out stands for all of its values.

    >>> layout = LinearLayout.from_bases({"register": [[1]], "lane": [[2], [0]]}, (4,))
    >>> [holding.element for holding in what(layout, {"lane": 1})]
    [(2,), (3,)]
    """
    for name, value in place.items():
        size = 1 << layout.domain.bits_of(name)
        if not 0 <= value < size:
            raise LayoutgenError(f"what: {name} {value} must lie in 0..{size - 1}")
    holdings = []
    for packed in range(layout.domain.size):
        found = _place(layout, packed)
        full = dict(zip(layout.domain.names, layout.domain.unpack(packed), strict=True))
        if all(full[name] == value for name, value in place.items()):
            holdings.append(Holding(layout(tuple(full.values())), found))
    return holdings


def _place(layout: LinearLayout, packed: int) -> dict[str, int]:
    """Return a hardware index by name, fastest dim first, without dims of one value."""
    values = zip(layout.domain.dims, layout.domain.unpack(packed), strict=True)
    return {name: value for (name, bits), value in reversed(list(values)) if bits}
