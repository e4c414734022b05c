"""Claim 6 for the scores of a fast attention file: which keys each query weighs, in which tile, and of which K and V.

K is fetched one tile ahead, so that what is loaded does not say what is attended: a tile too few is fetched all the
same. Here the tiles of all calls of `attend` are taken together: the scores that their masks keep are those of the keys
that a query sees, each once, and the K that a call finds and the V that it loads are those of its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layoutgen.proofs.integers import Model
from layoutgen.readback.accesses import Call
from layoutgen.readback.indices import ONE, ZERO, Bits, Formula, Index, Symbols
from layoutgen.readback.places import Dims, Fault, Place, element
from layoutgen.readback.polynomial import Polynomial
from layoutgen.readback.reach import Reach

Load = tuple[str, Polynomial]
"""A load of K, V, bias or mask: its tensor, and its keys."""
DIMS: Dims = (("query", "", "t_q"), ("key", "", "t_k"))


@dataclass(frozen=True)
class Tile:
    """One call of `attend` in a loop: its first key as start + size * number, for `count` numbers."""

    place: Place
    start: Polynomial
    count: Polynomial
    moved: frozenset[tuple[str, Polynomial]]
    """What the first key of a load in it is, less that of its own tile, or of the tile after it for K."""


def attended_fault(
    calls: Sequence[tuple[Call, Sequence[Load]]],
    first_query: Polynomial,
    first_loads: Sequence[Polynomial],
    sees: Sequence[Formula],
    block: tuple[int, int],
    symbols: Symbols,
) -> Fault | None:
    """Return why the calls of `attend` do not weigh exactly what is seen; None if they do for all lengths.

    Each call comes with its loads of what has keys; `first_loads` are the keys of the loads before the first call.
    `sees` holds of an element (query, key) that is seen; `block` is how many queries and keys a tile has.
    """
    tiles = []
    for call, loads in calls:
        tile = _tile(call, loads, first_query, block, symbols)
        if isinstance(tile, Fault):
            return tile
        tiles.append(tile)
    if not tiles:
        return Fault("attention_kernel", "no call of attend is found")
    reach = Reach(symbols, DIMS, tuple(tile.place for tile in tiles))
    return (
        _kept(reach, sees)
        or reach.missed(sees)
        or _twice(reach, tiles)
        or _next(reach, tiles, first_loads, Polynomial.constant(block[1]))
    )


def _tile(
    call: Call, loads: Sequence[Load], first_query: Polynomial, block: tuple[int, int], symbols: Symbols
) -> Tile | Fault:
    where = f"line {call.line}"
    names, (rows, columns) = call.names, block

    def unfollowed(what: str) -> Fault:
        return Fault(where, f"{what} of this call of attend cannot be followed", False)

    keys = names.get("keys_left")
    if not isinstance(keys, Polynomial) or call.condition is None:
        return unfollowed("the keys that are left or the condition")
    base = Polynomial.symbol("t_k") - keys
    visible = names.get("visible", Formula.true())
    column = names.get("column") if "visible" in names else symbols.index("lane", Polynomial.constant(columns))
    if isinstance(column, Bits):
        column = symbols.from_bits(column)
    if (
        not isinstance(visible, Formula)
        or not isinstance(column, Polynomial)
        or not _lane(symbols, str(column), columns)
    ):
        return unfollowed("the mask")
    # A mask that depends on the query has one index over the rows beside its column.
    reach = Reach(symbols, DIMS, ())
    others = [name for name in sorted(reach.closure(visible.symbols) - {str(column)}) if _lane(symbols, name, rows)]
    if len(others) > 1 or reach.parts(visible.symbols):
        return unfollowed("the mask")
    row = Polynomial.symbol(others[0]) if others else symbols.index("lane", Polynomial.constant(rows))
    loops = [name for name in base.symbols if name.startswith("loop")]
    count, start = ONE, base
    if loops:
        (loop,) = loops[:1]
        found = symbols.definitions[loop]
        assert isinstance(found, Index)
        number = Polynomial.symbol(loop)
        if len(loops) > 1 or base.by(loop) != Polynomial.constant(columns) or len(found.conditions) != 2:
            return unfollowed("the tile")
        count, start = found.conditions[1] + number + ONE, base - number * Polynomial.constant(columns)
    moved = set()
    for tensor, key in loads:
        ahead_by = key - base - Polynomial.constant(columns if tensor == "k" else 0)
        lanes = [name for name in ahead_by.symbols if _lane(symbols, name, columns)]
        if len(lanes) != 1 or ahead_by.by(lanes[0]) != ONE:
            return unfollowed("a load")
        moved.add((tensor, ahead_by - Polynomial.symbol(lanes[0])))
    place = Place("score", call.line, (first_query + row, base + column), call.condition & visible)
    return Tile(place, start, count, frozenset(moved))


def _lane(symbols: Symbols, name: str, size: int) -> bool:
    found = symbols.definitions.get(name)
    return isinstance(found, Index) and found.kind == "lane" and found.size == size


def _kept(reach: Reach, sees: Sequence[Formula]) -> Fault | None:
    """Return a score that is kept though its query exists and does not see its key."""
    query, key = element("query"), element("key")
    seen = Formula.at_least_0(key, Polynomial.symbol("t_k") - key - ONE)
    for formula in sees:
        seen &= formula
    for place in reach.places:
        same = [Formula.at_least_0(x - e, e - x) for x, e in zip(place.coordinates, (query, key), strict=True)]
        exists = Formula.at_least_0(Polynomial.symbol("t_q") - query - ONE)
        model = reach.smallest((*same, exists, place.condition, ~seen), reach.programs())
        if model is not None:
            return Fault(f"line {place.line}", f"{_where(reach, model)} is weighed, but not seen")
    return None


def _twice(reach: Reach, tiles: Sequence[Tile]) -> Fault | None:
    """Return a score that two calls weigh. Those of one call are apart: so are its tiles."""
    for number, one in enumerate(tiles):
        for other in tiles[number + 1 :]:
            pairs = zip(one.place.coordinates, other.place.coordinates, (element("query"), element("key")), strict=True)
            same = [Formula.at_least_0(a - b, b - a, a - e, e - a) for a, b, e in pairs]
            exists = Formula.at_least_0(Polynomial.symbol("t_q") - element("query") - ONE)
            conditions = (*same, exists, one.place.condition, other.place.condition)
            model = reach.smallest(conditions, reach.programs())
            if model is not None:
                lines = f"lines {one.place.line}, {other.place.line}"
                return Fault(lines, f"{_where(reach, model)} is weighed twice")
    return None


def _next(reach: Reach, tiles: Sequence[Tile], first_loads: Sequence[Polynomial], size: Polynomial) -> Fault | None:
    """Return a tile whose K or V is that of another: calls fetch K for the one after, the kernel for the first."""
    first = set()
    for key in first_loads:
        lanes = [name for name in key.symbols if _lane(reach.symbols, name, int(size.value or 0))]
        if len(lanes) != 1:
            return Fault("attention_kernel", "the keys that are loaded first cannot be followed", False)
        first.add(key - Polynomial.symbol(lanes[0]))
    for number, tile in enumerate(tiles):
        line = f"line {tile.place.line}"
        for tensor, gap in sorted(tile.moved, key=str):
            if gap != ZERO:
                right = "the next tile" if tensor == "k" else "its tile"
                return Fault(line, f"a load of {tensor} is {gap} keys off those of {right}")
        runs = Formula.at_least_0(tile.count - ONE)
        before = [Formula.at_least_0(-earlier.count) for earlier in tiles[:number]]
        ends = [(f, "those loaded first", before) for f in first]
        for earlier in range(number):
            between = [Formula.at_least_0(-t.count) for t in tiles[earlier + 1 : number]]
            ran = Formula.at_least_0(tiles[earlier].count - ONE)
            expected = tiles[earlier].start + size * tiles[earlier].count
            ends.append((expected, "those that the call before loads", [*between, ran]))
        for expected, what, conditions in ends:
            gap = tile.start - expected
            if gap == ZERO:
                continue
            differs = Formula.at_least_0(gap - ONE) | Formula.at_least_0(-gap - ONE)
            model = reach.smallest((runs, *conditions, differs), reach.programs())
            if model is not None:
                return Fault(line, f"{reach.sizes(model)}the keys of its first tile are not {what}")
    return None


def _where(reach: Reach, model: Model) -> str:
    query, key = (model.get(str(element(name)), 0) for name in ("query", "key"))
    return f"{reach.sizes(model)}key {key} of query {query}"
