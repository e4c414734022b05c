"""Literals of the fast design of attention: its layouts, tiles and operands, and how P is taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from layoutgen.algebra import LinearLayout, Space
from layoutgen.algebra.operations import without_copies
from layoutgen.emission.views import LayoutView, OperandView, layout_view, operand_view, regrouped
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.plan.rows import RowStaging
from layoutgen.tiling import Relabelling, Tiling
from layoutgen.tiling.divided import copied
from layoutgen.tiling.relabelling import relabel
from layoutgen.tiling.tile import hardware_order


@dataclass(frozen=True)
class TileView:
    """A tile on its way through shared memory: who loads what, and the bases of its buffer by offset."""

    loaded: LayoutView
    buffer: str
    offsets: str
    shape: str
    comment: str


@dataclass(frozen=True)
class Operand:
    """A function that relabels a fragment; `before` is applied first, `accumulator` is the layout it ends in."""

    view: OperandView
    what: str
    before: str
    accumulator: str


@dataclass(frozen=True)
class Part:
    """One part of the head dim of Q and K, columns start to stop."""

    suffix: str
    start: int
    stop: int
    vectors: int
    query: TileView
    key: TileView


@dataclass(frozen=True)
class ValuePart:
    """One part of the head dim of V and O, columns start to stop."""

    suffix: str
    start: int
    stop: int
    value: TileView
    turn_bit: int
    output_shape: str
    store_mask: str

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def offset(self) -> str:
        """What is added to a column index within the part."""
        return f"{self.start} + " if self.start else ""

    @property
    def matrix(self) -> str:
        return f"MATRIX_O{self.size}"

    @property
    def accumulator(self) -> str:
        return f"ACCUMULATOR_O{self.size}"

    @property
    def fragment(self) -> str:
        return f"FRAGMENT_V{self.size}"

    @property
    def operand_p(self) -> str:
        return f"operand_p{self.size}"

    @property
    def operand_v(self) -> str:
        return f"operand_v{self.size}"


@dataclass(frozen=True)
class Cut:
    """One cut of S into two halves of its keys."""

    low: str
    high: str
    source: str
    columns: int


@dataclass(frozen=True)
class Piece:
    """One group of keys: its scores, V's first row in the buffer, and the comment that tells it from the others."""

    scores: str
    row: int
    what: str


@dataclass(frozen=True)
class WeightSumsView:
    """How the weights are put before the sum over a thread's own keys, and the shape of the sums."""

    split: str
    order: str
    shape: str
    sums_shape: str


def bit_names(request: FastAttentionRequest) -> dict[str, list[str]]:
    """Return the names of the bits of S's hardware dims; cw0, cw1 tell warps apart that share rows."""
    return _with_group(request, request.scores)


def _with_group(request: FastAttentionRequest, tiling: Tiling) -> dict[str, list[str]]:
    names = hardware_order(tiling.unit, tiling.block_m, tiling.block_n, tiling.warps)
    group = [f"cw{bit}" for bit in range(request.column_warps.bit_length() - 1)]
    return {**names, "warp": [*names["warp"], *group]}


def layout_views(request: FastAttentionRequest) -> tuple[LayoutView, ...]:
    """Return the layouts of S, P, O and of the fragments of Q, K and V, with a comment per bit."""
    names, warps = bit_names(request), request.column_warps
    steps = [f"step{bit}" for bit in range(request.steps_fetched.bit_length() - 1)]
    deep = {**names, "register": [*names["register"], *steps]}
    columns = request.columns_fetched
    chain = next(iter(request.chains.values()))
    in_group = {**names, "register": [name for name in names["register"] if name not in chain.group_bits]}
    matrix = layout_view(
        "MATRIX_S", "S = Q K^T as a matrix: who holds which score.", request.matrix_scores, "mn", names
    )
    summed = matrix
    found = [matrix]
    if request.partial_sums is not None:
        stacked = request.score_product.accumulator.reshape((warps * request.block_m, request.block_n))
        comment = f"S as each of {warps} warps sums it over its columns of Q and K: one matrix below the other."
        summed = layout_view("PARTIAL_S", comment, stacked, "mn", names)
        found.append(summed)
        if request.partial_sums.pieces == 2:
            gone = request.matrix_scores.columns.index(request.block_n >> 1)
            kept = {**names, "register": [name for bit, name in enumerate(names["register"]) if bit != gone]}
            half = layout_view("HALF_S", "The half of S with its low columns.", request.partial_sums.sums, "mn", kept)
            found.append(half)
    found += [
        regrouped("ACCUMULATOR_S", summed, request.score_product.grouped),
        _fragment_view("FRAGMENT_Q", f"{columns} columns of Q at once, [m, k].", request.fetched["query"], "mk", deep),
        _fragment_view("FRAGMENT_K", f"{columns} columns of K at once, [n, k].", request.fetched["key"], "nk", deep),
        layout_view(
            "WEIGHTS",
            f"{chain.group} keys of P after the exchange: rows where O's left operand wants them.",
            copied(chain.group_weights, warps),
            "mn",
            in_group,
        ),
        layout_view("GROUP_S", f"{chain.group} keys of S.", copied(chain.group_scores, warps), "mn", in_group),
        layout_view("SUMS", "The sums of a thread's own weights: rows, and lanes of a row.", *_sums_layout(request)),
    ]
    if request.reordered:
        by_keys = layout_view(
            "BY_KEYS", "S as its keys lie in memory: runs of them in a thread.", request.by_keys, "mn", names
        )
        found.append(by_keys)
    for part, chain in request.chains.items():
        own = _with_group(request, chain.second)
        product = request.output_products[part]
        view = layout_view(f"MATRIX_O{part}", f"{part} columns of O as a matrix.", product.accumulator, "md", own)
        value = request.fetched[f"value{part}"]
        found += [
            view,
            regrouped(f"ACCUMULATOR_O{part}", view, product.grouped),
            layout_view(f"FRAGMENT_V{part}", f"{chain.k} keys of V at once, [k, d].", value, "kd", own),
        ]
    return tuple(found)


