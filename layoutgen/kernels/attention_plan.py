"""The plan of the fast design of attention, and the obligations that it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutgen.kernels.attention_layouts import first_step
from layoutgen.kernels.request import STATISTICS_DTYPE
from layoutgen.plan import Move, Plan, Tile
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.chained import cut_into_steps, prove_chain
from layoutgen.proofs.claims import bijective, relabelled, replicated
from layoutgen.proofs.divided import shared_out, sums_columns, sums_meet
from layoutgen.proofs.staging import staged
from layoutgen.tiling.divided import divided, part_of_one

if TYPE_CHECKING:
    from layoutgen.algebra import LinearLayout
    from layoutgen.kernels.attention_fast import FastAttentionRequest


def proofs_of(request: FastAttentionRequest) -> tuple[Verdict, ...]:
    """Discharge the obligations of the derived layouts: those of one warp of a group, then those of the group."""
    scores, k = request.scores, request.scores.unit.shape[2]
    verdicts = [
        *prove(scores),
        cut_into_steps("Q", request.query_fragment, scores.fragment_a, k),
        cut_into_steps("K", request.key_fragment, scores.fragment_b, k),
    ]
    for part, chain in request.chains.items():
        names = (f"O{part}", "P", f"V{part}")
        verdicts += prove_chain(
            chain, chain.second.accumulator, chain.weights, chain.fetched, names, request.element_bytes
        )
    verdicts += [staged(name, rows.stored, request.element_bytes) for name, rows in request.stagings.items()]
    if request.column_warps > 1:
        outputs = {part: product.accumulator for part, product in request.output_products.items()}
        partial = request.score_product.accumulator
        verdicts += prove_group(request, partial, request.matrix_scores, request.fetched, outputs)
    return tuple(verdicts)


def prove_group(
    request: FastAttentionRequest,
    partial: LinearLayout,
    sums: LinearLayout,
    fetched: dict[str, LinearLayout],
    outputs: dict[int, LinearLayout],
) -> tuple[Verdict, ...]:
    """Discharge what warps that share rows rest on, for layouts that may have been read from a file.

    `partial` is [warps of a group, block_m, block_n], `sums` what each of them holds of S; `fetched` is as in a
    request, `outputs` the accumulator of O by the size of a part.
    """
    warps = request.column_warps
    grouped = partial.reshape(request.score_product.shape)
    steps = [
        divided(first_step(part_of_one(fetched[kind], "dim1", warps), fragment), "dim1", warps)
        for kind, fragment in (("query", request.scores.fragment_a), ("key", request.scores.fragment_b))
    ]
    found = [
        bijective("the partial sums of S", partial),
        relabelled("Q of a group", request.score_product.relabel_a.apply(steps[0]), grouped),
        relabelled("K of a group", request.score_product.relabel_b.apply(steps[1]), grouped),
        sums_meet("S", partial, sums),
        shared_out("S", sums, None, warps),
        shared_out("Q", fetched["query"], "dim1", warps),
        shared_out("K", fetched["key"], "dim1", warps),
        *(
            sums_columns(f"columns {start} on", fetched["query"], fetched["key"], part, warps)
            for start, part in zip((0, *request.parts), request.parts, strict=False)
        ),
    ]
    for part, output in outputs.items():
        product, value = request.output_products[part], fetched[f"value{part}"]
        operand = value.permute((1, 0))
        found += [
            bijective(f"O{part} of a group", output),
            shared_out(f"O{part}", output, "dim1", warps),
            replicated(f"V{part} of a group", operand),
            shared_out(f"V{part}", value, "dim1", warps),
            relabelled(f"V{part} of a group", product.relabel_b.apply(operand), output.reshape(product.shape)),
        ]
    return tuple(found)


def plan_of(request: FastAttentionRequest) -> Plan:
    """Return the tiles and moves of one block; `times` counts per tile of keys."""
    scores, fetched = request.scores, request.fetched
    shape = (request.block_m, request.block_n)
    weights = next(iter(request.chains.values())).weights
    sums = request.partial_sums
    # What the instructions of S write to: S, or what each warp of a group has summed of it.
    summed = "scores" if sums is None else "partial"
    tiles = [
        Tile("scores", "register", shape, STATISTICS_DTYPE, request.matrix_scores),
        Tile("weights", "register", shape, request.dtype, scores.accumulator),
        Tile("operand", "register", shape, request.dtype, weights),
    ]
    moves = [Move("scores", "weights", "compute"), Move("weights", "operand", "compute")]
    if sums is not None:
        partial = request.score_product.accumulator
        tiles.append(Tile("partial", "register", partial.shape, STATISTICS_DTYPE, partial))
        for piece, host in zip(range(sums.pieces), ("key0_shared", "value0_shared"), strict=False):
            name, fetched_name = f"partial{piece}", f"sums{piece}"
            tiles += [
                Tile(name, "register", sums.shape, STATISTICS_DTYPE, sums.accumulator),
                Tile(f"{name}_shared", "shared", sums.shape, STATISTICS_DTYPE, within=host),
                Tile(fetched_name, "register", sums.sums.shape, STATISTICS_DTYPE, sums.sums),
            ]
            moves += [
                Move("partial", name, "compute"),
                Move(name, f"{name}_shared", "stage", 1, sums.stored_access),
                Move(f"{name}_shared", fetched_name, "fetch", sums.warps, sums.fetched_access),
                Move(fetched_name, "scores", "compute"),
            ]
    for kind, parts, times in (
        ("query", request.parts, 0),
        ("key", request.parts, 1),
        ("value", request.value_parts, 1),
    ):
        for index, part in enumerate(parts):
            name = f"{kind}{index}"
            rows = request.stagings[name]
            tiles.append(Tile(f"{name}_global", "global", rows.shape, request.dtype))
            tiles.append(Tile(f"{name}_loaded", "register", rows.shape, request.dtype, rows.loaded))
            tiles.append(Tile(f"{name}_shared", "shared", rows.shape, request.dtype))
            moves.append(Move(f"{name}_global", f"{name}_loaded", "load", times))
            moves.append(Move(f"{name}_loaded", f"{name}_shared", "stage", times, rows.stored_access))
            fragment = fetched[f"value{part}" if kind == "value" else kind]
            target = f"output{index}" if kind == "value" else summed
            steps = part // request.columns_fetched
            instructions = scores.instructions * request.steps_fetched
            if kind == "value":
                chain = request.chains[part]
                steps, instructions = request.block_n // chain.k, chain.second.instructions
            tiles.append(Tile(f"{name}_fragment", "register", fragment.shape, request.dtype, fragment))
            moves.append(Move(f"{name}_shared", f"{name}_fragment", "fetch", steps, rows.fetched_access(fragment)))
            moves.append(Move(f"{name}_fragment", target, "mma", steps * instructions))
    for index, part in enumerate(request.value_parts):
        chain, output = request.chains[part], (request.block_m, part)
        accumulator = request.output_products[part].accumulator
        tiles.append(Tile(f"output{index}", "register", output, STATISTICS_DTYPE, accumulator))
        tiles.append(Tile(f"output{index}_global", "global", output, request.o_dtype))
        moves.append(Move(f"output{index}", f"output{index}_global", "store", 0))
        times = request.block_n // chain.k * chain.second.instructions
        moves.append(Move("operand", f"output{index}", "mma", times))
    return Plan("attention", tuple(tiles), tuple(moves), request.proofs)
