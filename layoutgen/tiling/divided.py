"""Warps that share the rows of a block: each holds all of a tile, or a part of its columns or of its k.

What one warp of such a group holds is a layout without the group; the group adds warp bits to it, the highest ones.
"""

from __future__ import annotations

from layoutgen.algebra import LinearLayout, Space, hardware_space
from layoutgen.algebra.space import log2
from layoutgen.errors import LayoutgenError


def _grown(layout: LinearLayout, bits: int) -> Space:
    sizes = {dim: layout.domain.bits_of(dim) for dim in ("register", "lane", "warp")}
    return hardware_space({**sizes, "warp": sizes["warp"] + bits})


def copied(layout: LinearLayout, warps: int) -> LinearLayout:
    """Return the layout of `warps` warps that all hold what `layout` says of one.

    >>> copied(LinearLayout.from_bases({"lane": [[1]]}, (2,)), 2).bases["warp"]
    [[0]]
    """
    bits = log2(warps, "warps of a group")
    return LinearLayout(_grown(layout, bits), layout.codomain, (*layout.columns, *[0] * bits))


def divided(layout: LinearLayout, dim: str, warps: int) -> LinearLayout:
    """Return the layout of `warps` warps with a part of one dim each, one after the other; `layout` is that of a part.

    >>> divided(LinearLayout.from_bases({"lane": [[0, 1]]}, (1, 2)), "dim1", 4).bases["warp"]
    [[0, 2], [0, 4]]
    """
    bits = log2(warps, "warps of a group")
    names = layout.codomain.names
    shape = tuple(size * warps if name == dim else size for name, size in zip(names, layout.shape, strict=True))
    codomain = Space.of_shape(shape)
    columns = [codomain.pack(layout.codomain.unpack(column)) for column in layout.columns]
    first = codomain.offsets[dim] + layout.codomain.bits_of(dim)
    return LinearLayout(_grown(layout, bits), codomain, (*columns, *(1 << first + bit for bit in range(bits))))


def stacked(layout: LinearLayout, warps: int) -> LinearLayout:
    """Return the layout of `warps` warps with a tile each: their number is a dim in front, unless there is one alone.

    >>> stacked(LinearLayout.from_bases({"lane": [[0, 1]]}, (1, 2)), 2).shape
    (2, 1, 2)
    """
    return layout if warps == 1 else divided(layout.reshape((1, *layout.shape)), "dim0", warps)


def part_of_one(layout: LinearLayout, dim: str | None, warps: int) -> LinearLayout:
    """Return what the first warp of every group holds: the inverse of `divided`, or of `copied` without a dim.

    What the highest warp bits add, and what others add beyond the part, is left out.
    """
    bits = log2(warps, "warps of a group")
    sizes = {name: layout.domain.bits_of(name) for name in ("register", "lane", "warp")}
    if sizes["warp"] < bits:
        raise LayoutgenError(f"warps of a group: {warps}, of {1 << sizes['warp']} warps in all")
    names = layout.codomain.names
    shape = tuple(size // warps if name == dim else size for name, size in zip(names, layout.shape, strict=True))
    codomain = Space.of_shape(shape)
    columns = []
    for column in layout.columns[: layout.domain.bits - bits]:
        element = layout.codomain.unpack(column)
        columns.append(codomain.pack([c % size for c, size in zip(element, shape, strict=True)]))
    return LinearLayout(hardware_space({**sizes, "warp": sizes["warp"] - bits}), codomain, tuple(columns))
