"""From a request for the fast design of attention to the values that its template receives."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

from layoutgen.emission.attention_fast_views import (
    bit_names,
    cut_scores,
    exchanged_bits,
    layout_views,
    operand_views,
    part_views,
    row_stored,
    value_views,
    weight_sums_view,
)
from layoutgen.emission.attention_partial_views import partial_sums_view
from layoutgen.emission.views import LEAST_BIAS, TRITON_TYPE, MmaView, legend, mma_view
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.kernels.attention_features import ALIGNMENTS, MASK_DTYPES
from layoutgen.kernels.request import STATISTICS_DTYPE
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.tiling import Relabelling
from layoutgen.tiling.relabelling import relabel

SCALES = ("1e-30", "1e30")
"""The least and the largest scale that a launch takes: fp32 holds them and their products with other factors."""
DOCSTRING = 112
"""Characters of a line in an emitted docstring."""


@dataclass(frozen=True)
class Product:
    """A function that issues one atom."""

    function: str
    mma: MmaView


@dataclass(frozen=True)
class Rounding:
    """How weights become halves: they are computed times 2^-low, and the halves are the weights times 2^high."""

    low: int
    high: int
    asm: tuple[str, ...]


@dataclass(frozen=True)
class InRegisters:
    """Bits of S's rows and keys that a thread's registers tell apart, and the other ones, as masks."""

    rows: int
    other_rows: int
    columns: int
    other_columns: int


@dataclass(frozen=True)
class Span:
    """A run of tiles of one kind."""

    start: str
    stop: str
    masked: bool


def fast_attention_context(request: FastAttentionRequest) -> dict[str, Any]:
    """Return the template's values for a request, the header (`about`) excepted."""
    scores = request.scores
    names = bit_names(request)
    chain = next(iter(request.chains.values()))
    vector = VECTOR_BYTES // request.element_bytes
    parts, value_parts = list(part_views(request)), list(value_views(request))
    partial = partial_sums_view(request)
    cuts, pieces = cut_scores(request.block_n, chain.group, "columns" if request.reordered else "keys")
    exchanged = exchanged_bits(scores.accumulator, chain.weights, names)
    single = request.o_dtype == STATISTICS_DTYPE
    column = f"gl.arange(0, {request.block_n}, layout=gl.SliceLayout(0, MATRIX_S))"
    in_registers = _in_registers(request)
    aligned = request.left is not None or request.right is not None
    keys_bound = f"keys_left - (column & {in_registers.other_columns})"
    own_key = f"ahead + (row & {in_registers.other_rows}) - (column & {in_registers.other_columns})"
    overhang = sum(request.parts) > request.head_dim or sum(request.value_parts) > request.value_dim
    # Aligned at the first key and without a left end every row sees key 0, in the first tile of its block.
    blind = request.left is not None or _bottom_right(request) or request.bias or request.mask
    arrays = "q, k, v, out, lse" + "".join(f", {name}" for name in ("bias", "mask", "sinks") if getattr(request, name))
    return {
        "log2_e": repr(math.log2(math.e)),
        "ln_2": repr(math.log(2)),
        "legend": legend(scores),
        "layouts": layout_views(request),
        "tiles": [*(tile for part in parts for tile in (part.query, part.key)), *(part.value for part in value_parts)],
        "partial": partial,
        "products": [
            Product("mma_s", mma_view(scores.atom)),
            Product("mma_o", mma_view(chain.second.atom)),
        ],
        "operands": list(operand_views(request)),
        "gathered": chain.gathered[0],
        "distance": chain.gathered[1],
        "group": chain.group,
        "turn": 1 << chain.flip[1],
        "exchanged_lane": exchanged[0],
        "exchanged_register": exchanged[1],
        "sums": weight_sums_view(request),
        "parts": parts,
        "value_parts": value_parts,
        "cuts": cuts,
        "pieces": pieces,
        "spans": _spans(request),
        "rounding": rounding(request.dtype),
        "in_registers": in_registers,
        "tiles_in": lambda keys: _tiles_in(request, keys),
        "whole_tiles_in": lambda keys, less="": _whole_tiles_in(request, keys, less),
        # There the loops leave no register for what the compiler would take out of these to compute it before them.
        "pins": aligned if request.reordered else partial is not None,
        "keys_bound": f"pinned({keys_bound})" if partial and not request.reordered else keys_bound,
        "own_key": f"pinned({own_key})" if request.reordered else own_key,
        "row_stored": row_stored(request, "row"),
        # Where later queries see more keys, and none fewer.
        "longest_last": request.right is not None and request.left is None,
        "left": request.left,
        "right": request.right,
        "aligned": aligned,
        "bottom_right": _bottom_right(request),
        # Where a row may have seen no key yet, its weights are taken against 0 and not against -inf.
        "rows_may_be_blind": blind,
        "reference": "reference" if blind else "new_max",
        "bias": request.bias,
        "mask": request.mask,
        "in_log2": request.softcap is not None or request.bias,
        "reordered": request.reordered,
        "key_bits": _key_bits(request),
        "to_scores": _to_scores(request),
        "least_bias": repr(LEAST_BIAS).replace("e+", "e"),
        "softcap": request.softcap,
        "cap": repr((request.softcap or 0) * math.log2(math.e)),
        "slope": repr(2 / (request.softcap or 1)),
        "sinks": request.sinks,
        "array_lines": _array_lines(request),
        "stored_rows": "rows * share" if single else f"(rows * share).to(gl.{request.o_dtype})",
        "value_size": "head_dim" if request.value_dim == request.head_dim else str(request.value_dim),
        "scales": SCALES,
        "load_keys": "load_keys" if request.reordered else "load_tile",
        "column_of_scores": f"key_of({column})" if request.reordered else column,
        "buffers": [
            *(f"{kind}_buffer{part.suffix}" for kind in "qk" for part in parts),
            *(f"v_buffer{part.suffix}" for part in value_parts),
            *(piece.buffer for piece in (partial.pieces if partial else ())),
        ],
        "state": [
            *(f"output{part.suffix}" for part in value_parts),
            "row_max",
            "row_sum",
        ],
        "scores_shape": str(list(request.score_product.shape)),
        "k": chain.k,
        "vector": vector,
        "column_warps": request.column_warps,
        "columns_fetched": request.columns_fetched,
        "block_m": request.block_m,
        "block_n": request.block_n,
        "rows_per_warp": request.block_m // request.row_warps,
        "columns": sum(request.parts),
        "value_columns": sum(request.value_parts),
        "head_dim": request.head_dim,
        "dtype": request.dtype,
        "overhang": overhang,
        # What loads are told of the head dim: only where a part overhangs does it matter.
        "width": ", width" * overhang,
        "key_width": f", {request.head_dim}" * overhang,
        "value_width": f", {request.value_dim}" * overhang,
        "overhang_text": ", as are columns beyond the head dim" if overhang else "",
        "kernel_parameters": list(fast_attention_signature(request)),
        "host_parameters": f"{arrays}, scale=None",
        "host_arrays": arrays,
        "dtypes": [
            *((name, f'("{request.dtype}",)') for name in ("q", "k", "v")),
            ("out", f'("{request.o_dtype}",)'),
            *((("bias", f'("{request.dtype}", "{STATISTICS_DTYPE}")'),) if request.bias else ()),
            *((("mask", str(MASK_DTYPES).replace("'", '"')),) if request.mask else ()),
            *((name, f'("{STATISTICS_DTYPE}",)') for name in ("lse", *(["sinks"] if request.sinks else []))),
        ],
    }


