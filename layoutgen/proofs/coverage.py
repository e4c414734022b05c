"""Claim 6: the masks of a tile cover exactly the tensor, for all lengths.

A coordinate of a global access is a start plus steps: registers and lanes count through a tile, programs or loop
iterations count tiles. Nothing is sampled: the lengths stay symbols, and what has to hold is decided by the steps, the
number of tiles ceil(length / size) and the mask. A tile with gaps is refused even where other tiles would fill them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict


@dataclass(frozen=True)
class Tiles:
    """How many tiles of a size there are in length - offset, the last one possibly cut short, or `whole` ones alone.

    As an extent it is an index from 0 to one less, for every length from 0 on. Of size 1 it is each element once.

    >>> Tiles("t", 32, offset=32, whole=True).count(100)
    2
    """

    length: str
    size: int
    offset: int = 0
    whole: bool = False

    def count(self, length: int) -> int:
        spare = length - self.offset
        return max(0, spare // self.size if self.whole else -(-spare // self.size))

    def __str__(self) -> str:
        rest = f"({self.length} - {self.offset})" if self.offset else self.length
        if self.size == 1:
            return rest
        return f"{'floor' if self.whole else 'ceil'}({rest} / {self.size})"


@dataclass(frozen=True)
class Between:
    """An index from 0 to high - low - 1, of two numbers of tiles: what a second loop goes on with."""

    low: Tiles
    high: Tiles

    def count(self, length: int) -> int:
        return max(0, self.high.count(length) - self.low.count(length))

    @property
    def length(self) -> str:
        return self.high.length

    def __str__(self) -> str:
        return f"({self.high} - {self.low})"


@dataclass(frozen=True)
class Step:
    """One index and what it adds to the coordinate. The extent is a number, or as many as there are tiles."""

    coefficient: int
    extent: int | Tiles | Between


@dataclass(frozen=True)
class Axis:
    """One coordinate of an access: start + the sum of its steps, masked by coordinate < length or not at all.

    `length` is the name of a size, known when the kernel is launched, or a number. `base` adds a number of tiles to the
    start, each times its coefficient, as the remainder behind a loop over whole tiles does.
    """

    length: str | int
    start: int
    steps: tuple[Step, ...]
    masked: bool
    base: tuple[tuple[int, Tiles], ...] = ()

    def touched(self, lengths: Mapping[str, int]) -> set[int]:
        """Return every coordinate that is read or written when the sizes are these; tests compare with it."""
        values = {self.start + sum(c * tiles.count(lengths[tiles.length]) for c, tiles in self.base)}
        for step in self.steps:
            extent = step.extent
            count = extent if isinstance(extent, int) else extent.count(lengths[extent.length])
            values = {value + step.coefficient * i for value in values for i in range(count)}
        limit = lengths[self.length] if isinstance(self.length, str) else self.length
        return {value for value in values if not self.masked or value < limit}


@dataclass(frozen=True)
class Footprint:
    """One load or store: the tensor, its line in the source, and one axis per dim of the tensor."""

    tensor: str
    kind: str
    line: int
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Fault:
    """Why an axis does not cover its dim: at which lengths, and which coordinate shows it."""

    at: str
    witness: str


def _run(axis: Axis) -> tuple[int, Fault | None]:
    """Return how many consecutive coordinates the steps of fixed extent reach."""
    reach = 1
    fixed = [(step.coefficient, step.extent) for step in axis.steps if isinstance(step.extent, int)]
    for coefficient, extent in sorted(fixed):
        if extent > 1 and coefficient > reach:
            return reach, Fault(f"step {coefficient}", f"{axis.start + reach} lies in a gap of the tile")
        reach += coefficient * (extent - 1)
    return reach, None


def axis_fault(axis: Axis) -> Fault | None:
    """Return why an axis of symbolic length does not touch exactly 0 .. length - 1, for every length; None if it does.

    >>> axis_fault(Axis("t", 0, (Step(1, 64), Step(64, Tiles("t", 64))), masked=True)) is None
    True
    >>> axis_fault(Axis("t", 0, (Step(1, 64), Step(64, Tiles("t", 64))), masked=False)).witness
    'with t = 1, 1 lies outside and is touched'
    """
    reach, fault = _run(axis)
    name = axis.length
    if fault is not None:
        return fault
    counted = [(step.coefficient, step.extent) for step in axis.steps if isinstance(step.extent, Tiles)]
    if _is_part(axis) and (counted or axis.base) and not axis.start:
        return union_fault([axis])[0]
    if not counted:
        missed = axis.start + reach
        return Fault("no tiles are counted", f"with {name} = {missed + 1}, {missed} is missed")
    if len(counted) > 1 or counted[0][1].length != name:
        others = " and ".join(str(extent) for _, extent in counted)
        return Fault(f"counts {others}", f"the number of tiles does not follow from {name}")
    ((coefficient, tiles),) = counted
    if axis.start:
        return Fault(f"start {axis.start}", f"with {name} = 1, 0 is missed")
    if coefficient > reach:
        return Fault(f"tiles {coefficient} apart, {reach} long", f"with {name} = {reach + 1}, {reach} is missed")
    if coefficient < tiles.size:
        # Tiles of `size` are counted, but they lie closer: far enough out the last one ends too early.
        count = (reach - coefficient) // (tiles.size - coefficient) + 1
        missed = coefficient * (count - 1) + reach
        return Fault(f"{tiles} tiles, {coefficient} apart", f"with {name} = {tiles.size * count}, {missed} is missed")
    if not axis.masked and (reach > 1 or coefficient != tiles.size or tiles.size > 1):
        first = 1 if reach > 1 else coefficient
        length = 1 if reach > 1 else tiles.size + 1
        return Fault("no mask", f"with {name} = {length}, {first} lies outside and is touched")
    return None


def covers(tensor: str, names: Sequence[str], footprints: Sequence[Footprint]) -> Verdict:
    """Discharge claim 6 for all accesses of one kind to one tensor, whose dims are called `names`.

    Each access must cover every dim of symbolic length by itself, save one that they may cover part by part; dims of
    known length may be shared out among them.
    """
    kinds = sorted({footprint.kind for footprint in footprints})
    lengths = [axis.length for axis in footprints[0].axes] if footprints else []
    shape = ", ".join(str(length) for length in lengths)
    obligation = Obligation(
        f"{' and '.join(kinds) or 'access'}s of {tensor} cover it",
        6,
        f"of [{shape}], for all lengths, nothing outside is touched and nothing inside is missed",
    )
    together: dict[int, str] = {}
    for dim, (name, length) in enumerate(zip(names, lengths, strict=True)):
        faults = [(f.line, axis_fault(f.axes[dim])) for f in footprints] if isinstance(length, str) else []
        found = [(line, fault) for line, fault in faults if fault is not None]
        if not found:
            continue
        line, fault = found[0]
        if len(footprints) > 1 and not together:
            # No access covers the dim by itself; several may, one part each.
            shared, fact = _together(dim, footprints)
            if shared is None:
                together[dim] = f"{name}: {fact}"
                continue
            if all(_is_part(footprint.axes[dim]) for footprint in footprints):
                fault = shared
        return _refute(obligation, line, name, fault)
    facts = []
    for dim, (name, length) in enumerate(zip(names, lengths, strict=True)):
        if isinstance(length, int):
            fault_line = _fixed_fault(name, length, [(f.line, f.axes[dim]) for f in footprints])
            if fault_line is not None:
                line, fault = fault_line
                return _refute(obligation, line, name, fault)
            facts.append(f"{name}: 0 .. {length - 1} exactly")
        elif dim in together:
            facts.append(together[dim])
        else:
            facts += sorted({_fact(name, footprint.axes[dim]) for footprint in footprints})
    return Certificate(obligation, "symbolic", tuple(facts))


def _is_part(axis: Axis) -> bool:
    """Whether an axis is meant to cover a part of its dim: a first tile, a remainder, whole tiles alone."""
    extents = [step.extent for step in axis.steps if not isinstance(step.extent, int)]
    plain = len(extents) == 1 and isinstance(extents[0], Tiles) and not (extents[0].offset or extents[0].whole)
    return bool(axis.base or axis.start or not plain)


def _together(dim: int, footprints: Sequence[Footprint]) -> tuple[Fault | None, str]:
    """Check one dim of symbolic length over all accesses, for each stretch of the dims of known size apart."""
    stretches: dict[frozenset[int], list[Footprint]] = {}
    fixed = [i for i, axis in enumerate(footprints[0].axes) if isinstance(axis.length, int)]
    if len(fixed) > 1:
        return Fault("two dims of known size", "their parts are not followed"), ""
    elements = range(int(footprints[0].axes[fixed[0]].length)) if fixed else range(1)
    for element in elements:
        held = [f for f in footprints if not fixed or _holds(f.axes[fixed[0]], element)]
        stretches.setdefault(frozenset(map(id, held)), held)
    period = 0
    for held in stretches.values():
        fault, step = union_fault([footprint.axes[dim] for footprint in held])
        if fault is not None:
            return fault, ""
        period = max(period, step)
    lines = ", ".join(str(line) for line in sorted({footprint.line for footprint in footprints}))
    return None, f"lines {lines} together, by induction over the length in steps of {period}"


def _holds(axis: Axis, element: int) -> bool:
    reach, _ = _run(axis)
    return axis.start <= element < axis.start + reach


def union_fault(axes: Sequence[Axis]) -> tuple[Fault | None, int]:
    """Return why several accesses do not touch exactly 0 .. length - 1 together, and the period of the argument.

    Every count of tiles grows by period / size when the length grows by the period, so beyond the first few tiles what
    is touched at length + period is what is touched at length, with the last period repeated: an element from there on
    is inside, or outside, exactly if the one a period before is. So the lengths up to there decide for all.
    """
    counted = [pair for axis in axes for pair in _counts(axis)]
    if not axes:
        return Fault("no access", "0 is missed"), 1
    for coefficient, tiles in counted:
        if tiles.length != axes[0].length or coefficient != tiles.size:
            return Fault(f"{tiles} tiles, {coefficient} apart", "what they cover together is not followed"), 1
    period = math.lcm(*(tiles.size for _, tiles in counted)) if counted else 1
    runs = [sum(s.coefficient * (s.extent - 1) for s in axis.steps if isinstance(s.extent, int)) for axis in axes]
    settled = max(axis.start + run for axis, run in zip(axes, runs, strict=True)) + 1
    settled += max((tiles.offset + tiles.size for _, tiles in counted), default=0)
    name = str(axes[0].length)
    for length in range(2 * (settled + period) + period + 1):
        touched: set[int] = set().union(*(axis.touched({name: length}) for axis in axes))
        wrong = sorted(touched.symmetric_difference(range(length)))
        if wrong:
            how = "is missed" if wrong[0] < length else "lies outside and is touched"
            return Fault("all accesses together", f"with {name} = {length}, {wrong[0]} {how}"), period
    return None, period


def _fixed_fault(name: str, length: int, axes: Sequence[tuple[int, Axis]]) -> tuple[int, Fault] | None:
    """Check that intervals of known size make up 0 .. length - 1 together."""
    held: set[int] = set()
    for line, axis in axes:
        reach, fault = _run(axis)
        if fault is None and any(isinstance(step.extent, Tiles) for step in axis.steps):
            fault = Fault("tiles", f"the size of {name} is known, but tiles are counted")
        if fault is None and not axis.masked and axis.start + reach > length:
            fault = Fault("no mask", f"{max(axis.start, length)} lies outside and is touched")
        if fault is not None:
            return line, fault
        held |= set(range(axis.start, min(axis.start + reach, length)))
    missed = next((c for c in range(length) if c not in held), None)
    return None if missed is None else (axes[-1][0], Fault("all accesses together", f"{missed} is missed"))


def _refute(obligation: Obligation, line: int, name: str, fault: Fault) -> Refutation:
    return Refutation(obligation, "symbolic", f"{name} (line {line}), {fault.at}", fault.witness)


def _fact(name: str, axis: Axis) -> str:
    reach, _ = _run(axis)
    counted = next(_tiles(axis), None)
    if counted is None or _is_part(axis):
        return f"{name}: by induction over the length"
    if counted.size == 1 and reach == 1:
        return f"{name}: each of {counted} once"
    apart = next(step.coefficient for step in axis.steps if isinstance(step.extent, Tiles))
    return f"{name}: {counted} tiles {apart} apart, each {reach} long, all below {axis.length}"


def _counts(axis: Axis) -> Iterator[tuple[int, Tiles]]:
    """Yield every number of tiles that an axis depends on, with the distance of the tiles."""
    yield from axis.base
    for step in axis.steps:
        if isinstance(step.extent, Tiles):
            yield step.coefficient, step.extent
        elif isinstance(step.extent, Between):
            yield from ((step.coefficient, step.extent.low), (step.coefficient, step.extent.high))


def _tiles(axis: Axis) -> Iterator[Tiles]:
    for step in axis.steps:
        if isinstance(step.extent, Tiles):
            yield step.extent
