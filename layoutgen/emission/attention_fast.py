"""From a request for the fast design of attention to the values that its template receives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from layoutgen.algebra import LinearLayout, Space
from layoutgen.emission.views import (
    TRITON_TYPE,
    LayoutView,
    MmaView,
    OperandView,
    layout_view,
    legend,
    mma_view,
    operand_view,
)
from layoutgen.kernels.attention_fast import ALIGNMENTS, FastAttentionRequest, without_copies
from layoutgen.kernels.request import STATISTICS_DTYPE
from layoutgen.plan.rows import RowStaging
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.tiling import Relabelling
from layoutgen.tiling.relabelling import relabel
from layoutgen.tiling.tile import hardware_order

FLOAT32_MAX = 3.4028234663852886e38


@dataclass(frozen=True)
class TileView:
    """A tile on its way through shared memory: who loads what, and the bases of its buffer by offset."""

    loaded: LayoutView
    buffer: str
    offsets: str
    shape: str
    comment: str


@dataclass(frozen=True)
class Product:
    """A function that issues one atom."""

    function: str
    mma: MmaView


@dataclass(frozen=True)
class Operand:
    """A function that relabels a fragment; `before` is applied first, `accumulator` is the layout it ends in."""

    view: OperandView
    what: str
    before: str
    accumulator: str


@dataclass(frozen=True)
class Part:
    """One part of the head dim, columns start to stop."""

    suffix: str
    start: int
    stop: int
    vectors: int
    query: TileView
    key: TileView
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
    """One cut of P into two halves of its keys."""

    low: str
    high: str
    source: str
    columns: int


@dataclass(frozen=True)
class Piece:
    """One group of keys: its weights, and V's first row in the buffer."""

    weights: str
    row: int


@dataclass(frozen=True)
class Sums:
    """How the weights are put before the sum over a thread's own keys, and the shape of the sums."""

    split: str
    order: str
    shape: str
    sums_shape: str


@dataclass(frozen=True)
class Span:
    """A run of tiles of one kind."""

    start: str
    stop: str
    masked: bool


def fast_attention_context(request: FastAttentionRequest) -> dict[str, Any]:
    """Return the template's values for a request, the header (`about`) excepted."""
    scores = request.scores
    names = _bit_names(request)
    chain = next(iter(request.chains.values()))
    vector = VECTOR_BYTES // request.element_bytes
    parts = list(_parts(request))
    suffixes = [part.suffix for part in parts]
    cuts, pieces = _cuts(request.block_n, chain.group)
    exchanged = _exchange(scores.accumulator, chain.weights, names)
    arrays = "q, k, v, out, lse" + (", bias" if request.bias else "") + (", sinks" if request.sinks else "")
    return {
        "log2_e": repr(math.log2(math.e)),
        "ln_2": repr(math.log(2)),
        "legend": legend(scores),
        "layouts": layouts(request),
        "tiles": [tile for part in parts for tile in (part.query, part.key, part.value)],
        "products": [
            Product("mma_s", mma_view(scores.atom)),
            Product("mma_o", mma_view(chain.second.atom)),
        ],
        "operands": list(_operands(request)),
        "gathered": chain.gathered[0],
        "distance": chain.gathered[1],
        "group": chain.group,
        "turn": 1 << chain.flip[1],
        "exchanged_lane": exchanged[0],
        "exchanged_register": exchanged[1],
        "sums": _sums(request),
        "parts": parts,
        "cuts": cuts,
        "pieces": pieces,
        "spans": _spans(request),
        "left": request.left,
        "right": request.right,
        "aligned": request.left is not None or request.right is not None,
        "bottom_right": request.alignment != ALIGNMENTS[0],
        # Where a row may have seen no key yet, its weights are taken against 0 and not against -inf.
        "rows_may_be_blind": request.left is not None
        or (request.right is not None and _blind(request))
        or request.bias,
        "masked_rows": "if masked:" if not request.bias else None,
        "bias": request.bias,
        "in_log2": request.softcap is not None or request.bias,
        "reordered": request.reordered,
        "key_bits": _key_bits(request),
        "to_scores": _to_scores(request),
        "least_bias": repr(-FLOAT32_MAX * math.log(2) * (1 - 2**-20)),
        "softcap": request.softcap,
        "cap": repr((request.softcap or 0) * math.log2(math.e)),
        "slope": repr(2 / (request.softcap or 1)),
        "sinks": request.sinks,
        "o_dtype": request.o_dtype,
        "more_shapes": (", bias [B, H, Tq, Tk]" if request.bias else "") + (", sinks [H]" if request.sinks else ""),
        "bias_dtype": f"bias {request.dtype} or {STATISTICS_DTYPE}, " if request.bias else "",
        "float32": "".join(
            [", out" if request.o_dtype == STATISTICS_DTYPE else "", " and sinks" if request.sinks else ""]
        ),
        "buffers": [f"{kind}_buffer{suffix}" for kind in "qkv" for suffix in suffixes],
        "state": [*(f"{kind}{suffix}" for kind in ("value", "output") for suffix in suffixes), "row_max", "row_sum"],
        "scores_shape": str(list(scores.shape)),
        "k": chain.k,
        "vector": vector,
        "block_m": request.block_m,
        "block_n": request.block_n,
        "rows_per_warp": request.block_m // request.num_warps,
        "columns": sum(request.parts),
        "head_dim": request.head_dim,
        "dtype": request.dtype,
        "overhang": sum(request.parts) > request.head_dim,
        "overhang_text": ", as are columns beyond the head dim" if sum(request.parts) > request.head_dim else "",
        "kernel_parameters": list(fast_attention_signature(request)),
        "host_parameters": f"{arrays}, scale=None",
        "host_arrays": arrays,
        "dtypes": [
            *((name, f'("{request.dtype}",)') for name in ("q", "k", "v")),
            ("out", f'("{request.o_dtype}",)'),
            *((("bias", f'("{request.dtype}", "{STATISTICS_DTYPE}")'),) if request.bias else ()),
            *((name, f'("{STATISTICS_DTYPE}",)') for name in ("lse", *(["sinks"] if request.sinks else []))),
        ],
    }


