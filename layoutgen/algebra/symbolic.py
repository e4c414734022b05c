"""The same maps as sympy expressions over bits. sympy is imported when first asked for: it is slow to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutgen.algebra.layout import LinearLayout
from layoutgen.algebra.space import Space
from layoutgen.errors import LayoutgenError

if TYPE_CHECKING:
    from sympy import Symbol
    from sympy.logic.boolalg import Boolean


def symbols(space: Space, names: tuple[str, ...] | None = None) -> tuple[Symbol, ...]:
    """Return one sympy symbol per bit of a space, fastest first, named like lane0 unless `names` are given."""
    import sympy

    chosen = names or tuple(space.bit_name(i) for i in range(space.bits))
    if len(chosen) != space.bits:
        raise LayoutgenError(f"symbols: {len(chosen)} names for the {space.bits} bits of {space}; one each is needed")
    return tuple(sympy.Symbol(name) for name in chosen)


def expressions(layout: LinearLayout, names: tuple[str, ...] | None = None) -> dict[str, tuple[Boolean, ...]]:
    """Return, for every tensor dim, its bits (low first) as exclusive ors of hardware bits.

    >>> layout = LinearLayout.from_bases({"lane": [[1], [3]]}, (4,))
    >>> expressions(layout)
    {'dim0': (lane0 ^ lane1, lane1)}
    """
    import sympy

    inputs = symbols(layout.domain, names)
    result: dict[str, tuple[Boolean, ...]] = {}
    for dim, bits in layout.codomain.dims:
        start = layout.codomain.offsets[dim]
        result[dim] = tuple(
            sympy.Xor(*[s for s, column in zip(inputs, layout.columns, strict=True) if column >> start + bit & 1])
            for bit in range(bits)
        )
    return result
