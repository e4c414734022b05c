"""Reading a file of the fast attention design back: its literals, proved in place of the derived ones."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from layoutgen.algebra import Blocked, LinearLayout, Space
from layoutgen.emission.attention_fast import fast_attention_context
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention_fast import FastAttentionRequest, with_copies, without_copies
from layoutgen.plan.rows import RowStaging
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.chained import cut_into_steps, prove_chain
from layoutgen.proofs.claims import relabelled
from layoutgen.proofs.staging import staged

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

    scores, k = request.scores, request.scores.unit.shape[2]
    matrix = linear("MATRIX_S", scores.accumulator)
    query, key = (
        with_copies(linear(name, without_copies(fragment)[0]), fragment)
        for name, fragment in (("FRAGMENT_Q", request.query_fragment), ("FRAGMENT_K", request.key_fragment))
    )
    fragment_a, fragment_b = first_step(query, scores.fragment_a), first_step(key, scores.fragment_b)
    names = ("MATRIX_S", "FRAGMENT_Q", "FRAGMENT_K")
    verdicts = [
        *prove(scores, accumulator=matrix, fragment_a=fragment_a, fragment_b=fragment_b, names=names),
        relabelled("MATRIX_S as ACCUMULATOR_S", matrix.reshape(scores.shape), linear("ACCUMULATOR_S", scores.grouped)),
        cut_into_steps("Q", query, fragment_a, k),
        cut_into_steps("K", key, fragment_b, k),
    ]
    for part, chain in request.chains.items():
        read = replace(chain, first=replace(scores, accumulator=matrix))
        output = linear(f"MATRIX_O{part}", chain.second.accumulator)
        weights = chain.all_weights(linear("WEIGHTS", chain.group_weights))
        fetched = linear(f"FRAGMENT_V{part}", chain.fetched)
        names = (f"MATRIX_O{part}", "WEIGHTS", f"FRAGMENT_V{part}")
        verdicts += prove_chain(read, output, weights, fetched, names, request.element_bytes)
        grouped = linear(f"ACCUMULATOR_O{part}", chain.grouped)
        verdicts.append(relabelled(f"MATRIX_O{part} as ACCUMULATOR_O{part}", output.reshape(chain.shape), grouped))
    buffers = shared_buffers(source)
    for index, part in enumerate(fast_attention_context(request)["parts"]):
        for kind in ("query", "key", "value"):
            view, derived = getattr(part, kind), request.rows[f"{kind}{index}"]
            bases = buffers.get(view.buffer)
            if bases is None or len(bases) != derived.buffer.domain.bits:
                raise LayoutgenError(f"{path}: has no buffer {view.buffer} of {list(derived.shape)}")
            codomain = derived.buffer.codomain
            buffer = LinearLayout(
                Space((("place", len(bases)),)), codomain, tuple(codomain.pack(basis) for basis in bases)
            )
            rows = RowStaging(request.element_bytes, linear(view.loaded.name, derived.loaded), buffer)
            verdicts.append(staged(view.loaded.name, rows.stored, request.element_bytes))
    return tuple(verdicts)


def first_step(fetched: LinearLayout, fragment: LinearLayout) -> LinearLayout:
    """Return the first k-step of a fetched vector: without its highest registers."""
    registers, kept = fetched.domain.bits_of("register"), fragment.domain.bits_of("register")
    columns = [column for bit, column in enumerate(fetched.columns) if not kept <= bit < registers]
    size = fragment.codomain.dims[1][1]
    low = []
    for column in columns:
        row, k = fetched.codomain.unpack(column)
        low.append(fragment.codomain.pack((row, k & (1 << size) - 1)))
    return LinearLayout(fragment.domain, fragment.codomain, tuple(low))


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
