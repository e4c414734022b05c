"""The ladder of conversions: what it takes to bring a tensor from one register layout into another.

Every index h of the target wants the element target(h). An owner of it is a solution x of source(x) = target(h); the
owners differ by the kernel of the source. As both maps are linear, owners may be chosen bit by bit, and a conversion
stays within a thread, warp or block exactly when each bit has an owner that does: a question of rank. Among such
owners the ones are taken that keep most values in their lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from layoutgen.algebra import gf2
from layoutgen.algebra.banks import BANKS, WORD_BYTES
from layoutgen.algebra.layout import LinearLayout
from layoutgen.algebra.space import HARDWARE, Space
from layoutgen.algebra.swizzle import Choice, best_swizzle
from layoutgen.errors import LayoutgenError

SHUFFLE_BYTES = 4


class Kind(IntEnum):
    """The rungs, cheapest first."""

    IDENTICAL = 0
    REPLICAS = 1
    REGISTERS = 2
    WARP = 3
    SHARED = 4
    BLOCKS = 5

    def __str__(self) -> str:
        return {
            Kind.IDENTICAL: "identical",
            Kind.REPLICAS: "relabelling of replicas",
            Kind.REGISTERS: "register permutation",
            Kind.WARP: "exchange within a warp",
            Kind.SHARED: "through shared memory",
            Kind.BLOCKS: "across blocks",
        }[self]


@dataclass(frozen=True)
class Conversion:
    """How one tensor gets from `source` to `target`, both layouts of the same shape.

    `owners` maps a target index to the source index that its value is taken from. `selects` says that which register
    it is depends on the lane or warp, so that instructions must choose among registers.
    """

    source: LinearLayout
    target: LinearLayout
    kind: Kind
    owners: LinearLayout

    @property
    def is_trivial(self) -> bool:
        """Whether no instruction is needed."""
        return self.kind <= Kind.REGISTERS and not self.selects

    @cached_property
    def selects(self) -> bool:
        registers = self.source.domain.bits_of("register")
        outside = range(self.target.domain.bits_of("register"), self.target.domain.bits)
        return any(self.owners.columns[bit] & (1 << registers) - 1 for bit in outside)

    # ---- what moves

    @cached_property
    def _lane_moves(self) -> tuple[list[int], list[int]]:
        """Return the lane bits by which a value moves, per register bit of the target and per lane bit."""
        source, target = self.source.domain, self.target.domain
        start, bits = source.bits_of("register"), source.bits_of("lane")
        mask = (1 << bits) - 1
        registers = [column >> start & mask for column in self.owners.columns[: target.bits_of("register")]]
        low = target.bits_of("register")
        lanes = [self.owners.columns[low + bit] >> start & mask ^ 1 << bit for bit in range(target.bits_of("lane"))]
        return registers, lanes

    @cached_property
    def kept(self) -> float:
        """The part of a thread's distinct values that the same thread still holds afterwards, over all lanes.

        A property of the two layouts alone: no choice of owners can do better.
        """
        own, wanted = (_span(layout, ("register",)) for layout in (self.source, self.target))
        common = own.rank + wanted.rank - gf2.rank([*_basis(own), *_basis(wanted)])
        together = gf2.echelon([*_basis(own), *_basis(wanted)])
        differences = []
        for name in HARDWARE[1:]:
            pairs = zip(_columns(self.source, name), _columns(self.target, name), strict=True)
            differences += [together.reduce(a ^ b) for a, b in pairs]
        return 2.0 ** (common - own.rank - gf2.rank(differences))

    def shuffles(self, element_bytes: int) -> int:
        """Return how many warp shuffles the exchange takes; 0 on the other rungs.

        A shuffle delivers one 32-bit register to every lane. Where values move by the same set of lane distances in
        every lane, those that stay need none; otherwise each register of the target takes one. Narrow values travel
        together while the registers that share a word do.
        """
        if self.kind is not Kind.WARP:
            return 0
        registers, lanes = self._lane_moves
        distinct = [(m, c) for m, c in zip(registers, self.target.columns, strict=False) if c]
        moves = [move for move, _ in distinct]
        pack = 0
        while (element_bytes << pack + 1) <= SHUFFLE_BYTES and pack < len(moves) and self._travels(pack):
            pack += 1
        words = len(moves) - pack
        exchange = gf2.echelon(moves)
        if all(exchange.preimage(move) is not None for move in lanes):
            return (1 << words) - (1 << words - exchange.rank)
        return 1 << words

    def _travels(self, bit: int) -> bool:
        """Whether target register bit `bit` is the same bit of the source, used by nothing else."""
        if bit >= len(self.owners.columns) or self.owners.columns[bit] != 1 << bit:
            return False
        return all(column >> bit & 1 == 0 for i, column in enumerate(self.owners.columns) if i != bit)

    @cached_property
    def swaps(self) -> tuple[tuple[str, str], ...]:
        """Pairs (lane bit, register bit) that trade places: the value goes from the register to the lane bit."""
        registers, _ = self._lane_moves
        pairs = []
        for bit, move in enumerate(registers):
            for lane in range(move.bit_length()):
                if move >> lane & 1:
                    pairs.append((f"lane{lane}", f"register{bit}"))
        return tuple(pairs)

    # ---- the way through shared memory

    def bytes(self, element_bytes: int) -> int:
        """Shared memory that the tensor takes up, on the rungs that need it."""
        return self.source.codomain.size * element_bytes if self.kind >= Kind.SHARED else 0

    def buffer(self, element_bytes: int) -> Choice | None:
        """Return the best swizzle for the store and the load, on the shared-memory rung, in rows of 128 bytes."""
        if self.kind is not Kind.SHARED:
            return None
        return best_swizzle([_matrix(layout, element_bytes) for layout in (self.source, self.target)], element_bytes)

    # ---- the witness

    @cached_property
    def witness(self) -> str:
        """One element that shows why the conversion is no cheaper."""
        if self.kind is Kind.IDENTICAL:
            return "every basis is the same"
        bit = self.telling_bit
        at = self.target.domain.unpack(1 << bit)
        names = self.target.domain.names
        where = ", ".join(f"{name} {value}" for name, value in zip(names, at, strict=True) if value)
        element = self.target(at)
        owner = self.source.domain.unpack(self.owners.columns[bit])
        values = [f"{n} {v}" for n, v in zip(self.source.domain.names, owner, strict=True) if v or n == "register"]
        return f"{where} wants {element}, which is in {', '.join(values)}"

    @cached_property
    def telling_bit(self) -> int:
        """Return the first bit of the target whose owner differs in the hardware dim that decides the rung."""
        deciding = {Kind.WARP: "lane", Kind.SHARED: "warp", Kind.BLOCKS: "block"}.get(self.kind, "register")
        source, target = self.source.domain, self.target.domain
        start, bits = source.offsets[deciding], source.bits_of(deciding)
        for bit, column in enumerate(self.owners.columns):
            own = 0
            low, width = target.offsets[deciding], target.bits_of(deciding)
            if low <= bit < low + width:
                own = 1 << bit - low
            if column >> start & (1 << bits) - 1 != own:
                return bit
        return 0

    # ---- printing

    def as_dict(self, element_bytes: int) -> dict[str, Any]:
        """Return everything as plain data, for elements of this width."""
        buffer = self.buffer(element_bytes)
        return {
            "class": self.kind.name.lower(),
            "trivial": self.is_trivial,
            "kept_in_lane": self.kept,
            "selects": self.selects,
            "shuffles": self.shuffles(element_bytes),
            "swaps": [list(pair) for pair in self.swaps] if self.kind is Kind.WARP else [],
            "shared_bytes": self.bytes(element_bytes),
            "wavefronts": [cost.wavefronts for cost in buffer.accesses] if buffer else [],
            "minimum": [cost.minimum for cost in buffer.accesses] if buffer else [],
            "buffer": str(buffer.buffer) if buffer else None,
            "reason": buffer.reason if buffer else None,
            "witness": self.witness,
            "owners": self.owners.bases,
        }

    def explain(self, element_bytes: int) -> str:
        """Return the class, the cost and the witness as text."""
        lines = [f"{self.kind}: {'no instruction' if self.is_trivial else 'not trivial'}"]
        lines.append(f"  at best {self.kept:g} of a thread's values stay in their thread")
        if self.selects:
            lines.append("  which register a value is in depends on the lane or warp")
        if self.kind is Kind.WARP:
            lines.append(f"  {self.shuffles(element_bytes)} shuffles a warp, elements of {element_bytes} bytes")
            if self.swaps:
                lines.append("  exchanges " + ", ".join(f"{lane} with {register}" for lane, register in self.swaps))
        buffer = self.buffer(element_bytes)
        if buffer is not None:
            lines.append(f"  {self.bytes(element_bytes)} bytes of shared memory; store and load through {buffer}")
        lines.append(f"  witness: {self.witness}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.kind}: {self.witness}"


def classify(source: LinearLayout, target: LinearLayout) -> Conversion:
    """Return the cheapest way from one layout of a tensor to another.

    Both must start from the hardware dims in their order, and map the same numbers of lanes, warps and blocks to the
    same shape; registers may differ. Raises LayoutgenError when they do not, or when the source does not hold every
    element that the target wants.

    >>> rows = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2))
    >>> columns = LinearLayout.from_bases({"register": [[1, 0]], "lane": [[0, 1], [2, 0]]}, (4, 2))
    >>> print(classify(rows, columns))
    exchange within a warp: register 1 wants (1, 0), which is in lane 1, register 0
    """
    if source.shape != target.shape:
        raise LayoutgenError(
            f"classify: the source is {list(source.shape)}, the target {list(target.shape)}; they must be one tensor"
        )
    for what, layout in (("source", source), ("target", target)):
        if layout.domain.names != HARDWARE[::-1]:
            raise LayoutgenError(
                f"classify: the {what} starts from {layout.domain}; a distributed layout starts from "
                f"{', '.join(HARDWARE[::-1])}, in this order"
            )
    for name in HARDWARE[1:]:
        have, want = source.domain.bits_of(name), target.domain.bits_of(name)
        if have != want:
            raise LayoutgenError(f"classify: {1 << have} {name}s in the source, {1 << want} in the target")
    if source == target:
        return Conversion(source, target, Kind.IDENTICAL, LinearLayout.identity(source.domain))
    reach = {kind: _span(source, names) for kind, names in _REACH.items()}
    kind = Kind.REGISTERS
    for position, column in enumerate(target.columns):
        own = _same_place(position, target.domain, source.domain)
        for rung, names in _REACH.items():
            if rung < kind:
                continue
            outside = sum(own & _mask(source.domain, name) for name in HARDWARE if name not in names)
            if reach[rung].preimage(column ^ gf2.apply(source.columns, outside)) is not None:
                kind = rung
                break
        else:
            raise LayoutgenError(
                f"classify: {target.domain.bit_name(position)} of the target wants {target.codomain.unpack(column)}, "
                "which nobody holds"
            )
    owners = _choose(source, target, kind, reach)
    if kind is Kind.REGISTERS and _distinct(source) == _distinct(target):
        kind = Kind.REPLICAS
    return Conversion(source, target, kind, LinearLayout(target.domain, source.domain, tuple(owners)))


_REACH: dict[Kind, tuple[str, ...]] = {
    Kind.REGISTERS: ("register",),
    Kind.WARP: ("register", "lane"),
    Kind.SHARED: ("register", "lane", "warp"),
    Kind.BLOCKS: ("register", "lane", "warp", "block"),
}
"""Rung -> the hardware dims along which a value may move."""


def _mask(space: Space, name: str) -> int:
    return (1 << space.bits_of(name)) - 1 << space.offsets[name]


def _same_place(position: int, target: Space, source: Space) -> int:
    """Return a bit of the target's domain as the same bit of the source's, or 0 for a register."""
    for name in HARDWARE[1:]:
        low = target.offsets[name]
        if low <= position < low + target.bits_of(name):
            return 1 << source.offsets[name] + position - low
    return 0


def _columns(layout: LinearLayout, name: str) -> tuple[int, ...]:
    start = layout.domain.offsets[name]
    return layout.columns[start : start + layout.domain.bits_of(name)]


def _span(layout: LinearLayout, names: tuple[str, ...]) -> gf2.Echelon:
    """Reduce the bases of some hardware dims, which are the low ones; combinations are packed source indices."""
    return gf2.echelon(column for name in names for column in _columns(layout, name))


def _basis(reduced: gf2.Echelon) -> list[int]:
    return [column for column, _ in reduced.pivots.values()]


def _distinct(layout: LinearLayout) -> tuple[tuple[int, ...], ...]:
    """Return the columns without the registers that replicate others."""
    registers = tuple(column for column in _columns(layout, "register") if column)
    return registers, *(_columns(layout, name) for name in HARDWARE[1:])


def _choose(source: LinearLayout, target: LinearLayout, kind: Kind, reach: dict[Kind, gf2.Echelon]) -> list[int]:
    """Choose an owner per bit of the target: in place if it can be, else as few lane distances as can be."""
    registers = target.domain.bits_of("register")
    lanes = range(registers, registers + target.domain.bits_of("lane"))
    lane_mask = _mask(source.domain, "lane")
    chosen: dict[int, int] = {}
    for rung, names in _REACH.items():
        if rung > kind:
            break
        outside = [name for name in HARDWARE if name not in names]
        for position, column in enumerate(target.columns):
            if position in chosen:
                continue
            own = _same_place(position, target.domain, source.domain)
            fixed = sum(own & _mask(source.domain, name) for name in outside)
            found = reach[rung].preimage(column ^ gf2.apply(source.columns, fixed))
            if found is not None:
                chosen[position] = found | fixed
    if kind is not Kind.WARP:
        return [chosen[position] for position in range(len(target.columns))]
    # Replicas of the source let an owner be moved by a kernel vector. Registers first: their distances are what is
    # exchanged; lane bits then move by distances that are exchanged anyway, where they can.
    distances: list[int] = []
    for position in (*range(registers), *lanes):
        own = _same_place(position, target.domain, source.domain)
        start = (chosen[position] ^ own) & lane_mask
        if start == 0:
            continue
        replicas = [vector for vector in reach[Kind.WARP].kernel if vector & lane_mask]
        shift = gf2.echelon([*distances, *(vector & lane_mask for vector in replicas)]).preimage(start)
        if shift is not None:
            for bit, vector in enumerate(replicas):
                if shift >> len(distances) + bit & 1:
                    chosen[position] ^= vector
        if position < registers:
            distances.append((chosen[position] ^ own) & lane_mask)
    return [chosen[position] for position in range(len(target.columns))]


def _matrix(layout: LinearLayout, element_bytes: int) -> LinearLayout:
    """Return the layout over rows of as many bytes as there are in the banks: a scratch buffer may have any shape."""
    columns = min(layout.codomain.size, BANKS * WORD_BYTES // element_bytes)
    return layout.reshape((layout.codomain.size // columns, columns))
