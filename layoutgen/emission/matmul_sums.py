"""The loop of the fast matmul design whose sums are added apart: parts in turn, and the additions beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from layoutgen.emission.views import AXES, AddingView
from layoutgen.kernels.matmul_fast import ADDED_AT, SUMMED_K, FastMatmulRequest
from layoutgen.kernels.matmul_layouts import streamed

BARRIER = 2
"""k-steps behind the barrier of a tile: the last fetches of its buffers stand before them."""
SLOTS = 16
"""k-steps of one sum of all parts in which COPIED counts: four parts, as a warp's 64x64 of C has."""
COPIED = {
    ("mk", "kn"): (((0, 6), (0, 8)), ((6, 12), (7, 12))),
    ("mk", "nk"): (((0, 6), (0, 8)), ((6, 12), (7, 12))),
    ("km", "kn"): (((0, 6), (0, 6)), ((6, 12), (6, 12))),
    ("km", "nk"): (((1, 7), (1, 7)), ((6, 12), (6, 12))),
}
"""By the orders of A and B, for A and for B: the k-step before which a portion is loaded, and that before which it is
stored; two of each, for the first half of the portions that come during a sum, and for the second.

Of the places that were tried these make the fastest code of a 128x128x32 tile, which is ptxas's doing."""


@dataclass(frozen=True)
class Portion:
    """One load of a tile, a vector a thread: what it reads, the mask's arguments, and where it goes in the buffer."""

    name: str
    pointer: str
    row: int
    column: int
    index: str
    """The expression of the operand's rows (columns), from where the portion begins."""
    buffer: str
    """What is appended to a buffer to get the part that the portion fills."""


def barrier(current: int, following: int) -> str:
    return f"gl.barrier()  # buffers {following} are filled, and all has been read from buffers {current}"


def portions(request: FastMatmulRequest, operand: str) -> list[Portion]:
    """Return the portions of an operand's tile, in the order in which they are loaded."""
    way = request.operands[operand]
    axis = "m" if operand == "a" else "n"
    groups, vectors, group, vector = way.buffer
    rows, columns = way.portion.shape
    found = []
    for number, (row, column) in enumerate(way.portions):
        strided, contiguous = (axis, "k") if way.along_k else ("k", axis)
        pointer = f"{operand}_pointer"
        if column:
            pointer = f"beside({pointer}, {column}, stride_{operand}{contiguous})"
        if row:
            pointer = f"ahead({pointer}, {row}, stride_{operand}{strided}, wide)"
        buffer = ""
        if rows // group < groups:
            buffer += f".slice({row // group}, {rows // group}, dim=0)"
        if columns // vector < vectors:
            buffer += f".slice({column // vector}, {columns // vector}, dim=1)"
        across = row if way.along_k else column
        index = f"{operand}_{AXES[axis]}" + (f" + {across}" if across else "")
        found.append(Portion(f"{operand}_tile{number}", pointer, row, column, index, buffer))
    return found


def first_portions(request: FastMatmulRequest) -> Iterator[str]:
    """Yield the statements that load the K tile that may reach beyond K, and store it."""
    for operand, axis in (("a", "m"), ("b", "n")):
        way = request.operands[operand]
        for portion in portions(request, operand):
            deep = portion.column if way.along_k else portion.row
            k = f"{operand}_k" + (f" + {deep}" if deep else "")
            inside = f"({k} < left) & ({AXES[axis]} + {portion.index} < {axis})"
            pointer = portion.pointer.replace(f"{operand}_pointer", f"{operand}_pointer + skipped * stride_{operand}k")
            yield f"{operand}_tile = gl.load({pointer}, mask={inside}, other=0.0)"
            yield f"store_{operand}({operand}_buffer0{portion.buffer}, {operand}_tile)"


def fetch_ahead(request: FastMatmulRequest) -> Iterator[str]:
    """Yield the statements that fetch what the first tile begins with."""
    for fetch in sorted(_fetches(request), key=lambda fetch: fetch.slot):
        if fetch.slot < 0:
            yield fetch.text(0)
    yield "summed = zeros()"


@dataclass(frozen=True)
class _Fetch:
    """A fetch of two k-steps of an operand for one part: before which k-step of the tile, below 0 in the one before."""

    slot: int
    operand: str
    first: int
    """The number of the first of the two fragments."""
    step: int
    where: str

    def text(self, buffer: int) -> str:
        names = f"{self.operand}{self.first}, {self.operand}{self.first + 1}"
        return f"{names} = fetch_{self.operand}({self.operand}_words{buffer}, {self.step}{self.where})"


def _sums(request: FastMatmulRequest) -> int:
    """Sums of a K tile, one after the other."""
    return request.block_k // SUMMED_K


def _steps(request: FastMatmulRequest) -> int:
    """k-steps of a sum."""
    return SUMMED_K // request.tiling.unit.shape[2]


def _turns(request: FastMatmulRequest) -> list[tuple[int, int]]:
    """Return row and column of the parts, in the order in which they are multiplied."""
    rows, columns = map(range, request.parts)
    if streamed(request.parts) == "b":
        return list(product(rows, columns))
    return [(row, column) for column, row in product(columns, rows)]