def _tiles_in(request: FastAttentionRequest, keys: str) -> str:
    """Return the expression of how many tiles hold so many keys."""
    size = request.block_n
    return f"({keys} + {size - 1}) >> {size.bit_length() - 1}" if _shifts(request) else f"gl.cdiv({keys}, {size})"


def _whole_tiles_in(request: FastAttentionRequest, keys: str, less: str) -> str:
    """Return the expression of how many whole tiles so many keys fill, `less` a number."""
    if not _shifts(request):
        return f"{keys} // {request.block_n}{less}"
    shifted = f"{keys} >> {request.block_n.bit_length() - 1}"
    return f"({shifted}){less}" if less else shifted


def _shifts(request: FastAttentionRequest) -> bool:
    """Return whether numbers of keys are divided by shifts.

    They are not negative, which the compiler does not know: what a division takes more is not repeated, and its result
    stays in a register through the loops. Where warps share rows, and beside a bias or a mask, there is none left.
    """
    return request.column_warps > 1 or request.reordered


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


def _bottom_right(request: FastAttentionRequest) -> bool:
    return request.alignment == ALIGNMENTS[1]


def _array_lines(request: FastAttentionRequest) -> list[str]:
    """Return the lines of a docstring that say what a launch takes."""
    d, value = request.head_dim, request.value_dim
    text = f"q and out are [B, H, Tq, {d}], k and v [B, Hkv, Tk, {d}] with Hkv dividing H, lse [B, H, Tq]"
    if value != d:
        text = (
            f"q is [B, H, Tq, {d}], k [B, Hkv, Tk, {d}] and v [B, Hkv, Tk, {value}] with Hkv dividing H, "
            f"out [B, H, Tq, {value}], lse [B, H, Tq]"
        )
    text += ", bias [B, H, Tq, Tk]" * request.bias + ", mask [B, H, Tq, Tk]" * request.mask
    text += ", sinks [H]" * request.sinks
    single = ["lse", *["out"] * (request.o_dtype == STATISTICS_DTYPE), *["sinks"] * request.sinks]
    listed = single[0] if len(single) == 1 else f"{', '.join(single[:-1])} and {single[-1]}"
    text += f"; strides are free. {listed} {'is' if len(single) == 1 else 'are'} {STATISTICS_DTYPE}, "
    text += f"bias {request.dtype} or {STATISTICS_DTYPE}, " * request.bias
    text += f"mask {' or '.join(MASK_DTYPES)} (not 0: the query attends to the key), " * request.mask
    text += f"everything else {request.dtype}. scale must be positive; it defaults to 1 / sqrt({d}). "
    return textwrap.wrap(f"{text}Raises TypeError or ValueError on anything else.", DOCSTRING)