def _key_bits(request: FastAttentionRequest) -> str:
    """Return the expression of the key that the buffers keep in `row` of a tile."""
    moves: dict[int, int] = {}  # by how far bits move up: which bits do
    for row_bit, key_bit in enumerate(request.key_order):
        moves[key_bit - row_bit] = moves.get(key_bit - row_bit, 0) | 1 << row_bit
    terms = []
    for shift, mask in sorted(moves.items()):
        taken = f"(row & {mask})"
        terms.append(f"{taken} << {shift}" if shift > 0 else f"{taken} >> {-shift}" if shift else taken)
    return " | ".join(f"({term})" if "<<" in term or ">>" in term else term for term in terms)


def _to_scores(request: FastAttentionRequest) -> Relabelling:
    """Return how a tile by keys is renamed to the columns of S: column bit i is key bit key_order[i]."""
    codomain = request.scores.accumulator.codomain
    rows = range(codomain.bits_of("dim1"), codomain.bits)
    return relabel((*request.key_order, *rows), codomain, codomain)


def _blind(request: FastAttentionRequest) -> bool:
    """Whether a row may see no key in the first tile that a block attends to.

    Aligned at the first key and without a left end, every row sees key 0, unless the right end lies before it.
    """
    return request.alignment != ALIGNMENTS[0]


def _spans(request: FastAttentionRequest) -> list[Span]:
    """Return the runs of tiles, by the names that the kernel gives to their ends."""
    if request.left is None:
        return [Span("0", "whole", False), Span("whole", "tiles", True)]
    return [
        Span("first_tile", "gl.minimum(clear, tiles)", True),
        Span("clear", "whole", False),
        Span("gl.maximum(clear, whole)", "tiles", True),
    ]


def fast_attention_signature(request: FastAttentionRequest) -> dict[str, str]:
    """Return the kernel's parameters in order, with their types for contiguous arrays of the default dtypes."""
    half = f"*{TRITON_TYPE[request.dtype]}"
    result = {"q": half, "k": half, "v": half, "out": f"*{TRITON_TYPE[request.o_dtype]}", "lse": "*fp32"}
    strides = {"q": "bhtd", "k": "bhtd", "v": "bhtd", "o": "bhtd", "l": "bht"}
    if request.bias:
        result["bias"] = half
        strides["s"] = "bhqk"
    if request.sinks:
        result["sinks"] = "*fp32"
        strides["sink_"] = "h"
    result["scale"] = "fp32"
    for array, dims in strides.items():
        result |= {f"stride_{array}{dim}": "i32" for dim in dims}
    return result | dict.fromkeys(("group", "t_q", "t_k"), "i32") | {"wide": "constexpr"}


def _bit_names(request: FastAttentionRequest) -> dict[str, list[str]]:
    scores = request.scores
    return hardware_order(scores.unit, scores.block_m, scores.block_n, scores.warps)


