"""Whether a card can hold a request at all, in numbers, and the nearest request that it can hold.

Everything is counted from the plan: Triton is not asked, since a bad shape can abort the process inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import log2, prod
from typing import TypeVar

from layoutgen.atoms import CATALOGUE
from layoutgen.errors import CompilationError, LayoutgenError
from layoutgen.kernels import Request
from layoutgen.kernels.request import written_warps
from layoutgen.profiles.profile import Limits, Profile, load_profile, profile_names

AnyRequest = TypeVar("AnyRequest", bound=Request)
ADDRESSES = 12
"""Registers a thread cannot do without beside tiles: addresses of three tensors, the loop's counter and its bound."""
MOST = 512
"""The largest block size among those at which a nearest request is looked for."""


@dataclass(frozen=True)
class Need:
    """One resource: what the request needs at least, and what the card has."""

    resource: str
    needed: int
    available: int
    parts: str

    @property
    def met(self) -> bool:
        return self.needed <= self.available

    def __str__(self) -> str:
        sign = "<=" if self.met else ">"
        return f"{self.resource}: {self.needed} ({self.parts}) {sign} {self.available}"


@dataclass(frozen=True)
class Feasibility:
    """What a request needs of a card. The registers are those that no compiler can do without."""

    request: Request
    needs: tuple[Need, ...]

    @property
    def feasible(self) -> bool:
        return all(need.met for need in self.needs)

    @property
    def unmet(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if not need.met)

    def __str__(self) -> str:
        return "\n".join(map(str, self.needs))


def feasibility(request: Request, limits: Limits) -> Feasibility:
    """Count what a request needs: registers a thread, shared memory and warps of a block.

    >>> from layoutgen.kernels import AttentionRequest
    >>> from layoutgen.profiles import load_profile
    >>> print(feasibility(AttentionRequest(96, "m8n8k4", 64, 32), load_profile("volta").limits))
    registers a thread: 80 (64 of accumulators, 4 of fragments, 12 of addresses) <= 255
    bytes of shared memory a block: 28672 (weights_shared 4096 + query0_shared 8192 + key0_shared 4096 + value0_shared \
4096 + query1_shared 4096 + key1_shared 2048 + value1_shared 2048) <= 98304
    warps a block: 4 (4x1) <= 32
    registers of a block: 10240 (32 x 4 threads of 80) <= 65536
    """
    plan = request.plan
    atom = next(iter(request.tilings.values())).unit.atom
    halves = sum(1 << len(atom.fragment(operand).register_names) for operand in "ab")
    fragments = halves * request.element_bytes // 4  # those of one instruction
    registers = plan.accumulator_registers + fragments + ADDRESSES
    shared = " + ".join(f"{tile.name} {tile.bytes}" for tile in plan.buffers)
    threads = f"32 x {request.num_warps} threads of {registers}"
    return Feasibility(
        request,
        (
            Need(
                "registers a thread",
                registers,
                limits.registers_per_thread,
                f"{plan.accumulator_registers} of accumulators, {fragments} of fragments, {ADDRESSES} of addresses",
            ),
            Need("bytes of shared memory a block", plan.shared_bytes, limits.shared_bytes_per_block, shared),
            Need("warps a block", request.num_warps, limits.warps_per_block, written_warps(request.warps)),
            Need("registers of a block", 32 * request.num_warps * registers, limits.registers_per_sm, threads),
        ),
    )


def nearest(request: Request, limits: Limits) -> Request | None:
    """Return the feasible request of the same family whose block sizes are nearest, or None when there is none.

    >>> from layoutgen.kernels import AttentionRequest
    >>> from layoutgen.profiles import load_profile
    >>> found = nearest(AttentionRequest(96, "m8n8k4", 64, 256), load_profile("volta").limits)
    >>> (found.block_m, found.block_n) if found else None
    (64, 128)
    """
    return nearest_built(lambda **sizes: replace(request, **sizes), request.sizes, limits)


def nearest_built(build: Callable[..., AnyRequest], wanted: dict[str, int], limits: Limits) -> AnyRequest | None:
    """Return the feasible request whose block sizes are nearest to those wanted, or None when there is none.

    `build` makes a request of block sizes, and raises LayoutgenError for those that cannot be built. Near means few
    doublings and halvings in all; of two equally near the one that changes all sizes alike is taken, then the one with
    the larger tile.
    """

    def away(sizes: dict[str, int]) -> tuple[float, float, int]:
        steps = [abs(log2(size / wanted[name])) for name, size in sizes.items()]
        return sum(steps), max(steps), -prod(sizes.values())

    for sizes in sorted(_lattice(wanted), key=away):
        try:
            candidate = build(**sizes)
            if feasibility(candidate, limits).feasible:
                return candidate
        except LayoutgenError:
            continue  # these sizes do not tile
    return None


def _lattice(wanted: dict[str, int]) -> Iterator[dict[str, int]]:
    choices = [sorted({wanted[name], *(1 << bit for bit in range(2, 10))}) for name in wanted]
    for sizes in product(*choices):
        if all(size <= MOST for size in sizes):
            yield dict(zip(wanted, sizes, strict=True))


def check_feasible(request: Request, profile: Profile) -> None:
    """Refuse a request whose instruction the card has not, or that no block of it can hold.

    Raises LayoutgenError with the numbers and the nearest request that it can hold.
    """
    atom = next(iter(request.tilings.values())).atom
    if profile.arch not in atom.native:
        native = [known.alias for known in CATALOGUE if profile.arch in known.native]
        raise LayoutgenError(
            f"{request.family}: {profile.name} ({profile.arch}) has no {atom.alias}, which is native on "
            f"{', '.join(atom.native)}; it has {', '.join(native) or 'no matrix instruction'}"
        )
    found = feasibility(request, profile.limits)
    if found.feasible:
        return
    near = nearest(request, profile.limits)
    advice = "no block size of this request fits"
    if near is not None:
        sizes = ", ".join(
            f"{name} {size}" for name, size in (near.sizes | {"warps": written_warps(near.warps)}).items()
        )
        advice = f"the nearest request that can: {sizes}"
    raise LayoutgenError(
        f"{request.family}: cannot run on {profile.name}: {'; '.join(map(str, found.unmet))}; {advice}"
    )


def check_compiled(arch: str, shared_bytes: int, num_warps: int) -> None:
    """Refuse a compiled kernel that no card with a profile for this architecture can launch."""
    cards = [profile for profile in map(load_profile, profile_names()) if profile.arch == arch]
    for card in cards:
        limits = card.limits
        if shared_bytes <= limits.shared_bytes_per_block and num_warps <= limits.warps_per_block:
            return
    if cards:
        raise CompilationError(
            f"{arch}: a block of {num_warps} warps with {shared_bytes} bytes of shared memory cannot be launched: "
            f"{cards[0].name} has {cards[0].limits.shared_bytes_per_block} bytes and {cards[0].limits.warps_per_block} "
            "warps a block; take smaller blocks"
        )
