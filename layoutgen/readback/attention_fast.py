"""Reading a file of the fast attention design back: its literals, proved in place of the derived ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from layoutgen.algebra import Blocked, LinearLayout, Space
from layoutgen.algebra.operations import with_copies, without_copies
from layoutgen.emission.attention_fast import fast_attention_context
from layoutgen.emission.attention_partial_views import partial_sums_view
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.kernels.attention_layouts import first_step
from layoutgen.kernels.attention_plan import prove_group
from layoutgen.plan.partial import SUM_BYTES, left_half
from layoutgen.plan.rows import RowStaging
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.chained import cut_into_steps, prove_chain
from layoutgen.proofs.claims import bijective, relabelled
from layoutgen.proofs.divided import shared_out
from layoutgen.proofs.staging import staged
from layoutgen.tiling.divided import copied, part_of_one

Literals = Mapping[str, LinearLayout | Blocked]


def prove_fast_attention(
    path: Path, source: str, literals: Literals, request: FastAttentionRequest
) -> tuple[Verdict, ...]:
    """Discharge every obligation of a request for the layouts that a file has.

    Raises LayoutgenError when a layout that the kernel needs is missing or has another shape.
    """

    def linear(name: str, like: LinearLayout) -> LinearLayout:
        layout = literals.get(name)
        if not isinstance(layout, LinearLayout) or layout.domain != like.domain or layout.shape != like.shape:
            raise LayoutgenError(f"{path}: has no layout {name} of {list(like.shape)} over {like.domain}")
        return layout

    scores, k, warps = request.scores, request.scores.unit.shape[2], request.column_warps
    matrix = linear("MATRIX_S", request.matrix_scores)
    fetched = {
        kind: with_copies(linear(name, without_copies(request.fetched[kind])), request.fetched[kind])
        for name, kind in (("FRAGMENT_Q", "query"), ("FRAGMENT_K", "key"))
    }
    # What one warp of each group holds is proved first, then the group.
    own = part_of_one(matrix, None, warps)
    query, key = (part_of_one(fetched[kind], "dim1", warps) for kind in ("query", "key"))
    fragment_a, fragment_b = first_step(query, scores.fragment_a), first_step(key, scores.fragment_b)
    names = ("MATRIX_S", "FRAGMENT_Q", "FRAGMENT_K")
    summed = linear("PARTIAL_S", _stacked(request)) if warps > 1 else matrix
    grouped = linear("ACCUMULATOR_S", request.score_product.grouped)
    name = "PARTIAL_S" if warps > 1 else "MATRIX_S"
    verdicts = [
        *prove(scores, accumulator=own, fragment_a=fragment_a, fragment_b=fragment_b, names=names),
        relabelled(f"{name} as ACCUMULATOR_S", summed.reshape(grouped.shape), grouped),
        cut_into_steps("Q", query, fragment_a, k),
        cut_into_steps("K", key, fragment_b, k),
    ]
    outputs = {}
    for part, chain in request.chains.items():
        product = request.output_products[part]
        read = replace(chain, first=replace(scores, accumulator=own))
        output = outputs[part] = linear(f"MATRIX_O{part}", product.accumulator)
        weights = linear("WEIGHTS", copied(chain.group_weights, warps))
        fetched[f"value{part}"] = linear(f"FRAGMENT_V{part}", request.fetched[f"value{part}"])
        names = (f"MATRIX_O{part}", "WEIGHTS", f"FRAGMENT_V{part}")
        verdicts += prove_chain(
            read,
            part_of_one(output, "dim1", warps),
            chain.all_weights(part_of_one(weights, None, warps)),
            part_of_one(fetched[f"value{part}"], "dim1", warps),
            names,
            request.element_bytes,
        )
        grouped = linear(f"ACCUMULATOR_O{part}", product.grouped)
        verdicts.append(relabelled(f"MATRIX_O{part} as ACCUMULATOR_O{part}", output.reshape(product.shape), grouped))
        if warps > 1:
            verdicts.append(shared_out("WEIGHTS", weights, None, warps))
    buffers = shared_buffers(source)

    def buffer(name: str, like: LinearLayout) -> LinearLayout:
        bases = buffers.get(name)
        if bases is None or len(bases) != like.domain.bits:
            raise LayoutgenError(f"{path}: has no buffer {name} of {list(like.shape)}")
        columns = tuple(like.codomain.pack(basis) for basis in bases)
        return LinearLayout(Space((("place", len(bases)),)), like.codomain, columns)

    if request.partial_sums is not None:
        verdicts += prove_group(
            request, summed.reshape(request.score_product.accumulator.codomain), matrix, fetched, outputs
        )
        verdicts += _prove_sums(request, summed, matrix, linear, buffer)
    values = fast_attention_context(request)
    views = [(part, kind) for part in values["parts"] for kind in ("query", "key")]
    views += [(part, "value") for part in values["value_parts"]]
    for part, kind in views:
        view, derived = getattr(part, kind), request.stagings[f"{kind}{part.suffix or 0}"]
        loaded, found = linear(view.loaded.name, derived.loaded), buffer(view.buffer, derived.buffer)
        verdicts.append(bijective(view.buffer, found))
        if found.is_bijective:
            stored = RowStaging(request.element_bytes, loaded, found).stored
            verdicts.append(staged(view.loaded.name, stored, request.element_bytes))
    return tuple(verdicts)


def _stacked(request: FastAttentionRequest) -> LinearLayout:
    """The partial sums of S as one matrix."""
    accumulator = request.score_product.accumulator
    return accumulator.reshape((request.column_warps * request.block_m, request.block_n))


def _prove_sums(
    request: FastAttentionRequest,
    stacked: LinearLayout,
    matrix: LinearLayout,
    linear: Callable[[str, LinearLayout], LinearLayout],
    buffer: Callable[[str, LinearLayout], LinearLayout],
) -> tuple[Verdict, ...]:
    """Discharge that the partial sums fill their buffers, and that the halves are those of the whole."""
    sums, view = request.partial_sums, partial_sums_view(request)
    assert sums is not None
    assert view is not None
    verdicts: list[Verdict] = []
    piece = stacked
    if sums.pieces == 2:
        piece, half = left_half(stacked), linear("HALF_S", sums.sums)
        verdicts.append(relabelled("HALF_S as half of MATRIX_S", half, left_half(matrix)))
    read = replace(sums, accumulator=piece.reshape(sums.accumulator.codomain))
    for side, parts in zip(view.pieces, (request.parts, request.value_parts), strict=False):
        found = buffer(side.layout, sums.in_room(request.block_n * parts[0] * request.element_bytes))
        verdicts.append(bijective(side.layout, found))
        if found.is_bijective:
            verdicts.append(staged(f"PARTIAL_S in {side.layout}", read.places_in(found), SUM_BYTES))
    return tuple(verdicts)


def shared_buffers(source: str) -> dict[str, list[list[int]]]:
    """Return the bases by offset of every SharedLinearLayout that a file defines at its top level, by name."""
    found = {}
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(args=[ast.Call(func=ast.Attribute(attr="SharedLinearLayout"), args=[bases])]),
            ):
                found[name] = ast.literal_eval(bases)
    return found