def _fragment_view(
    name: str, comment: str, fragment: LinearLayout, letters: str, names: dict[str, list[str]]
) -> LayoutView:
    """Return the view of a fragment that is cut into steps, which Triton 3.8 does only without copies in registers."""
    kept = [name for name, basis in zip(names["register"], fragment.bases["register"], strict=True) if any(basis)]
    return layout_view(name, comment, without_copies(fragment), letters, {**names, "register": kept})


def part_views(request: FastAttentionRequest) -> Iterator[Part]:
    """Yield the parts of the head dim of Q and K."""
    for index, (suffix, start, stop) in enumerate(_ranges(request.parts)):
        query, key = (
            _tile(
                f"{kind[0].upper()}{suffix}",
                f"{kind[0].upper()}, columns {start} to {stop - 1}",
                request.stagings[f"{kind}{index}"],
                request.fetched[kind],
            )
            for kind in ("query", "key")
        )
        yield Part(suffix, start, stop, (stop - start) // request.columns_fetched, query, key)


def value_views(request: FastAttentionRequest) -> Iterator[ValuePart]:
    """Yield the parts of the head dim of V and O."""
    stored = row_stored(request, "r")
    for index, (suffix, start, stop) in enumerate(_ranges(request.value_parts)):
        size = stop - start
        rows, fragment = request.stagings[f"value{index}"], request.fetched[f"value{size}"]
        yield ValuePart(
            suffix=suffix,
            start=start,
            stop=stop,
            value=_tile(f"V{suffix}", f"V, columns {start} to {stop - 1}", rows, fragment),
            turn_bit=request.chains[size].flip[0],
            output_shape=str(list(request.output_products[size].shape)),
            store_mask=stored if stop <= request.value_dim else f"({stored}) & (d < {request.value_dim})",
        )


def row_stored(request: FastAttentionRequest, row: str) -> str:
    """Return the condition on which a row of a block is stored.

    How many queries are left would stay in a register through the loops, and beside sinks of head dim 128 there is
    none; the first query is computed again.
    """
    return f"first_query + {row} < t_q" if request.sinks else f"{row} < queries"


def _ranges(parts: tuple[int, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield the suffix of each part's names, its first column and the one after its last."""
    start = 0
    for index, size in enumerate(parts):
        yield f"{index}" if len(parts) > 1 else "", start, start + size
        start += size


def buffer_offsets(buffer: LinearLayout) -> str:
    """Return the bases of a buffer by offset."""
    return str([list(buffer.codomain.unpack(column)) for column in buffer.columns])


def _tile(name: str, what: str, rows: RowStaging, fragment: LinearLayout) -> TileView:
    bits = {dim: [f"{dim}{bit}" for bit in range(len(bases))] for dim, bases in rows.loaded.bases.items()}
    stored, fetched = rows.stored_access, rows.fetched_access(fragment)
    return TileView(
        loaded=layout_view(f"TILE_{name}", what, rows.loaded, "rc", bits),
        buffer=f"BUFFER_{name}",
        offsets=buffer_offsets(rows.buffer),
        shape=str(list(rows.shape)),
        comment=(
            f"{what}: a warp stores {stored.instructions} x {8 * stored.width_bytes} bits in {stored.wavefronts} "
            f"wavefronts ({stored.minimum} at least), a step fetches {fetched.instructions} x "
            f"{8 * fetched.width_bytes} in {fetched.wavefronts} ({fetched.minimum})."
        ),
    )


def operand_views(request: FastAttentionRequest) -> Iterator[Operand]:
    """Yield the functions that relabel fragments of Q, K, P and V."""
    scores = request.score_product
    yield Operand(operand_view("operand_q", "FRAGMENT_Q", scores.relabel_a), "A k-step of Q", "", "ACCUMULATOR_S")
    yield Operand(operand_view("operand_k", "FRAGMENT_K", scores.relabel_b), "A k-step of K", "", "ACCUMULATOR_S")
    for part, chain in request.chains.items():
        product = request.output_products[part]
        view = operand_view(f"operand_p{part}", "WEIGHTS", product.relabel_a)
        yield Operand(view, f"A step's weights, told apart by {chain.gathered[0]},", "", f"ACCUMULATOR_O{part}")
        view = operand_view(f"operand_v{part}", f"FRAGMENT_V{part}", product.relabel_b)
        yield Operand(view, f"{chain.k} keys of V", ".permute([1, 0])", f"ACCUMULATOR_O{part}")


def cut_scores(keys: int, group: int, called: str = "keys") -> tuple[list[Cut], list[Piece]]:
    """Return the cuts that take S apart into groups of keys, and the groups."""
    cuts: list[Cut] = []
    names = ["scores"]
    columns = keys
    while columns > group:
        half = columns // 2
        pieces = [f"scores_{start}_{start + half}" for start in range(0, keys, half)]
        lows, highs = pieces[::2], pieces[1::2]
        cuts += [Cut(low, high, name, columns) for low, high, name in zip(lows, highs, names, strict=True)]
        names, columns = pieces, half
    firsts = range(0, keys, group)
    return cuts, [
        Piece(name, first, f"{called} {first} to {first + group - 1}")
        for name, first in zip(names, firsts, strict=True)
    ]


def exchanged_bits(source: LinearLayout, target: LinearLayout, names: dict[str, list[str]]) -> tuple[str, str]:
    """Return the lane bit and the register bit that trade places between two layouts."""
    bits = [name for dim in ("register", "lane", "warp") for name in names[dim]]
    moved = [bit for bit, (a, b) in enumerate(zip(source.columns, target.columns, strict=True)) if a != b]
    register, lane = moved
    return bits[lane], bits[register]


def _sums_bits(scores: LinearLayout) -> tuple[list[int], list[int]]:
    """Return the key bits that lie in registers and those that lie in lanes, low first."""
    keys = scores.codomain.bits_of("dim1")
    registers = scores.domain.bits_of("register")
    own = {c.bit_length() - 1 for c in scores.columns[:registers] if 0 < c < 1 << keys}
    return sorted(own), [bit for bit in range(keys) if bit not in own]


def weight_sums_view(request: FastAttentionRequest) -> WeightSumsView:
    """Return how a thread sums its own weights of a group of keys."""
    scores = next(iter(request.chains.values())).group_scores
    own, lanes = _sums_bits(scores)
    codomain = scores.codomain
    rows = range(codomain.bits_of("dim1"), codomain.bits)
    target = Space.of_shape((request.block_m, 1 << len(lanes), 1 << len(own)))
    how: Relabelling = relabel((*own, *lanes, *rows), codomain, target)
    return WeightSumsView(
        str(list(how.split)), str(list(how.order)), str(list(how.shape)), str([request.block_m, 1 << len(lanes)])
    )


def _sums_layout(request: FastAttentionRequest) -> tuple[LinearLayout, str, dict[str, list[str]]]:
    """Return the layout of the sums, its coordinates and the names of its bits: registers that held keys are gone."""
    chain = next(iter(request.chains.values()))
    scores, names = chain.group_scores, bit_names(request)
    names = {**names, "register": [name for name in names["register"] if name not in chain.group_bits]}
    _, lanes = _sums_bits(scores)
    keys = scores.codomain.bits_of("dim1")
    kept = [bit for bit, c in enumerate(scores.columns) if not 0 < c < 1 << keys or c.bit_length() - 1 in lanes]
    codomain = Space.of_shape((request.block_m, 1 << len(lanes)))
    columns = []
    for bit in kept:
        row, key = scores.codomain.unpack(scores.columns[bit])
        columns.append(codomain.pack((row, 1 << lanes.index(key.bit_length() - 1) if key else 0)))
    gone = scores.domain.bits - len(kept)
    registers = scores.domain.bits_of("register")
    domain = replace(
        scores.domain,
        dims=tuple((dim, bits - gone if dim == "register" else bits) for dim, bits in scores.domain.dims),
    )
    named = {
        **names,
        "register": [name for bit, name in enumerate(names["register"]) if bit in kept and bit < registers],
    }
    return copied(LinearLayout(domain, codomain, tuple(columns)), request.column_warps), "ml", named