def rounding(dtype: str) -> Rounding:
    """Return how fp32 weights are rounded to halves by their bits.

    The exponent of a weight times 2^-(112 - high) is, as fp32 keeps it, the one that fp16 keeps of the weight times
    2^high: a shift by 13 bits makes a half of it. A weight below 2^-(14 + high) has no such exponent and becomes 0;
    with high = 11 those are the weights that a conversion would round to 0. The 32 bits are shifted up by 3 to the
    upper half instead, where those of two weights are picked together.
    """
    if dtype != "float16":
        raise LayoutgenError(f"design fast: weights are rounded to float16 by their bits; {dtype} has other exponents")
    high = 11
    exponents = 127 - 15  # by how much fp32 and fp16 differ in what they keep of an exponent
    asm = (
        "{ .reg .b32 low, high; mad.lo.u32 low, $1, 8, 0x8000; mad.lo.u32 high, $2, 8, 0x8000; ",
        "prmt.b32 $0, low, high, 0x7632; }",
    )
    return Rounding(exponents - high, high, asm)


def _in_registers(request: FastAttentionRequest) -> InRegisters:
    """Return which bits of a row and of a key a thread's registers tell apart."""
    accumulator = request.by_keys if request.reordered else request.matrix_scores
    rows = columns = 0
    for column in accumulator.columns[: accumulator.domain.bits_of("register")]:
        row, key = accumulator.codomain.unpack(column)
        rows, columns = rows | row, columns | key
    return InRegisters(rows, request.block_m - 1 & ~rows, columns, request.block_n - 1 & ~columns)


def _spans(request: FastAttentionRequest) -> list[Span]:
    """Return the runs of tiles, by the names that the kernel gives to their ends."""
    if request.left is None:
        return [Span("0", "unmasked_tiles", False), Span("unmasked_tiles", "tiles", True)]
    return [
        Span("first_tile", "gl.minimum(clear, tiles)", True),
        Span("clear", "unmasked_tiles", False),
        Span("gl.maximum(clear, unmasked_tiles)", "tiles", True),
    ]


def fast_attention_signature(request: FastAttentionRequest) -> dict[str, str]:
    """Return the kernel's parameters in order, with their types for contiguous arrays of the default dtypes."""
    half = f"*{TRITON_TYPE[request.dtype]}"
    result = {"q": half, "k": half, "v": half, "out": f"*{TRITON_TYPE[request.o_dtype]}", "lse": "*fp32"}
    strides = {"q": "bhtd", "k": "bhtd", "v": "bhtd", "o": "bhtd", "l": "bht"}
    if request.bias:
        result["bias"] = half
        strides["s"] = "bhqk"
    if request.mask:
        result["mask"] = "*i1"
        strides["m"] = "bhqk"
    if request.sinks:
        result["sinks"] = "*fp32"
        strides["sink_"] = "h"
    result["scale"] = "fp32"
    for array, dims in strides.items():
        result |= {f"stride_{array}{dim}": "i32" for dim in dims}
    return result | dict.fromkeys(("group", "t_q", "t_k"), "i32") | {"wide": "constexpr"}