def _fetches(request: FastMatmulRequest) -> Iterator[_Fetch]:
    """Yield the fetches of a K tile.

    Fragments of the streamed operand arrive one k-step before they are needed; those of the other are fetched anew
    when another part of it comes, as soon as the k-steps before are multiplied.
    """
    turns, steps = _turns(request), _steps(request)
    streams = streamed(request.parts)
    for number in range(_sums(request)):
        for turn, place in enumerate(turns):
            for pair in range(steps // 2):
                slot = (number * len(turns) + turn) * steps + 2 * pair
                for operand, part, before in zip("ab", place, turns[turn - 1], strict=True):
                    if operand != streams and turn and part == before:
                        continue
                    where = f", {part}" if request.operands[operand].parts > 1 else ""
                    early = 2 if pair and operand != streams else 1
                    yield _Fetch(slot - early, operand, 2 * pair, number * steps // 2 + pair, where)


def turn_lines(request: FastMatmulRequest, current: int, following: int, prefetch: bool) -> Iterator[str]:
    """Yield the statements of a K tile whose parts take turns: each sums 16 k before the next one begins.

    Parts that follow each other share the fragments of one operand, which are held; those of the other are streamed.
    The sums of a part are added to its product while the next part is multiplied, those of the last part while the
    next tile begins. The next tile comes in portions, some for each 16 k, so that few are in registers at once. The
    barrier stands in front of the last two k-steps, which read nothing more from this tile's buffers.
    """
    turns, steps = _turns(request), _steps(request)
    slots = _sums(request) * len(turns) * steps
    events: dict[int, list[tuple[int, str]]] = defaultdict(list)
    if prefetch:
        for slot, order, text in _copies(request, following, len(turns) * steps):
            events[slot].append((order, text))
        events[slots - BARRIER].append((1, barrier(current, following)))
    for fetch in _fetches(request):
        if fetch.slot >= 0:
            events[fetch.slot].append((3, fetch.text(current)))
        elif prefetch:
            events[slots + fetch.slot].append((3, fetch.text(following)))
    for slot in range(slots):
        for _, text in sorted(events[slot], key=lambda event: event[0]):
            yield text
        turn, step = divmod(slot, steps)
        part, earlier = (
            row * request.parts[1] + across for row, across in (turns[turn % len(turns)], turns[turn % len(turns) - 1])
        )
        sums = "partial" if step else "zeros()"
        fragments = f"operand_a(a{step}), operand_b(b{step})"
        if step == steps - 1:
            yield "stay(k)"
        if step < len(ADDED_AT):
            yield f"partial, product{earlier} = mma_adding({sums}, {fragments}, product{earlier}, summed, ADDING{step})"
        else:
            yield f"partial = mma({sums}, {fragments})"
        if step == steps - 1:
            yield "summed = partial"
    if not prefetch:
        yield f"product{part} = add(product{part}, summed)"


def _copies(request: FastMatmulRequest, following: int, slots: int) -> Iterator[tuple[int, int, str]]:
    """Yield the statements that bring the next tile: before which k-step, and the order of those of one k-step.

    `slots` are the k-steps of one sum of all parts; during each, some portions of both operands are brought.
    """
    places = COPIED[request.a_order, request.b_order]
    for operand, halves in zip("ab", places, strict=True):
        axis = "m" if operand == "a" else "n"
        found = portions(request, operand)
        share = -(-len(found) // _sums(request))
        last = 0
        for number, portion in enumerate(found):
            begin = number // share * slots
            loaded, stored = (slot * slots // SLOTS for slot in halves[2 * (number % share) // share])
            load = f"load_{operand}({portion.pointer}, {portion.index}, {axis} - {AXES[axis]}, whole)"
            yield begin + loaded, 2, f"{portion.name} = {load}"
            store = f"store_{operand}({operand}_buffer{following}{portion.buffer}, {portion.name})"
            yield begin + min(max(stored, loaded + 1), slots - BARRIER), 0, store
            last = begin + loaded
        yield last, 2, f"{operand}_pointer = ahead({operand}_pointer, {request.block_k}, stride_{operand}k, wide)"


def adding_view(request: FastMatmulRequest) -> AddingView:
    """Return the inline assembly of the k-steps that add sums of the part before to its product.

    A call takes some of a unit's sums, as many as `ADDED_AT` says, and leaves the others' products as they are.
    """
    atom = request.words.tiling.atom
    pack, outputs = atom.accumulator.elements, atom.accumulator.words
    first_a, first_b, summed = 2 * outputs, 2 * outputs + pack, 4 * outputs + 2 * pack
    c = [f"${i}" for i in range(outputs)]
    a = [f"${first_a + 2 * i}" for i in range(atom.a.words)]
    b = [f"${first_b + 2 * i}" for i in range(atom.b.words)]
    multiplied = ", ".join("{" + ", ".join(group) + "}" for group in (c, a, b, c))
    steps, first = [], 0
    for k_step, count in enumerate(ADDED_AT):
        added = [f"add.rn.f32 ${outputs + i}, ${outputs + i}, ${summed + i};" for i in range(first, first + count)]
        lines = [f"{atom.instruction} ", f"{multiplied}; "]
        lines += [" ".join(added[i : i + 3]) + " " * (i + 3 < count) for i in range(0, count, 3)]
        steps.append((f"ADDING{k_step}", tuple(lines)))
        first += count
    operands = ["=&f"] * (2 * outputs), ["r"] * (2 * pack), map(str, range(2 * outputs)), ["f"] * outputs
    constraints = [",".join(group) for group in operands]
    return AddingView(tuple(steps), (*(f"{group}," for group in constraints[:-1]), constraints[-1]), pack)
