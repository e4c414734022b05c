"""An emitted file as it stands: its layouts proved in place of the derived ones, its moves, checks and masks."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from layoutgen.algebra import Blocked, LinearLayout, Space
from layoutgen.algebra.interchange import FIELDS
from layoutgen.emission.context import stagings_by_name, tilings_by_view
from layoutgen.emission.render import render
from layoutgen.emission.views import LayoutView
from layoutgen.errors import LayoutgenError, RefutedError
from layoutgen.kernels import AttentionRequest, FastAttentionRequest, FastMatmulRequest, Request
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.claims import relabelled
from layoutgen.proofs.staging import in_slabs, staged
from layoutgen.readback.attention_fast import prove_fast_attention
from layoutgen.readback.masks import prove_masks
from layoutgen.readback.matmul_fast import prove_fast_matmul
from layoutgen.readback.moves import prove_checks, prove_moves


def read_literals(path: Path, source: str) -> dict[str, LinearLayout | Blocked]:
    """Return the layouts that an emitted file defines at its top level, by name. Executes nothing."""
    found: dict[str, LinearLayout | Blocked] = {}
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(attr="constexpr"), args=[ast.Call(func=ast.Attribute(attr=kind)) as call]
                ),
            ):
                pass
            case _:
                continue
        try:
            if kind == "DistributedLinearLayout":
                fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
                bases = {dim: fields[field] for dim, field in FIELDS.items()}
                found[name] = LinearLayout.from_bases(bases, fields["shape"])
            elif kind == "BlockedLayout":
                found[name] = Blocked(*(tuple(ast.literal_eval(argument)) for argument in call.args))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise LayoutgenError(f"{path}: {name} is not a layout literal: {error!r}") from error
    return found


def check_literals(path: Path, source: str) -> None:
    """Refuse layouts on which Triton would abort the process instead of raising: it takes bases of one bit only.

    This is no proof; it keeps what is compiled before it is proved from taking the process with it.
    """
    for name, layout in read_literals(path, source).items():
        if not isinstance(layout, LinearLayout):
            continue
        for position, column in enumerate(layout.columns):
            if column & (column - 1):
                basis = list(layout.codomain.unpack(column))
                raise RefutedError(
                    f"{path}: {name}: basis {layout.domain.bit_name(position)} = {basis} moves several bits; "
                    "a distributed layout of Triton moves at most one"
                )
        if not layout.is_surjective:
            raise RefutedError(
                f"{path}: {name}: nobody holds some elements: rank {layout.rank} of {layout.codomain.bits}"
            )


def prove_source(path: Path, source: str, request: Request) -> tuple[Verdict, ...]:
    """Discharge every obligation of a request for the literals, the moves and the masks that a file really has.

    Raises LayoutgenError when a layout that the kernel needs is missing or has another shape.
    """
    literals = read_literals(path, source)
    if isinstance(request, FastAttentionRequest):
        claims = prove_fast_attention(path, source, literals, request)
        return (*claims, *_code(source, request))
    if isinstance(request, FastMatmulRequest):
        claims = prove_fast_matmul(path, literals, request)
        return (*claims, *_code(source, request))

    def linear(view: LayoutView) -> LinearLayout:
        return _typed(literals, view.name, LinearLayout, path)

    tilings = tilings_by_view(request)
    verdicts: list[Verdict] = []
    for view, tiling in tilings:
        matrix, grouped = linear(view.matrix), linear(view.accumulator)
        verdicts += prove(
            tiling,
            accumulator=matrix,
            fragment_a=linear(view.fragment_a),
            fragment_b=linear(view.fragment_b),
            names=(view.matrix.name, view.fragment_a.name, view.fragment_b.name),
        )
        # The kernel converts between the two shapes and claims that this is trivial.
        verdicts.append(
            relabelled(f"{view.matrix.name} as {view.accumulator.name}", matrix.reshape(tiling.shape), grouped)
        )
    for name, staging in stagings_by_name(request).items():
        blocked = _typed(literals, name, Blocked, path)
        loaded = blocked.layout(staging.shape)
        for dim in ("lane", "warp"):
            have, want = loaded.domain.bits_of(dim), staging.loaded.domain.bits_of(dim)
            if have != want:
                raise LayoutgenError(f"{path}: {name} has {1 << have} of dim {dim}; the kernel runs with {1 << want}")
        verdicts.append(staged(name, staging.into_buffer(loaded), staging.element_bytes))
        tile = LinearLayout.identity(Space.of_shape(staging.shape))
        verdicts.append(in_slabs(name, staging.into_buffer(tile), staging.k_dim, staging.k))
    if isinstance(request, AttentionRequest):
        scores = linear(tilings[0][0].matrix)
        verdicts.append(staged("P", request.weights.into_buffer(scores), request.element_bytes))
    return (*verdicts, *_code(source, request))


def _code(source: str, request: Request) -> tuple[Verdict, ...]:
    """Discharge what is claimed of the code of a file, beside its literals."""
    emitted = render(request)
    return prove_moves(source, emitted), prove_checks(source, emitted), *prove_masks(source, request)


T = TypeVar("T")


def _typed(literals: Mapping[str, LinearLayout | Blocked], name: str, kind: type[T], path: Path) -> T:
    layout = literals.get(name)
    if not isinstance(layout, kind):
        raise LayoutgenError(f"{path}: has no layout {name}; emit the file again")
    return layout
