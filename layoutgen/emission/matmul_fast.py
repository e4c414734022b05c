"""From a request for the fast design of matmul to the values that its template receives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from layoutgen.algebra import LinearLayout
from layoutgen.emission.matmul_around import around
from layoutgen.emission.matmul_sums import adding_view, barrier, fetch_ahead, first_portions, turn_lines
from layoutgen.emission.views import AXES, LayoutView, MmaView, layout_view, legend, regrouped
from layoutgen.kernels.matmul import B_ORDERS
from layoutgen.kernels.matmul_fast import A_ORDERS, K_LIMIT, FastMatmulRequest
from layoutgen.kernels.matmul_layouts import Operand
from layoutgen.tiling.tile import hardware_order
from layoutgen.tiling.words import WORD_BYTES, Words


@dataclass(frozen=True)
class OperandView:
    """One operand in the emitted source: names, literals and expressions."""

    name: str
    axis: str
    size: str
    tile: LayoutView
    fragment: LayoutView
    extent: int
    """Rows or columns that are loaded at once, and k."""
    extent_k: int
    masked: bool
    """Whether tiles beyond the matrix are masked along its rows (columns), rather than repeating the last one."""
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
        "adding": adding_view(request) if request.summed_by_part else None,
        "k_limit": K_LIMIT // (4 if request.operand_dtype else 1),  # the parts of fp32 operands are three times as deep
        "copied": list(copied_lines(request)),
        "first": list(first_lines(request)),
        "even": list(tile_lines(request, 0, 1, "", prefetch=True)),
        "odd": list(tile_lines(request, 1, 0, "_next", prefetch=True)),
        "last_even": list(tile_lines(request, 0, 1, "", prefetch=False)),
        "last_odd": list(tile_lines(request, 1, 0, "", prefetch=False)),
        "whole": " and ".join(
            f"{way.size} % {request.block_m if way.name == 'a' else request.block_n} == 0"
            for way in (_operand_view(request, name, names["register"]) for name in "ab")
            if way.masked
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
    repeated = way.along_k and not request.summed_by_part
    loading = way.portion if request.summed_by_part else way.staging.loaded
    loaded_rows, loaded_columns = loading.shape
    loaded = layout_view(
        f"TILE_{upper}",
        f"A {'portion' if request.summed_by_part else 'tile'} of {upper} as it is loaded, "
        f"[{'k, ' * (not way.along_k)}{axis}{', k' * way.along_k}].",
        loading,
        (axis, "k") if way.along_k else ("k", axis),
        _numbered(loading),
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
        extent=loaded_rows if way.along_k else loaded_columns,
        extent_k=loaded_columns if way.along_k else loaded_rows,
        masked=not repeated,
        axis_dim=1 if way.along_k else 0,
        k_dim=0 if way.along_k else 1,
        axis_index="[:, None]" if way.along_k else "[None, :]",
        k_index="[None, :]" if way.along_k else "[:, None]",
        buffer=str(list(way.buffer)),
        word_buffer=str([groups, vectors, group, per_vector]),
        split=str([loaded_rows // group, group, loaded_columns // vector, vector]),
        order=str([0, 2, 1, 3]),
        slice_dim=1 if way.along_k else 0,
        fetch=fetch,
        strided=across if way.along_k else along,
        contiguous=along if way.along_k else across,
        part="" if way.parts == 1 else f"words.slice({inner} * part, {inner}, dim={outer})",
        load_parameters="pointer" if repeated else "pointer, index, left, whole: gl.constexpr",
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


def copied_lines(request: FastMatmulRequest) -> Iterator[str]:
    """Yield the statements that load and store the K tile that may reach beyond K."""
    if request.summed_by_part:
        yield from first_portions(request)
        return
    for name, axis in (("a", "m"), ("b", "n")):
        inside = f"({name}_k < left) & ({AXES[axis]} + {name}_{AXES[axis]} < {axis})"
        yield f"{name}_tile = gl.load({name}_pointer + skipped * stride_{name}k, mask={inside}, other=0.0)"
        yield f"store_{name}({name}_buffer0, {name}_tile)"


def first_lines(request: FastMatmulRequest) -> Iterator[str]:
    """Yield the statements that fetch what the first tile begins with."""
    if request.summed_by_part:
        yield from fetch_ahead(request)
        return
    yield f"a0, a1 = {_fetch(request, 'a', 0, 0, 0)}"
    yield f"b0, b1 = {_fetch(request, 'b', 0, 0, 0)}"


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


def _fetch_count(request: FastMatmulRequest) -> int:
    """Fetches of two k-steps in a K tile."""
    return request.block_k // (2 * request.tiling.unit.shape[2])


def tile_lines(request: FastMatmulRequest, current: int, following: int, suffix: str, prefetch: bool) -> Iterator[str]:
    """Yield the statements that multiply the K tile of one pair of buffers, and bring the next tile into the other.

    A fetch reads the fragments of two k-steps, those of A for one part of the rows, while what was fetched before is
    multiplied. The next tile's loads come first; its stores in the middle, A's before B's loads, so that the two need
    not be in registers together. In front of the last part is the tile's barrier, and behind it the next's first fetch.

    """
    if request.summed_by_part:
        yield from turn_lines(request, current, following, prefetch)
        return
    steps, parts = _fetch_count(request), request.parts[0]
    a_stored, b_stored = _stored_behind(steps, parts)
    for step, part in product(range(steps), range(parts)):
        last = (step, part) == (steps - 1, parts - 1)
        if prefetch and step == part == 0:
            yield f"a_tile = {_load(request, 'a', suffix)}"
        if last and prefetch:
            yield barrier(current, following)
        if not last:
            ahead = step * parts + part + 1
            yield f"next_a0, next_a1 = {_fetch(request, 'a', current, *divmod(ahead, parts))}"
            if part == parts - 1:
                yield f"next_b0, next_b1 = {_fetch(request, 'b', current, step + 1, 0)}"
        elif prefetch:
            yield f"next_a0, next_a1 = {_fetch(request, 'a', following, 0, 0)}"
            yield f"next_b0, next_b1 = {_fetch(request, 'b', following, 0, 0)}"
        yield f"product{part} = multiply(product{part}, a0, a1, b0, b1)"
        if not last or prefetch:
            yield "a0, a1 = next_a0, next_a1"
            if part == parts - 1:
                yield "b0, b1 = next_b0, next_b1"
        if prefetch and (step, part) == a_stored:
            yield f"store_a(a_buffer{following}, a_tile)"
            yield f"b_tile = {_load(request, 'b', suffix)}"
        if prefetch and (step, part) == b_stored:
            yield f"store_b(b_buffer{following}, b_tile)"


def _stored_behind(steps: int, parts: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the step and part behind which the next tile of A, and of B, is stored.

    A tile of two fetches is short: its loads have barely come when its last part begins, and stores behind the first
    part leave the compiler the most room to place both.
    """
    if steps <= 2:
        return (0, 0), (0, 0)
    return (steps // 2 - 1, parts - 1), (steps - 2, parts - 1)
