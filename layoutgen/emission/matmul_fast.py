"""From a request for the fast design of matmul to the values that its template receives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from layoutgen.algebra import LinearLayout
from layoutgen.emission.matmul_around import around
from layoutgen.emission.views import AddingView, LayoutView, MmaView, layout_view, legend, regrouped
from layoutgen.kernels.matmul import B_ORDERS
from layoutgen.kernels.matmul_fast import A_ORDERS, FastMatmulRequest
from layoutgen.kernels.matmul_layouts import Operand
from layoutgen.tiling.tile import hardware_order
from layoutgen.tiling.words import WORD_BYTES, Words

AXES = {"m": "row", "n": "column"}


@dataclass(frozen=True)
class OperandView:
    """One operand in the emitted source: names, literals and expressions."""

    name: str
    axis: str
    size: str
    tile: LayoutView
    fragment: LayoutView
    block: int
    axis_dim: int
    k_dim: int
    axis_index: str
    k_index: str
    buffer: str
    word_buffer: str
    split: str
    order: str
    slice_dim: int
    fetch: str
    strided: str
    contiguous: str
    part: str
    load_parameters: str
    fetch_parameters: str
    fetched: str
    relabelled: tuple[str, str, str]
    along_k: bool
    shape: str
    unpack: str
    stride_order: str
    cost: str


def fast_matmul_context(request: FastMatmulRequest) -> dict[str, Any]:
    words = request.words
    names = hardware_order(words.tiling.unit, *request.part, request.warps)
    matrix = layout_view(
        "MATRIX_C",
        "The accumulator of C = A B as a matrix: who holds which element.",
        words.tiling.accumulator,
        "mn",
        names,
    )
    return {
        "legend": legend(words.tiling),
        "matrix": matrix,
        "accumulator": regrouped("ACCUMULATOR_C", matrix, words.grouped),
        "a": _operand_view(request, "a", names["register"]),
        "b": _operand_view(request, "b", names["register"]),
        "mma": word_mma_view(words),
        "shape": str(list(words.shape)),
        "parts": [
            (number, row * request.part[0], column * request.part[1])
            for number, (row, column) in enumerate(product(*map(range, request.parts)))
        ],
        "part": str(list(request.part)),
        "part_m": request.part[0],
        "part_n": request.part[1],
        "block_m": request.block_m,
        "block_n": request.block_n,
        "block_k": request.block_k,
        "dtype": request.dtype,
        "c_dtype": request.c_dtype,
        "group_m": request.group_m,
        "tile": request.accumulate == "tile",
        "adding": adding_view(request),
        "plain_mma": len(request.added_at) < request.block_k // words.tiling.unit.shape[2]
        or not request.summed_by_part,
        "first": list(first_lines(request)),
        "even": list(tile_lines(request, 0, 1, "", prefetch=True)),
        "odd": list(tile_lines(request, 1, 0, "_next", prefetch=True)),
        "last_even": list(tile_lines(request, 0, 1, "", prefetch=False)),
        "last_odd": list(tile_lines(request, 1, 0, "", prefetch=False)),
        "whole": " and ".join(
            f"{way.size} % {way.block} == 0"
            for way in (_operand_view(request, name, names["register"]) for name in "ab")
            if not way.along_k
        )
        or "True",
        **around(request),
    }


def word_mma_view(words: Words) -> MmaView:
    """Return the inline assembly that hands the words of one k-step to the atom.

    Every operand arrives with one word per accumulator. A word is a pair of elements, so that two neighbouring
    accumulators bring the same one, and every other is read.
    """
    atom = words.tiling.atom
    pack, outputs = atom.accumulator.elements, atom.accumulator.words
    a = [f"${outputs + 2 * i}" for i in range(atom.a.words)]
    b = [f"${outputs + pack + 2 * i}" for i in range(atom.b.words)]
    c = [f"${i}" for i in range(outputs)]
    text = ", ".join("{" + ", ".join(group) + "}" for group in (c, a, b, c))
    constraints = ["=f"] * outputs + ["r"] * (2 * pack) + [str(i) for i in range(outputs)]
    note = (
        f"A call takes {pack} accumulators of a thread; an operand arrives as {pack} words, of which two neighbours\n"
        f"    are alike, and {atom.a.words} hold its {atom.a.elements} elements."
    )
    return MmaView(atom.instruction, f"{text};", ",".join(constraints), pack, note)


def _operand_view(request: FastMatmulRequest, name: str, registers: list[str]) -> OperandView:
    way = request.operands[name]
    words, upper = request.words, name.upper()
    axis = "m" if name == "a" else "n"
    groups, vectors, group, vector = way.buffer
    per_vector = vector * request.element_bytes // WORD_BYTES
    block, k = way.words.shape
    relabelling = words.relabelling(name)
    loaded = layout_view(
        f"TILE_{upper}",
        f"A tile of {upper} as it is loaded, [{'k, ' * (not way.along_k)}{axis}{', k' * way.along_k}].",
        way.staging.loaded,
        (axis, "k") if way.along_k else ("k", axis),
        _numbered(way.staging.loaded),
    )
    part = [groups // way.parts, 1, group, per_vector] if way.along_k else [1, vectors // way.parts, group, per_vector]
    fragment = layout_view(
        f"FRAGMENT_{upper}",
        f"What one fetch of {upper} reads: the groups g, vectors v, rows r and words w of its part of the buffer.",
        way.fetch_words,
        "gvrw",
        {
            **hardware_order(words.tiling.unit, *request.part, request.warps),
            "register": _fetched(way, request, registers),
        },
    )
    assert list(way.fetch_words.shape) == part
    store, cost = way.staging.stored_access, way.staging.fetched_access(way.fetch)
    across = f"{name}_{AXES[axis]} * stride_{name}{axis}"
    along = f"{name}_k * stride_{name}k"
    order = request.a_order if name == "a" else request.b_order
    usual = order in ("mk", "kn")
    if way.along_k:
        fetch = f"fragment.reshape([{block}, {way.steps}, {k}]).permute([0, 2, 1]).split()"
        inner, outer = part[0], 0
    else:
        fetch = f"fragment.permute([0, 1, 3, 2]).reshape([{block}, {k}])"
        inner, outer = part[1], 1
    return OperandView(
        name=name,
        axis=AXES[axis],
        size=axis,
        tile=loaded,
        fragment=fragment,
        block=request.block_m if name == "a" else request.block_n,
        axis_dim=1 if way.along_k else 0,
        k_dim=0 if way.along_k else 1,
        axis_index="[:, None]" if way.along_k else "[None, :]",
        k_index="[None, :]" if way.along_k else "[:, None]",
        buffer=str(list(way.buffer)),
        word_buffer=str([groups, vectors, group, per_vector]),
        split=str([groups, group, vectors, vector]),
        order=str([0, 2, 1, 3]),
        slice_dim=1 if way.along_k else 0,
        fetch=fetch,
        strided=across if way.along_k else along,
        contiguous=along if way.along_k else across,
        part="" if way.parts == 1 else f"words.slice({inner} * part, {inner}, dim={outer})",
        load_parameters="pointer" if way.along_k else "pointer, index, left, whole: gl.constexpr",
        fetch_parameters="words, step" if way.parts == 1 else "words, step, part",
        fetched=f"all {AXES[axis]}s" if way.parts == 1 else f"one part of the {AXES[axis]}s",
        relabelled=(str(list(relabelling.split)), str(list(relabelling.order)), str(list(relabelling.shape))),
        along_k=way.along_k,
        shape=(A_ORDERS if name == "a" else B_ORDERS)[order].split("]")[0] + "]",
        unpack=", ".join("k_b" if letter == "k" and name == "b" else letter for letter in order),
        stride_order="(-2, -1)" if usual else "(-1, -2)",
        cost=(
            f"a warp stores a tile in {store.instructions} x {8 * store.width_bytes} bits, {store.wavefronts} "
            f"wavefronts ({store.minimum} at least), and fetches {cost.instructions} x {8 * cost.width_bytes} bits in "
            f"{cost.wavefronts} ({cost.minimum})"
        ),
    )


def _numbered(layout: LinearLayout) -> dict[str, list[str]]:
    letters = {"register": "e", "lane": "l", "warp": "w", "block": "c"}
    return {dim: [f"{letters[dim]}{i}" for i in range(len(bases))] for dim, bases in layout.bases.items()}


def _fetched(way: Operand, request: FastMatmulRequest, registers: list[str]) -> list[str]:
    """Return the names of a fetch's registers: those of the fragment that are no copies, without the pair's own bit."""
    tiling = request.tiling
    fragment = tiling.fragment_a if way.name == "a" else tiling.fragment_b
    kept = [name for name, column in zip(registers, fragment.columns, strict=False) if column][1:]
    if way.along_k:
        own = len(tiling.atom.fragment(way.name).register_names) - 1
        kept[own:own] = [f"s{bit}" for bit in range(way.steps.bit_length() - 1)]
    return kept


def first_lines(request: FastMatmulRequest) -> Iterator[str]:
    """Yield the statements that fetch what the first tile begins with."""
    yield f"a0, a1 = {_fetch(request, 'a', 0, 0, 0)}"
    yield f"b0, b1 = {_fetch(request, 'b', 0, 0, 0)}"
    if request.summed_by_part:
        yield "summed = zeros()"


def _load(request: FastMatmulRequest, name: str, suffix: str) -> str:
    """Return the call that loads a tile of an operand."""
    if request.operands[name].along_k:
        return f"load_{name}({name}_pointer{suffix})"
    size = "m" if name == "a" else "n"
    return f"load_{name}({name}_pointer{suffix}, {name}_{AXES[size]}, {size} - {AXES[size]}, whole)"


def _fetch(request: FastMatmulRequest, name: str, buffer: int, step: int, part: int) -> str:
    """Return the call that fetches two k-steps of one part of an operand."""
    where = f", {part}" if request.operands[name].parts > 1 else ""
    return f"fetch_{name}({name}_words{buffer}, {step}{where})"


def _fetches(request: FastMatmulRequest) -> int:
    """Fetches of two k-steps in a K tile."""
    return request.block_k // (2 * request.tiling.unit.shape[2])


def _barrier(current: int, following: int) -> str:
    return f"gl.barrier()  # buffers {following} are filled, and all has been read from buffers {current}"


def tile_lines(request: FastMatmulRequest, current: int, following: int, suffix: str, prefetch: bool) -> Iterator[str]:
    """Yield the statements that multiply the K tile of one pair of buffers, and bring the next tile into the other.

    A fetch reads the fragments of two k-steps, those of A for one part of the rows, while what was fetched before is
    multiplied. The next tile's loads come first; its stores in the middle, A's before B's loads, so that the two need
    not be in registers together. In front of the last part is the tile's barrier, and behind it the next's first fetch.

    When tiles are added apart, a part begins its sum from zero at the first step, and is added to its product behind
    the last one, while the next part is multiplied. No sum lives from one tile to the next, which would cost copies.
    """
    if request.summed_by_part:
        yield from _parts_in_turn(request, current, following, suffix, prefetch)
        return
    steps, parts, apart = _fetches(request), request.parts[0], request.accumulate == "tile"
    a_stored, b_stored = _stored_behind(steps, parts)
    for step, part in product(range(steps), range(parts)):
        last = (step, part) == (steps - 1, parts - 1)
        if prefetch and step == part == 0:
            yield f"a_tile = {_load(request, 'a', suffix)}"
        if last and prefetch:
            yield _barrier(current, following)
        if not last:
            ahead = step * parts + part + 1
            yield f"next_a0, next_a1 = {_fetch(request, 'a', current, *divmod(ahead, parts))}"
            if part == parts - 1:
                yield f"next_b0, next_b1 = {_fetch(request, 'b', current, step + 1, 0)}"
        elif prefetch:
            yield f"next_a0, next_a1 = {_fetch(request, 'a', following, 0, 0)}"
            yield f"next_b0, next_b1 = {_fetch(request, 'b', following, 0, 0)}"
        result = f"sum{part}" if apart else f"product{part}"
        yield f"{result} = multiply({'zeros()' if apart and step == 0 else result}, a0, a1, b0, b1)"
        if apart and step == steps - 1 and part > 0:
            yield f"product{part - 1} = add(product{part - 1}, sum{part - 1})"
        if not last or prefetch:
            yield "a0, a1 = next_a0, next_a1"
            if part == parts - 1:
                yield "b0, b1 = next_b0, next_b1"
        if prefetch and (step, part) == a_stored:
            yield f"store_a(a_buffer{following}, a_tile)"
            yield f"b_tile = {_load(request, 'b', suffix)}"
        if prefetch and (step, part) == b_stored:
            yield f"store_b(b_buffer{following}, b_tile)"
    if apart:
        yield f"product{parts - 1} = add(product{parts - 1}, sum{parts - 1})"


def _parts_in_turn(
    request: FastMatmulRequest, current: int, following: int, suffix: str, prefetch: bool
) -> Iterator[str]:
    """Yield the statements of a K tile of two fetches whose parts sum all of it, one after the other.

    Parts that follow each other share the fragments of one operand, which are held; those of the other arrive while
    two k-steps are multiplied for the next two. The sums of a part are added to its product while the next part is
    multiplied, those of the last part while the next tile begins. The barrier stands in front of the last two k-steps,
    which read nothing more from this tile's buffers.
    """
    streams = request.streamed or "b"
    held = "b" if streams == "a" else "a"
    turns = _turns(request)
    steps = 2 * len(turns)
    a_stored, b_stored = 3 * steps // 8, steps - 2
    for step in range(steps):
        turn, pair = divmod(step, 2)
        last = step == steps - 1
        if prefetch:
            if step == 0:
                yield f"a_tile = {_load(request, 'a', suffix)}"
            if step == a_stored:
                yield f"store_a(a_buffer{following}, a_tile)"
                yield f"b_tile = {_load(request, 'b', suffix)}"
            if step == b_stored:
                yield f"store_b(b_buffer{following}, b_tile)"
            if last:
                yield _barrier(current, following)
        if prefetch or not last:
            buffer, (ahead, fetch) = (following, (0, 0)) if last else (current, divmod(step + 1, 2))
            place = dict(zip("ab", turns[ahead], strict=True))
            before = dict(zip("ab", turns[ahead - 1], strict=True))
            if ahead == 0 or place[held] != before[held]:
                names = f"{held}{2 * fetch}, {held}{2 * fetch + 1}"
                yield f"{names} = {_fetch(request, held, buffer, fetch, place[held])}"
            yield f"next_{streams}0, next_{streams}1 = {_fetch(request, streams, buffer, fetch, place[streams])}"
        part, earlier = (row * request.parts[1] + across for row, across in (turns[turn], turns[turn - 1]))
        for half in range(2):
            k_step = 2 * pair + half
            sums = "partial" if k_step else "zeros()"
            a, b = (k_step, half) if held == "a" else (half, k_step)
            fragments = f"operand_a(a{a}), operand_b(b{b})"
            if k_step < len(request.added_at):
                arguments = f"{sums}, {fragments}, product{earlier}, summed, ADDING{k_step}"
                yield f"partial, product{earlier} = mma_adding({arguments})"
            else:
                yield f"partial = mma({sums}, {fragments})"
        if prefetch or not last:
            yield f"{streams}0, {streams}1 = next_{streams}0, next_{streams}1"
        if pair == 1:
            yield "summed = partial"
    if not prefetch:
        yield f"product{part} = add(product{part}, summed)"


def _turns(request: FastMatmulRequest) -> list[tuple[int, int]]:
    """Return row and column of the parts, in the order in which they are multiplied."""
    rows, columns = map(range, request.parts)
    if request.streamed == "b":
        return list(product(rows, columns))
    return [(row, column) for column, row in product(columns, rows)]


def adding_view(request: FastMatmulRequest) -> AddingView | None:
    """Return the inline assembly of the k-steps that add sums of the part before to its product.

    A call takes some of a unit's sums, as many as `request.added_at` says, and leaves the others' products as they are.
    """
    if not request.summed_by_part:
        return None
    atom = request.words.tiling.atom
    pack, outputs = atom.accumulator.elements, atom.accumulator.words
    first_a, first_b, summed = 2 * outputs, 2 * outputs + pack, 4 * outputs + 2 * pack
    c = [f"${i}" for i in range(outputs)]
    a = [f"${first_a + 2 * i}" for i in range(atom.a.words)]
    b = [f"${first_b + 2 * i}" for i in range(atom.b.words)]
    multiplied = ", ".join("{" + ", ".join(group) + "}" for group in (c, a, b, c))
    steps, first = [], 0
    for k_step, count in enumerate(request.added_at):
        added = [f"add.rn.f32 ${outputs + i}, ${outputs + i}, ${summed + i};" for i in range(first, first + count)]
        lines = [f"{atom.instruction} ", f"{multiplied}; "]
        lines += [" ".join(added[i : i + 3]) + " " * (i + 3 < count) for i in range(0, count, 3)]
        steps.append((f"ADDING{k_step}", tuple(lines)))
        first += count
    operands = ["=&f"] * (2 * outputs), ["r"] * (2 * pack), map(str, range(2 * outputs)), ["f"] * outputs
    constraints = [",".join(group) for group in operands]
    return AddingView(tuple(steps), (*(f"{group}," for group in constraints[:-1]), constraints[-1]), pack)


def _stored_behind(steps: int, parts: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the step and part behind which the next tile of A, and of B, is stored.

    A tile of two fetches is short: its loads have barely come when its last part begins, and stores behind the first
    part leave the compiler the most room to place both.
    """
    if steps <= 2:
        return (0, 0), (0, 0)
    return (steps // 2 - 1, parts - 1), (steps - 2, parts - 1)