def layouts(request: FastAttentionRequest) -> tuple[LayoutView, ...]:
    """Return the layouts of S, P, O and of the fragments of Q, K and V, with a comment per bit."""
    scores, names = request.scores, _bit_names(request)
    steps = [f"step{bit}" for bit in range(request.steps_fetched.bit_length() - 1)]
    deep = {**names, "register": [*names["register"], *steps]}
    keys = request.steps_fetched * scores.unit.shape[2]
    chain = next(iter(request.chains.values()))
    matrix = layout_view("MATRIX_S", "S = Q K^T as a matrix: who holds which score.", scores.accumulator, "mn", names)
    found = [
        matrix,
        regrouped("ACCUMULATOR_S", matrix, scores.grouped),
        _fragment_view("FRAGMENT_Q", f"{keys} columns of Q at once, [m, k].", request.query_fragment, "mk", deep),
        _fragment_view("FRAGMENT_K", f"{keys} columns of K at once, [n, k].", request.key_fragment, "nk", deep),
        layout_view(
            "WEIGHTS",
            f"{chain.group} keys of P after the exchange: rows where O's left operand wants them.",
            chain.group_weights,
            "mn",
            {**names, "register": [name for name in names["register"] if name not in chain.group_bits]},
        ),
        layout_view("SUMS", "The sums of a thread's own weights: rows, and lanes of a row.", *_sums_layout(request)),
    ]
    if request.bias:
        by_keys = layout_view(
            "BY_KEYS", "S as its keys lie in memory: runs of them in a thread.", request.by_keys, "mn", names
        )
        found.append(by_keys)
    for part, chain in request.chains.items():
        own = hardware_order(chain.second.unit, chain.second.block_m, part, chain.second.warps)
        view = layout_view(f"MATRIX_O{part}", f"{part} columns of O as a matrix.", chain.second.accumulator, "md", own)
        found += [
            view,
            regrouped(f"ACCUMULATOR_O{part}", view, chain.grouped),
            layout_view(f"FRAGMENT_V{part}", f"{chain.k} keys of V at once, [k, d].", chain.fetched, "kd", own),
        ]
    return tuple(found)


def _fragment_view(
    name: str, comment: str, fragment: LinearLayout, letters: str, names: dict[str, list[str]]
) -> LayoutView:
    """Return the view of a fragment that is cut into steps, which Triton 3.8 does only without copies in registers."""
    thin, kept = without_copies(fragment)
    return layout_view(name, comment, thin, letters, {**names, "register": [names["register"][bit] for bit in kept]})


def regrouped(name: str, matrix: LayoutView, grouped: LinearLayout) -> LayoutView:
    """Return the view of an accumulator in its grouped shape; a bit's comment is that of the matrix."""
    fields = []
    for (field, rows), bases in zip(matrix.fields, grouped.bases.values(), strict=True):
        fields.append((field, tuple((str(b), comment) for b, (_, comment) in zip(bases, rows, strict=True))))
    comment = f"{matrix.name}, cut into dims along which each operand is a broadcast."
    return LayoutView(name, comment, tuple(fields), str(list(grouped.shape)))


def _parts(request: FastAttentionRequest) -> Iterator[Part]:
    start = 0
    vector = VECTOR_BYTES // request.element_bytes
    for index, size in enumerate(request.parts):
        suffix = f"{index}" if len(request.parts) > 1 else ""
        chain = request.chains[size]
        stop = start + size
        fragments = {"query": request.query_fragment, "key": request.key_fragment, "value": chain.fetched}
        tiles = {
            kind: _tile(
                f"{kind[0].upper()}{suffix}", f"{kind[0].upper()}, columns {start} to {stop - 1}", rows, fragment
            )
            for kind, fragment in fragments.items()
            for rows in [request.rows[f"{kind}{index}"]]
        }
        yield Part(
            suffix=suffix,
            start=start,
            stop=stop,
            vectors=size // vector,
            query=tiles["query"],
            key=tiles["key"],
            value=tiles["value"],
            turn_bit=chain.flip[0],
            output_shape=str(list(chain.shape)),
            store_mask="r < queries" if stop <= request.head_dim else f"(r < queries) & (d < {request.head_dim})",
        )
        start = stop


def _tile(name: str, what: str, rows: RowStaging, fragment: LinearLayout) -> TileView:
    bits = {dim: [f"{dim}{bit}" for bit in range(len(bases))] for dim, bases in rows.loaded.bases.items()}
    stored, fetched = rows.stored_access, rows.fetched_access(fragment)
    return TileView(
        loaded=layout_view(f"TILE_{name}", what, rows.loaded, "rc", bits),
        buffer=f"BUFFER_{name}",
        offsets=str([list(rows.buffer.codomain.unpack(column)) for column in rows.buffer.columns]),
        shape=str(list(rows.shape)),
        comment=(
            f"{what}: a warp stores {stored.instructions} x {8 * stored.width_bytes} bits in {stored.wavefronts} "
            f"wavefronts ({stored.minimum} at least), a step fetches {fetched.instructions} x "
            f"{8 * fetched.width_bytes} in {fetched.wavefronts} ({fetched.minimum})."
        ),
    )


