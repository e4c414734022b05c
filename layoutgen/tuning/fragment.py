"""The winners of a search, written so that `--profile FILE` finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, FastMatmulRequest, Request
from layoutgen.kernels.request import written_warps
from layoutgen.profiles.profile import FLASH, parse_profile, read_profile
from layoutgen.tuning.search import Outcome


def expressible(request: Request, profile: str) -> bool:
    """Whether a profile's tile says all of a request: whether emitting with that tile makes the same one."""
    from layoutgen import api

    try:
        if isinstance(request, AttentionRequest):
            made: Request = api.attention(
                head_dim=request.head_dim,
                block_m=request.block_m,
                block_n=request.block_n,
                bias=request.bias,
                design=request.design,
                profile=profile,
            ).request
        else:
            features: dict[str, Any] = {}
            if isinstance(request, FastMatmulRequest):
                features = {"a_order": request.a_order, "accumulate": request.accumulate}
            made = api.matmul(
                **features,
                block_m=request.block_m,
                block_n=request.block_n,
                block_k=request.block_k,
                warps=request.warps,
                b_order=request.b_order,
                out_dtype=request.out_dtype,
                design=request.design,
                profile=profile,
            ).request
    except LayoutgenError:
        return False  # with what the tile leaves out chosen anew, the card cannot hold it
    return made == request


def tuned_profile(
    profile: str, found: Sequence[Outcome], command: str, top: int | None = None
) -> tuple[str, Outcome | None]:
    """Return a profile like the given one with the best tile in it, and the outcome that the tile is.

    The first `top` of what was found are listed under `tuned`. The tile is the best among those that a profile can
    express, which has no place for an arrangement or a split of a request's own; one that spills is taken only when all
    do, since its local memory also costs what no loop shows. When there is none, the tiles stay as they are and None is
    returned.
    """
    import yaml

    best = found[:top]
    usable = [outcome for outcome in found if expressible(outcome.candidate.request, profile)]
    chosen = next((outcome for outcome in usable if not outcome.result["spill_bytes"]), next(iter(usable), None))
    data = read_profile(profile)
    if chosen is not None:
        data["matrix_unit"] = _with_tile(dict(data["matrix_unit"]), chosen)
    data["tuned"] = [*data.get("tuned", []), *(_entry(outcome) for outcome in best)]
    parse_profile(data, profile)  # what is written must be readable
    header = (
        f"# {data['name']} with the tiles that a search found; written by\n#   {command}\n"
        "# The search ranks by a model of the machine code (docs/model.md): TFLOP/s below are predictions, not\n"
        "# measurements.\n"
    )
    return header + yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120), chosen


def _with_tile(unit: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """Return a matrix unit whose tile for this head dim, or first matmul tile, is the request's.

    The fast matmul has a tile for every size of a block and way of summing, with the rates that were predicted, and
    keeps others of that size that are faster with some number of blocks on an SM.
    """
    request = outcome.candidate.request
    if isinstance(request, AttentionRequest):
        design = "flash" if request.design == AttentionRequest.design else f"flash_{request.design}"
        key = f"{design}_bias" if request.bias and f"{design}_bias" in FLASH else design
        tile = {"head_dim_le": request.head_dim, "block_m": request.block_m, "block_n": request.block_n}
        # The tiles with a bias are the plain ones until a profile says otherwise.
        others = [
            dict(entry) for entry in unit.get(key) or unit.get(design, []) if entry["head_dim_le"] != request.head_dim
        ]
        return unit | {key: sorted([tile, *others], key=lambda entry: entry["head_dim_le"])}
    warps = written_warps(request.warps)
    first: dict[str, Any] = {
        "block_m": request.block_m,
        "block_n": request.block_n,
        "block_k": request.block_k,
        "warps": warps,
    }
    if isinstance(request, FastMatmulRequest):
        rates = [round(rate, 1) for rate in outcome.result["rates"]]
        tile = first | {"accumulate": request.accumulate, "tflops": rates}
        others = [dict(entry) for entry in unit.get("matmul_fast", []) if not _replaced(entry, tile)]
        return unit | {"matmul_fast": sorted([tile, *others], key=lambda entry: -max(entry["tflops"]))}
    return unit | {"matmul": [first, *(dict(entry) for entry in unit.get("matmul", []) if dict(entry) != first)]}


def _replaced(entry: Mapping[str, Any], tile: Mapping[str, Any]) -> bool:
    """Whether a fast matmul tile has the size of another, and its depth and warps or no rate that is higher."""

    def alike(*names: str) -> bool:
        return all(entry[name] == tile[name] for name in names)

    if not alike("block_m", "block_n", "accumulate"):
        return False
    old, new = entry["tflops"], tile["tflops"]
    counts = range(max(len(old), len(new)))
    slower = all(old[min(n, len(old) - 1)] <= new[min(n, len(new) - 1)] for n in counts)
    return slower or alike("block_k", "warps")


def _entry(outcome: Outcome) -> Mapping[str, Any]:
    keys = ("tflops", "low", "high", "registers", "spill_bytes", "shared_bytes", "blocks_per_sm")
    values = {key: round(value, 2) if isinstance(value, float) else value for key, value in outcome.result.items()}
    return {"request": outcome.result["request"], "predicted": {key: values[key] for key in keys}}
