"""A plan: tiles, and the moves between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutgen.algebra import Access, LinearLayout
from layoutgen.atoms import DTYPE_BYTES
from layoutgen.errors import LayoutgenError
from layoutgen.proofs import Verdict, require

if TYPE_CHECKING:
    import networkx

SPACES = ("global", "shared", "register")
MOVES = {
    "load": ("global", "register"),
    "stage": ("register", "shared"),
    "fetch": ("shared", "register"),
    "mma": ("register", "register"),
    "add": ("register", "register"),
    "compute": ("register", "register"),
    "store": ("register", "global"),
}
"""Kind of move -> the spaces it leads from and to."""
COPIES = ("load", "stage", "store")
"""Kinds that move a whole tile as it is; a store may convert."""


@dataclass(frozen=True)
class Tile:
    """A tensor of one block in one memory space. `layout` says who holds what, for tiles in registers.

    `within` names the tile in whose memory this one lies, at another time.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    dtype: str
    layout: LinearLayout | None = None
    within: str | None = None

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise LayoutgenError(f"tile {self.name}: space {self.space!r}: must be one of {', '.join(SPACES)}")

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def bytes(self) -> int:
        return self.size * DTYPE_BYTES[self.dtype]

    @property
    def registers(self) -> int:
        """32-bit registers a thread spends on the tile; 0 outside the register space."""
        if self.layout is None:
            return 0
        return max(1, (1 << self.layout.domain.bits_of("register")) * DTYPE_BYTES[self.dtype] // 4)


@dataclass(frozen=True)
class Move:
    """One edge: what is moved from where to where, and what one warp pays each time.

    `times` is how often per iteration of the loop; 0 is for what happens once, before or after it.
    """

    source: str
    target: str
    kind: str
    times: int = 1
    access: Access | None = None


@dataclass(frozen=True)
class Plan:
    """What a kernel does to its tiles, and the obligations it rests on.

    Checked when the plan is made: every obligation holds (RefutedError otherwise), every move joins tiles that exist,
    in the spaces that its kind demands, what is copied keeps its size and dtype, and every tile of the block comes
    from global memory, through moves that form no cycle.
    """

    name: str
    tiles: tuple[Tile, ...]
    moves: tuple[Move, ...]
    proofs: tuple[Verdict, ...]

    def __post_init__(self) -> None:
        require(self.proofs)
        spaces = {tile.name: tile.space for tile in self.tiles}
        if len(spaces) != len(self.tiles):
            raise LayoutgenError(f"plan {self.name}: two tiles have the same name")
        for move in self.moves:
            for end in (move.source, move.target):
                if end not in spaces:
                    raise LayoutgenError(f"plan {self.name}: {move.kind} {move.source} -> {move.target}: no tile {end}")
            if (spaces[move.source], spaces[move.target]) != MOVES[move.kind]:
                raise LayoutgenError(
                    f"plan {self.name}: {move.kind} leads from {MOVES[move.kind][0]} to {MOVES[move.kind][1]}, "
                    f"not from {spaces[move.source]} {move.source} to {spaces[move.target]} {move.target}"
                )
            source, target = self.tile(move.source), self.tile(move.target)
            if move.kind in COPIES and (
                source.size != target.size or (move.kind != "store" and source.dtype != target.dtype)
            ):
                raise LayoutgenError(
                    f"plan {self.name}: {move.kind} {source.name} -> {target.name}: {source.size} x {source.dtype} "
                    f"do not fill {target.size} x {target.dtype}"
                )
        for tile in self.tiles:
            if tile.within is not None and not self.tile(tile.within).bytes >= tile.bytes:
                raise LayoutgenError(
                    f"plan {self.name}: {tile.name} takes {tile.bytes} bytes; {tile.within}, in which it lies, has "
                    f"{self.tile(tile.within).bytes}"
                )
        self._check_order()

    def _check_order(self) -> None:
        """Raise unless every tile outside global memory can be produced from tiles that were produced before it."""
        produced = {tile.name for tile in self.tiles if tile.space == "global"}
        waiting = [tile.name for tile in self.tiles if tile.space != "global"]
        sources: dict[str, set[str]] = {}
        for move in self.moves:
            sources.setdefault(move.target, set()).add(move.source)
        while waiting:
            ready = [name for name in waiting if name in sources and sources[name] <= produced]
            if not ready:
                raise LayoutgenError(f"plan {self.name}: nothing produces tile {waiting[0]} before it is used")
            produced.update(ready)
            waiting = [name for name in waiting if name not in produced]

    def tile(self, name: str) -> Tile:
        for tile in self.tiles:
            if tile.name == name:
                return tile
        raise LayoutgenError(f"plan {self.name}: no tile {name}")

    @property
    def graph(self) -> networkx.MultiDiGraph[str]:
        """The plan as a networkx graph; nodes and edges carry the fields of Tile and Move."""
        import networkx

        graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph(name=self.name)
        for tile in self.tiles:
            graph.add_node(tile.name, **_fields(tile))
        for move in self.moves:
            graph.add_edge(move.source, move.target, **_fields(move))
        return graph

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, if no two buffers overlap but those that lie within others."""
        return sum(tile.bytes for tile in self.buffers)

    @property
    def buffers(self) -> tuple[Tile, ...]:
        """The tiles in shared memory that lie in no other."""
        return tuple(tile for tile in self.tiles if tile.space == "shared" and tile.within is None)

    @property
    def accumulator_registers(self) -> int:
        """Registers a thread spends on what lives through a whole iteration: the targets of mma and of add."""
        targets = {move.target for move in self.moves if move.kind in ("mma", "add")}
        return sum(tile.registers for tile in self.tiles if tile.name in targets)

    @property
    def instructions(self) -> int:
        """mma instructions a warp issues per iteration."""
        # Every instruction is counted on two edges, one from each operand.
        return sum(move.times for move in self.moves if move.kind == "mma") // 2

    def wavefronts(self, kind: str) -> int:
        """Shared-memory wavefronts a warp pays per iteration for all moves of one kind (stage or fetch)."""
        return sum(move.times * move.access.wavefronts for move in self.moves if move.kind == kind and move.access)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.shared_bytes} bytes shared, {self.accumulator_registers} accumulator registers"]
        for move in self.moves:
            cost = ""
            if move.access is not None:
                cost = f", {move.access.wavefronts} wavefronts each ({move.access.minimum} at least)"
            times = f"{move.times}x" if move.times else "once"
            lines.append(f"  {move.kind:<8} {move.source} -> {move.target}, {times}{cost}")
        return "\n".join(lines)


def _fields(value: Tile | Move) -> dict[str, Any]:
    return {
        name: getattr(value, name) for name in value.__dataclass_fields__ if name not in ("name", "source", "target")
    }
