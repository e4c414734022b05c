"""The Python interface: derive, prove, and kernels as values.

Keyword arguments everywhere; what is left out comes from the profile.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_type_hints

from layoutgen import tiling as tilings
from layoutgen.atoms import Atom
from layoutgen.atoms import atom as find_atom
from layoutgen.emission import file_name, render, write_atomically
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import (
    FastAttentionRequest,
    FastMatmulRequest,
    Request,
    attention_design,
    matmul_design,
)
from layoutgen.kernels.attention import check_head_dim
from layoutgen.kernels.attention_layouts import WIDEST_PAIR
from layoutgen.kernels.matmul import B_ORDERS
from layoutgen.kernels.matmul_fast import A_ORDERS
from layoutgen.kernels.matmul_workspace import PRODUCTS
from layoutgen.kernels.request import (
    STATISTICS_DTYPE,
    check_fields,
    check_shape,
    check_type,
    parse_warps,
    written_warps,
)
from layoutgen.plan import Plan
from layoutgen.profiles import (
    DEFAULT,
    Choice,
    FastMatmulTile,
    MatmulTile,
    Profile,
    check_feasible,
    choose_matmul,
    fast_matmul_tile,
    load_profile,
    matrix_unit_flash_tile,
    short_flash_tile,
    stored_as,
    unit_of,
)
from layoutgen.profiles.feasibility import nearest_built
from layoutgen.proofs import Verdict
from layoutgen.proofs import prove as prove_tiling
from layoutgen.tiling import Tiling

if TYPE_CHECKING:
    from layoutgen.toolchain import Compiled

Warps = str | tuple[int, int]
HEAD_DIMS = (16, 32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256)
"""The head dims for which the fast attention kernel is kept in generated/, plain and causal."""
T = TypeVar("T")
P = ParamSpec("P")


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function refuse keyword arguments that are not of the types that it declares, before it computes."""

    wanted = get_type_hints(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in kwargs.items():
            if name in wanted:
                check_type(name, value, wanted[name])
        return function(*args, **kwargs)

    return checked


@dataclass(frozen=True, repr=False)
class Kernel:
    """A requested kernel: its plan, its proofs and its source. Its obligations are discharged when it is requested."""

    request: Request

    @property
    def plan(self) -> Plan:
        return self.request.plan

    @property
    def proofs(self) -> tuple[Verdict, ...]:
        return self.request.proofs

    @cached_property
    def source(self) -> str:
        """The text of the kernel file. Raises RefutedError when an obligation fails."""
        return render(self.request)

    def write(self, path: str | Path) -> Path:
        """Write the kernel whole or not at all; a folder gets it under its usual name. Returns the file's path."""
        target = Path(path)
        if os.path.isdir(target):  # False where a name is too long to be asked about
            target = target / file_name(self.request)
        write_atomically(target, self.source)
        return target

    def compile(self, arch: str) -> Compiled:
        """Compile for an architecture such as sm_70, without a GPU, specialised for the default launch."""
        from layoutgen.toolchain import compile_kernel, read_kernel

        with tempfile.TemporaryDirectory() as folder:
            return compile_kernel(read_kernel(self.write(folder)), arch)

    def __repr__(self) -> str:
        return f"<Kernel {file_name(self.request).removesuffix('.py')}: {len(self.proofs)} obligations>"


@typed
def derive(
    *,
    block_m: int | None = None,
    block_n: int | None = None,
    warps: Warps | None = None,
    atom: str | Atom | None = None,
    arrangement: str | None = None,
    profile: str = DEFAULT,
) -> Tiling:
    """Derive the layouts of a [block_m, block_n] accumulator.

    Without an atom it is that of the profile's matrix unit, without a block its matmul tile; a block that is given
    without warps has one.

    >>> derive(block_m=16, block_n=16).fragment_a.bases["lane"]
    [[1, 0], [2, 0], [8, 0], [0, 0], [4, 0]]
    """
    chosen = atom if isinstance(atom, Atom) else find_atom(atom) if atom else unit_of(profile).atom
    if block_m is None and block_n is None:
        tile = next(iter(unit_of(profile).matmul), None)
        if tile is not None:
            block_m, block_n, warps = tile.block_m, tile.block_n, tile.warps if warps is None else warps
    if block_m is None or block_n is None:
        raise LayoutgenError("derive: block_m and block_n go together, for example block_m 64 and block_n 32")
    return tilings.derive(chosen, block_m, block_n, _warps(warps or (1, 1)), arrangement)


def prove(tiling: Tiling) -> tuple[Verdict, ...]:
    """Discharge claims 1 to 4 for a tiling; one verdict per obligation.

    >>> all(verdict.holds for verdict in prove(derive(block_m=64, block_n=32, warps="4x1")))
    True
    """
    if not isinstance(tiling, Tiling):
        raise LayoutgenError(
            f"prove: {tiling!r:.60} is a {type(tiling).__name__}; it must be a Tiling, as derive returns"
        )
    return prove_tiling(tiling)


@typed
def attention(
    *,
    head_dim: int,
    block_m: int | None = None,
    block_n: int | None = None,
    split: Sequence[int] | None = None,
    bias: bool = False,
    design: str = "simple",
    warps: Warps | None = None,
    atom: str | None = None,
    arrangement: str | None = None,
    profile: str = DEFAULT,
    max_queries: int | None = None,
    **features: Any,
) -> Kernel:
    """Return a flash attention forward kernel.

    `design` is simple or fast; `features` are the further fields of FastAttentionRequest, which only the fast one has.
    For launches of up to `max_queries` queries the fast design takes a tile with fewer rows, where the profile has one;
    the kernel still takes any number.

    The tile and the atom come from the profile unless they are given. `warps` along the rows follow from block_m; the
    fast design also takes a number of warps that share rows. Raises LayoutgenError on a request that cannot be built or
    held by the card.

    >>> attention(head_dim=96)
    <Kernel attention_d96_64x32: 34 obligations>
    """
    kind = attention_design(design, features)
    check_fields(kind, features)
    if kind.most_head_dim < head_dim <= FastAttentionRequest.most_head_dim:
        raise LayoutgenError(
            f"head dim {head_dim}: design {design} takes at most {kind.most_head_dim}; take that, or design "
            f"{FastAttentionRequest.design}, which takes what the card holds, to {FastAttentionRequest.most_head_dim}"
        )
    check_head_dim(head_dim, kind.most_head_dim)
    card, unit = load_profile(profile), unit_of(profile)
    given = {name: size for name, size in (("block_m", block_m), ("block_n", block_n)) if size is not None}
    value_dim = features.get("v_head_dim") or head_dim
    chosen: dict[str, int] = {}
    if max_queries is not None:
        chosen = _short_tile(card, design, max(head_dim, value_dim), max_queries, tuple(given))
    searched = not given and not chosen
    if len(given) < 2 and not chosen:
        # The output takes registers, a wide Q and K shared memory alone; a mask takes registers like a bias.
        widest = max(value_dim, min(head_dim, WIDEST_PAIR))
        chosen = _usual_tile(profile, design, head_dim, widest, bias or bool(features.get("mask")))
    if warps is not None and "column_warps" in kind.__dataclass_fields__:
        features.setdefault("column_warps", _warps(warps)[1])
    fields: dict[str, Any] = {
        **chosen,
        **given,
        "head_dim": head_dim,
        "atom": atom or unit.atom.name,
        "split": None if split is None else tuple(split),
        "bias": bias,
        "arrangement": arrangement,
        **features,
    }
    request = None
    if searched:
        # The profile's tile is one for V as wide as Q and K: with wider ones the nearest that can be built and held.
        request = nearest_built(partial(kind, **fields), chosen, card.limits)
    if request is None:
        request = kind(**fields)
    if warps is not None and _warps(warps) != request.warps:
        have, want = written_warps(_warps(warps)), written_warps(request.warps)
        raise LayoutgenError(f"warps {have}: attention keeps whole rows in a warp; {request.block_m} rows take {want}")
    check_feasible(request, card)
    return Kernel(request)


def _usual_tile(profile: str, design: str, head_dim: int, widest: int, added: bool) -> dict[str, int]:
    """Return the block sizes of the profile's tile for `widest` columns; `added`: scores have terms to load."""
    tile = matrix_unit_flash_tile(profile, widest, design, added)
    if tile is None:
        other = ", or take design simple" if design == "fast" and unit_of(profile).flash else ""
        raise LayoutgenError(
            f"profile {profile}: design {design} has no attention tile for head dim {head_dim} there; "
            f"give block_m and block_n{other}"
        )
    return {"block_m": tile.block_m, "block_n": tile.block_n}


def _short_tile(card: Profile, design: str, head_dim: int, queries: int, given: Sequence[str]) -> dict[str, int]:
    """Return the sizes of the profile's tile for few queries; none where the usual one serves."""
    if given or design != FastAttentionRequest.design:
        what = f"{' and '.join(given)} given" if given else f"the {design} design"
        raise LayoutgenError(
            f"attention: max_queries chooses among the tiles of the fast design, not with {what}; take design fast and "
            "max_queries, or give the tile alone"
        )
    if queries < 1:
        raise LayoutgenError(f"max_queries {queries}: must be at least 1")
    tile = short_flash_tile(card, head_dim, queries)
    if tile is None:
        return {}
    return {"block_m": tile.block_m, "block_n": tile.block_n, "row_blocks": tile.row_blocks}


@typed
def matmul(
    *,
    block_m: int | None = None,
    block_n: int | None = None,
    block_k: int | None = None,
    warps: Warps | None = None,
    b_order: str = "kn",
    out_dtype: str | None = None,
    design: str = "simple",
    atom: str | None = None,
    arrangement: str | None = None,
    profile: str = DEFAULT,
    shape: Sequence[int] | None = None,
    **features: Any,
) -> Kernel:
    """Return a matrix product kernel. The tile, the warps and the atom come from the profile unless they are given.

    `design` is simple or fast; `features` are the further fields of FastMatmulRequest, which only the fast one has.
    For a `shape` Z, M, N, K the fast design takes the tile and the split of K that `matmul_choice` finds.

    >>> matmul(block_m=64, block_n=64, block_k=32)
    <Kernel matmul_64x64x32: 11 obligations>
    """
    unit = unit_of(profile)
    tile: MatmulTile | FastMatmulTile | None = next(iter(unit.matmul), None)
    if design == FastMatmulRequest.design:
        tile = fast_matmul_tile(unit.matmul_fast, features.get("accumulate", "unit")) or tile
    kind = matmul_design(design, features)
    check_fields(kind, features)
    if shape is not None:
        sizes = {"block_m": block_m, "block_n": block_n, "block_k": block_k, "warps": warps}
        given = [name for name, value in sizes.items() if value is not None]
        if given or design != FastMatmulRequest.design:
            what = f"{', '.join(given)} given" if given else f"the {design} design"
            raise LayoutgenError(
                f"matmul: a shape chooses among the tiles of the fast design, not with {what}; take design fast and a "
                "shape, or give the tile and no shape"
            )
        asked = {name: features[name] for name in ("accumulate", "operand_dtype", "split_k") if name in features}
        choice = matmul_choice(shape=shape, profile=profile, **asked)
        tile, features["split_k"] = choice.tile, choice.split_k
    if isinstance(tile, FastMatmulTile):
        tile = stored_as(tile, features.get("a_order", "mk"))

    def chosen(name: str, value: T | None) -> T:
        if value is not None:
            return value
        if tile is None:
            raise LayoutgenError(f"profile {profile}: has no matmul tile; give {name}")
        found: T = getattr(tile, name)
        return found

    request = kind(
        atom=atom or unit.atom.name,
        block_m=chosen("block_m", block_m),
        block_n=chosen("block_n", block_n),
        block_k=chosen("block_k", block_k),
        warps=chosen("warps", None if warps is None else _warps(warps)),
        b_order=b_order,
        out_dtype=out_dtype,
        arrangement=arrangement,
        **features,
    )
    check_feasible(request, load_profile(profile))
    return Kernel(request)


@typed
def matmul_choice(
    *,
    shape: Sequence[int],
    accumulate: str = "unit",
    operand_dtype: str | None = None,
    split_k: int | None = None,
    profile: str = DEFAULT,
) -> Choice:
    """Return the tile and the split of K with the shortest predicted time for a shape Z, M, N, K.

    `accumulate` and `operand_dtype` are those of the request; a given `split_k` is kept.

    >>> matmul_choice(shape=(1, 128, 128, 32768)).split_k > 1
    True
    """
    check_shape(shape, "Z,M,N,K")
    products = PRODUCTS if operand_dtype == STATISTICS_DTYPE else 1
    return choose_matmul(load_profile(profile), tuple(shape), accumulate, products, split_k)


@cache
def default_set() -> tuple[Kernel, ...]:
    """Return the kernels that are kept in generated/."""
    return (
        *(attention(head_dim=head_dim) for head_dim in (40, 64, 80, 96, 128)),
        *(attention(design="fast", head_dim=d, causal=causal) for d in HEAD_DIMS for causal in (False, True)),
        matmul(block_m=64, block_n=64, block_k=32),
        matmul(block_m=128, block_n=128, block_k=32),
        *(matmul(design="fast", a_order=a, b_order=b) for a in A_ORDERS for b in B_ORDERS),
        matmul(design="fast", block_m=64, block_n=64, block_k=32, warps="1x2"),
        matmul(design="fast", accumulate="tile"),
        matmul(design="fast", scale=True, bias=True, epilogue="silu", rounded=True, residual=True),
    )


def _warps(warps: Warps) -> tuple[int, int]:
    return parse_warps(warps) if isinstance(warps, str) else warps