def _operands(request: FastAttentionRequest) -> Iterator[Operand]:
    scores = request.scores
    yield Operand(operand_view("operand_q", "FRAGMENT_Q", scores.relabel_a), "A k-step of Q", "", "ACCUMULATOR_S")
    yield Operand(operand_view("operand_k", "FRAGMENT_K", scores.relabel_b), "A k-step of K", "", "ACCUMULATOR_S")
    for part, chain in request.chains.items():
        view = operand_view(f"operand_p{part}", "WEIGHTS", chain.relabel_a)
        yield Operand(view, f"The weights of a step, told apart by {chain.gathered[0]},", "", f"ACCUMULATOR_O{part}")
        view = operand_view(f"operand_v{part}", f"FRAGMENT_V{part}", chain.relabel_b)
        yield Operand(view, f"{chain.k} keys of V", ".permute([1, 0])", f"ACCUMULATOR_O{part}")


def _cuts(keys: int, group: int) -> tuple[list[Cut], list[Piece]]:
    """Return the cuts that take P apart into groups of keys, and the groups."""
    cuts: list[Cut] = []
    names = ["weights"]
    columns = keys
    while columns > group:
        half = columns // 2
        pieces = [f"weights_{start}_{start + half}" for start in range(0, keys, half)]
        lows, highs = pieces[::2], pieces[1::2]
        cuts += [Cut(low, high, name, columns) for low, high, name in zip(lows, highs, names, strict=True)]
        names, columns = pieces, half
    return cuts, [Piece(name, number * group) for number, name in enumerate(names)]


def _exchange(source: LinearLayout, target: LinearLayout, names: dict[str, list[str]]) -> tuple[str, str]:
    """Return the lane bit and the register bit that trade places between two layouts."""
    bits = [name for dim in ("register", "lane", "warp") for name in names[dim]]
    moved = [bit for bit, (a, b) in enumerate(zip(source.columns, target.columns, strict=True)) if a != b]
    register, lane = moved
    return bits[lane], bits[register]


def _sums_bits(request: FastAttentionRequest) -> tuple[list[int], list[int]]:
    """Return the key bits that lie in registers and those that lie in lanes, low first."""
    accumulator = request.scores.accumulator
    keys = accumulator.codomain.bits_of("dim1")
    registers = accumulator.domain.bits_of("register")
    own = {c.bit_length() - 1 for c in accumulator.columns[:registers] if 0 < c < 1 << keys}
    return sorted(own), [bit for bit in range(keys) if bit not in own]


def _sums(request: FastAttentionRequest) -> Sums:
    own, lanes = _sums_bits(request)
    codomain = request.scores.accumulator.codomain
    rows = range(codomain.bits_of("dim1"), codomain.bits)
    target = Space.of_shape((request.block_m, 1 << len(lanes), 1 << len(own)))
    how: Relabelling = relabel((*own, *lanes, *rows), codomain, target)
    return Sums(
        str(list(how.split)), str(list(how.order)), str(list(how.shape)), str([request.block_m, 1 << len(lanes)])
    )


def _sums_layout(request: FastAttentionRequest) -> tuple[LinearLayout, str, dict[str, list[str]]]:
    """Return the layout of the sums, its coordinates and the names of its bits: registers that held keys are gone."""
    _, lanes = _sums_bits(request)
    accumulator, names = request.scores.accumulator, _bit_names(request)
    keys = accumulator.codomain.bits_of("dim1")
    kept = [bit for bit, c in enumerate(accumulator.columns) if not 0 < c < 1 << keys or c.bit_length() - 1 in lanes]
    codomain = Space.of_shape((request.block_m, 1 << len(lanes)))
    columns = []
    for bit in kept:
        row, key = accumulator.codomain.unpack(accumulator.columns[bit])
        columns.append(codomain.pack((row, 1 << lanes.index(key.bit_length() - 1) if key else 0)))
    gone = accumulator.domain.bits - len(kept)
    registers = accumulator.domain.bits_of("register")
    domain = replace(
        accumulator.domain,
        dims=tuple((dim, bits - gone if dim == "register" else bits) for dim, bits in accumulator.domain.dims),
    )
    named = {
        **names,
        "register": [name for bit, name in enumerate(names["register"]) if bit in kept and bit < registers],
    }
    return LinearLayout(domain, codomain, tuple(columns)), "ml", named
