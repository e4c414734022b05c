"""What is searched, and what a plan alone says of a candidate: whether it fits, and how fast it can be at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from layoutgen.atoms import Atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import (
    DESIGNS,
    AttentionRequest,
    FastMatmulRequest,
    Request,
    covering_split,
)
from layoutgen.kernels.attention import MAX_HEAD_DIM
from layoutgen.kernels.matmul_layouts import word_arrangements
from layoutgen.kernels.request import chosen_design, written_warps
from layoutgen.profiles import DEFAULT, Profile, load_profile
from layoutgen.profiles.feasibility import feasibility
from layoutgen.profiles.model import load_model

SIZES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "attention": {"block_m": (16, 32, 64, 128, 256), "block_n": (16, 32, 64, 128)},
    "matmul": {"block_m": (64, 128, 256), "block_n": (64, 128, 256), "block_k": (16, 32, 64)},
}
MATMUL_WARPS = ((2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (1, 2), (2, 1), (1, 1))


@dataclass(frozen=True)
class Candidate:
    """A request that the card can hold.

    `bound` are TFLOP/s at the clock that no prediction exceeds; `wavefronts` of shared memory per 1,024 multiply-adds.
    """

    request: Request
    bound: float
    wavefronts: float

    @property
    def label(self) -> str:
        request = self.request
        parts = f" {'+'.join(map(str, request.parts))}" if isinstance(request, AttentionRequest) else ""
        warps = written_warps(request.warps)
        name = request.family if request.design == "simple" else f"{request.family} {request.design}"
        return f"{name}{parts} {'x'.join(map(str, request.sizes.values()))}, {warps} warps, {request.arrangement}"


@dataclass(frozen=True)
class Refused:
    """A combination that is not tried, and why."""

    options: Mapping[str, Any]
    reason: str


def arrangements(atom: Atom) -> tuple[str, ...]:
    """Return the arrangements worth trying: each free lane bit above the atom's own bits, first bit first.

    Where several bits go to one coordinate their order only renames quadpairs, so it is kept ascending. The atom's own
    arrangement comes first.

    >>> from layoutgen.atoms import atom
    >>> arrangements(atom("m8n8k4"))
    ('m3,n3', 'm3,m4', 'n3,m3', 'n3,n4')
    """
    bits = {"m": atom.shape[0].bit_length() - 1, "n": atom.shape[1].bit_length() - 1}
    found = {atom.arrangement}
    for coordinates in product("mn", repeat=len(atom.free_lane_bits)):
        places = []
        for index, coordinate in enumerate(coordinates):
            places.append(f"{coordinate}{bits[coordinate] + coordinates[:index].count(coordinate)}")
        found.add(",".join(places))
    return (atom.arrangement, *sorted(found - {atom.arrangement}))


def splits(head_dim: int) -> tuple[tuple[int, ...] | None, ...]:
    """Return the ways to cover a head dim: the smallest cover, and one power of two when that is another.

    Of a head dim that one warp cannot hold the design chooses the parts itself: None.

    >>> splits(96), splits(64), splits(512)
    (((64, 32), (128,)), ((64,),), (None,))
    """
    if head_dim > MAX_HEAD_DIM:
        return (None,)
    cover = covering_split(head_dim)
    whole = (max(16, 1 << (head_dim - 1).bit_length()),)
    return (cover,) if cover == whole or whole[0] > MAX_HEAD_DIM else (cover, whole)


def candidates(
    family: str, profile: str, fixed: Mapping[str, Any], clock_mhz: int
) -> tuple[tuple[Candidate, ...], tuple[Refused, ...]]:
    """Return what can be tried, best bound first, then fewest wavefronts; and what was refused, with the reason.

    `fixed` are options of the request that are given; all others are searched. Raises LayoutgenError when nothing can
    be tried, with the reason of the first refusal.
    """
    card = load_profile(profile)
    if card.unit is None:
        raise LayoutgenError(
            f"tune: profile {profile} has no matrix unit; name one that has one, for example {DEFAULT}"
        )
    found, refused = {}, []
    for options in _combinations(family, card.unit.atom, fixed):
        try:
            request = _request(family, {"atom": card.unit.atom.name, **options})
            if repr(request) in found:
                continue
            unmet = feasibility(request, card.limits).unmet
        except LayoutgenError as error:
            refused.append(Refused(options, str(error)))
            continue
        if unmet:
            refused.append(Refused(options, "; ".join(map(str, unmet))))
        else:
            found[repr(request)] = candidate(request, card, profile, clock_mhz)
    if not found:
        reason = refused[0].reason if refused else "nothing to try"
        raise LayoutgenError(f"tune {family}: no candidate can run on {profile}: {reason}")
    ordered = sorted(found.values(), key=lambda candidate: (-candidate.bound, candidate.wavefronts))
    return tuple(ordered), tuple(refused)


def _combinations(family: str, atom: Atom, fixed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    choices: dict[str, Sequence[Any]] = {"design": tuple(DESIGNS[family]), **SIZES[family]}
    if family == "attention":
        if "head_dim" not in fixed:
            raise LayoutgenError("tune attention: --head-dim is needed, for example --head-dim 96")
        choices["split"] = splits(fixed["head_dim"])
    else:
        choices["warps"] = MATMUL_WARPS
    choices.update({name: (value,) for name, value in fixed.items()})
    for values in product(*choices.values()):
        options = dict(zip(choices, values, strict=True))
        places = (fixed["arrangement"],) if "arrangement" in fixed else _arrangements(family, options["design"], atom)
        for place in places:
            yield options | {"arrangement": place}


def _arrangements(family: str, design: str, atom: Atom) -> tuple[str | None, ...]:
    """Return the arrangements that a design is tried with; None is for its own."""
    if DESIGNS[family].get(design) is FastMatmulRequest:
        return (None, *word_arrangements(atom))
    return (None, *arrangements(atom))


def _request(family: str, options: Mapping[str, Any]) -> Request:
    values = dict(options)
    kind: Callable[..., Request] = chosen_design(family, DESIGNS[family], values.pop("design"), values)
    return kind(**values)


def candidate(request: Request, card: Profile, profile: str, clock_mhz: int) -> Candidate:
    """Return a request with the TFLOP/s that its plan's counts allow: tensor cores, and wavefronts of shared memory.

    A fragment that the plan lists for several products is counted once, since a compiler may keep it.
    """
    model, plan = load_model(profile), request.plan
    once = {
        (move.source, move.target if move.kind == "stage" else move.access): move.times * move.access.wavefronts
        for move in plan.moves
        if move.kind in ("stage", "fetch") and move.access is not None
    }
    unit = next(iter(request.tilings.values())).unit
    lanes = unit.shape[0] * unit.shape[1] * unit.shape[2]
    tensor = plan.instructions * _steps(lanes) * model.cycles["tensor"] / model.sub_cores
    wavefronts = sum(once.values())
    per_cycle = 2 * lanes * plan.instructions * request.useful / max(tensor, float(wavefronts))
    bound = per_cycle * card.limits.sms * clock_mhz * 1e6 / 1e12
    return Candidate(request, bound, wavefronts / (lanes * plan.instructions / 1024))


def _steps(products: int) -> int:
    """HMMA of one mma: each does 256 multiply-adds of a warp."""
    return products // 256
