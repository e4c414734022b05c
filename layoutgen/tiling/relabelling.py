"""How a loaded fragment is relabelled to accumulator coordinates, so that it becomes a broadcast operand.

An elementwise operation hands register r of every operand to the instruction together. So operand element
F(h) and accumulator element L(h), held by the same hardware index h, get the same coordinate: the operand, seen
in accumulator coordinates, is R = F L^-1. When R selects every operand bit from one accumulator bit, a
reshape, a permutation and a reshape express it, no datum moves, and the operand is a broadcast over all the
accumulator bits that R does not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from layoutgen.algebra import LinearLayout, Space
from layoutgen.errors import LayoutgenError


@dataclass(frozen=True)
class Relabelling:
    """fragment.reshape(split).permute(order).reshape(shape) is the broadcast operand."""

    split: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def apply(self, fragment: LinearLayout) -> LinearLayout:
        """Return the layout of the relabelled operand."""
        return fragment.reshape(self.split).permute(self.order).reshape(self.shape)


def coordinate_map(accumulator: LinearLayout, fragment: LinearLayout) -> LinearLayout:
    """Return R = F L^-1: accumulator coordinates -> operand coordinates."""
    return fragment.compose(accumulator.invert())


def selected_bits(coordinate_map: LinearLayout) -> tuple[int | None, ...]:
    """Return, for each accumulator bit, fastest first, the operand bit that it carries, or None.

    Raises LayoutgenError naming the offending accumulator bit when the map is no selection: when one bit feeds
    two operand bits, or two bits feed the same one. Then the operand is not a broadcast.
    """
    selected: list[int | None] = []
    for position, column in enumerate(coordinate_map.columns):
        name = coordinate_map.domain.bit_name(position)
        if column == 0:
            selected.append(None)
        elif column & (column - 1):
            raise LayoutgenError(
                f"relabelling: accumulator bit {name} feeds several operand bits; no reshape does that"
            )
        elif column.bit_length() - 1 in selected:
            raise LayoutgenError(
                f"relabelling: accumulator bit {name} feeds operand bit "
                f"{coordinate_map.codomain.bit_name(column.bit_length() - 1)}, which another one already feeds"
            )
        else:
            selected.append(column.bit_length() - 1)
    return tuple(selected)


def relabel(selected: tuple[int | None, ...], operand: Space, grouping: Space) -> Relabelling:
    """Return the relabelling that a selection describes.

    `selected` is per accumulator bit, fastest first; `grouping` is the accumulator's grouped shape. Runs of
    neighbouring operand bits stay together, so that the emitted reshape is as short as it can be.
    """
    order = [bit for bit in reversed(selected) if bit is not None]
    runs: list[list[int]] = []
    for bit in order:
        if runs and runs[-1][-1] == bit + 1:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    split = sorted(runs, key=lambda run: -run[0])
    if sum(len(run) for run in runs) != operand.bits:
        raise LayoutgenError(f"relabelling: {sum(map(len, runs))} of the operand's {operand.bits} bits are carried")
    shape = []
    for name, bits in grouping.dims:
        start = grouping.offsets[name]
        shape.append(1 << sum(selected[i] is not None for i in range(start, start + bits)))
    return Relabelling(
        split=tuple(1 << len(run) for run in split),
        order=tuple(split.index(run) for run in runs),
        shape=tuple(shape),
    )


def grouped_shape(
    axes: Sequence[int], boundaries: set[int], selections: tuple[tuple[int | None, ...], ...]
) -> tuple[int, ...]:
    """Return the accumulator's shape, cut wherever the set of operands that read a bit changes.

    `axes` are the bits of each of its dims, slowest first; `boundaries` are bit positions (of the packed accumulator
    coordinate) at which a cut is wanted as well: between units. With these cuts each operand is a broadcast along whole
    dims.
    """
    readers = [tuple(s[i] is not None for s in selections) for i in range(sum(axes))]
    sizes: list[int] = []
    stop = len(readers)
    for bits in axes:
        for position in range(stop - 1, stop - bits - 1, -1):
            cut = position == stop - 1 or position + 1 in boundaries or readers[position] != readers[position + 1]
            if cut:
                if position == stop - 1 and stop in boundaries:
                    sizes.append(1)
                sizes.append(1)
            sizes[-1] *= 2
        stop -= bits
    return tuple(sizes)


@dataclass(frozen=True)
class Product:
    """One product as its operands are handed over: accumulator and fragments by the same hardware bits.

    `cuts` are bits of the packed accumulator coordinate at which a dim of its grouped shape ends in any case. Raises
    LayoutgenError, when its shape or a relabelling is asked for, if an operand is no broadcast.

    >>> from layoutgen.atoms import atom
    >>> from layoutgen.tiling import derive
    >>> from layoutgen.tiling.divided import divided, stacked
    >>> tiling = derive(atom("m8n8k4"), 32, 32, (1, 1))
    >>> Product(stacked(tiling.accumulator, 2), divided(tiling.fragment_a, "dim1", 2), divided(tiling.fragment_b,
    ...     "dim1", 2), frozenset()).relabel_a.shape
    (2, 4, 8, 1, 1, 4)
    """

    accumulator: LinearLayout
    fragment_a: LinearLayout
    fragment_b: LinearLayout
    cuts: frozenset[int]

    @cached_property
    def _selections(self) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        return (
            selected_bits(coordinate_map(self.accumulator, self.fragment_a)),
            selected_bits(coordinate_map(self.accumulator, self.fragment_b)),
        )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The accumulator's shape in which both operands are broadcasts along whole dims."""
        axes = [bits for _, bits in self.accumulator.codomain.dims]
        return grouped_shape(axes, set(self.cuts), self._selections)

    @cached_property
    def grouped(self) -> LinearLayout:
        """The accumulator in its grouped shape: the same owners, since a reshape moves nothing."""
        return self.accumulator.reshape(self.shape)

    @cached_property
    def relabel_a(self) -> Relabelling:
        return relabel(self._selections[0], self.fragment_a.codomain, self.grouped.codomain)

    @cached_property
    def relabel_b(self) -> Relabelling:
        return relabel(self._selections[1], self.fragment_b.codomain, self.grouped.codomain)
