"""Flash attention, forward: the request and its plan.

Every warp owns whole rows of queries (one row of units each), so that the row statistics never cross a warp. The head
dim is covered by one or two powers of two; each part has its own buffers and its own output accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

from layoutgen.algebra import access
from layoutgen.algebra.space import is_power_of_two
from layoutgen.atoms import DTYPE_BYTES, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.request import (
    STATISTICS_DTYPE,
    Array,
    check_power_of_two,
    check_shape,
    check_types,
    contiguous,
    fields_from,
    float_atom,
    written_warps,
)
from layoutgen.plan import Move, Plan, Staging, Tile, stage
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.staging import staged
from layoutgen.tiling import Tiling, arrange, derive

MIN_HEAD_DIM, MAX_HEAD_DIM = 16, 256


def covering_split(head_dim: int, least: int = MIN_HEAD_DIM, most: int = MAX_HEAD_DIM) -> tuple[int, ...]:
    """Return the smallest sum of at most two powers of two from `least` on that covers a head dim, larger part first.

    Of two equal sums the one with two parts is taken, unless the head dim is a power of two itself. Head dims above
    `most` are refused.

    >>> covering_split(96), covering_split(112), covering_split(128), covering_split(136, least=32)
    ((64, 32), (64, 64), (128,), (128, 32))
    """
    check_head_dim(head_dim, most)
    if is_power_of_two(head_dim) and head_dim >= least:
        return (head_dim,)
    sizes = [1 << bits for bits in range(least.bit_length() - 1, most.bit_length())]
    if head_dim <= least:
        return (least,)
    pairs = [(large, small) for large in sizes for small in sizes if small <= large and large + small >= head_dim]
    return min(pairs, key=sum)


def check_head_dim(head_dim: int, most: int = MAX_HEAD_DIM) -> None:
    if not MIN_HEAD_DIM <= head_dim <= most:
        nearest = min(max(head_dim, MIN_HEAD_DIM), most)
        raise LayoutgenError(
            f"head dim {head_dim}: must lie in {MIN_HEAD_DIM}..{most}; the nearest legal one is {nearest}"
        )


def check_split(
    split: tuple[int, ...], head_dim: int, least: int = MIN_HEAD_DIM, most: int = MAX_HEAD_DIM, name: str = "split"
) -> None:
    """Refuse a split that is not one or two powers of two from `least` to `most`, or does not cover the head dim."""
    cover = " + ".join(map(str, covering_split(head_dim, least, most)))
    text = ",".join(map(str, split))
    if not 1 <= len(split) <= 2:
        count = {0: "no parts", 3: "three parts"}.get(len(split), f"{len(split)} parts")
        raise LayoutgenError(
            f"{name} {text} has {count}; at most two are allowed: head dim {head_dim} is covered by {cover}"
        )
    for part in split:
        if not is_power_of_two(part) or not least <= part <= most:
            raise LayoutgenError(
                f"{name} {text}: part {part} is not a power of two in {least}..{most}; "
                f"head dim {head_dim} is covered by {cover}"
            )
    if sum(split) < head_dim:
        raise LayoutgenError(f"{name} {text} covers {sum(split)} of head dim {head_dim}, which is covered by {cover}")
    if sum(split[:-1]) >= head_dim:
        raise LayoutgenError(
            f"{name} {text}: part {split[-1]} lies beyond head dim {head_dim}, which is covered by {cover}"
        )


@dataclass(frozen=True)
class AttentionRequest:
    """A flash attention forward kernel: Q, K, V and output in the atom's operand dtype, statistics in fp32.

    `block_m` query rows and `block_n` keys a block; `split` are the parts of the head dim (None: the smallest cover);
    `bias` adds a bias to the scores. Raises LayoutgenError on anything that cannot be built.

    >>> AttentionRequest(head_dim=96, atom="m8n8k4", block_m=64, block_n=32).split
    (64, 32)
    """

    head_dim: int
    atom: str
    block_m: int
    block_n: int
    split: tuple[int, ...] | None = None
    bias: bool = False
    arrangement: str | None = None

    family = "attention"
    design = "simple"
    most_head_dim = MAX_HEAD_DIM
    template = "attention.py.jinja"
    mask = sinks = False

    @property
    def usual_arrangement(self) -> str:
        """The arrangement of requests that name none."""
        return float_atom(self.atom).arrangement

    def __post_init__(self) -> None:
        check_types(self)
        check_head_dim(self.head_dim)
        unit = arrange(float_atom(self.atom), self.arrangement)
        object.__setattr__(self, "atom", unit.atom.name)
        object.__setattr__(self, "arrangement", unit.arrangement)
        split = self.usual_split if self.split is None else tuple(self.split)
        object.__setattr__(self, "split", split)
        check_split(split, self.head_dim)
        check_power_of_two("block_m", self.block_m, unit.shape[0], "the query rows of a warp")
        _ = self.tilings  # raises when the units do not tile the block

    def form_of(self, found: Atom) -> Atom:
        """Return the form in which this request takes an atom."""
        return found

    @property
    def value_dim(self) -> int:
        """The head dim of V and of the output."""
        return self.head_dim

    @property
    def o_dtype(self) -> str:
        """The dtype of the output."""
        return self.dtype

    @property
    def softcap(self) -> float | None:
        """What scores are bounded to, if they are."""
        return None

    @property
    def features(self) -> dict[str, Any]:
        """What is asked for beside plain attention, by name."""
        return {"bias": True} if self.bias else {}

    @property
    def options(self) -> dict[str, Any]:
        """What asks for this kernel, by name; the design, the atom and the arrangement stand beside it."""
        return {"head_dim": self.head_dim, "split": self.parts, **self.sizes, **self.features}

    @property
    def usual(self) -> dict[str, Any]:
        """Values of options that go without saying."""
        return {"split": self.usual_split}

    @property
    def compiler_options(self) -> dict[str, Any]:
        """What a launch tells Triton's compiler beside the number of warps."""
        return {}

    @property
    def parts(self) -> tuple[int, ...]:
        """The parts of the head dim, larger first."""
        return self.split or ()

    @property
    def useful(self) -> float:
        """The share of the products that are asked for: the rest are of columns beyond the head dim."""
        return self.head_dim / sum(self.parts)

    @property
    def usual_split(self) -> tuple[int, ...]:
        """The split of requests that name none."""
        return covering_split(self.head_dim)

    @property
    def warps(self) -> tuple[int, int]:
        """One warp per row of units."""
        return self.block_m // arrange(float_atom(self.atom), self.arrangement).shape[0], 1

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that one call launches, in this order."""
        return (f"{self.family}_kernel",)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of a block by name."""
        return {"block_m": self.block_m, "block_n": self.block_n}

    @property
    def num_warps(self) -> int:
        return self.warps[0]

    @property
    def dtype(self) -> str:
        """The dtype of Q, K, V and the output."""
        return float_atom(self.atom).operand_dtype

    @property
    def element_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    @cached_property
    def tilings(self) -> dict[str, Tiling]:
        """The tiling of the scores ("scores"), and one per size of a part of the output ("output64", ...)."""
        unit = float_atom(self.atom)
        result = {"scores": derive(unit, self.block_m, self.block_n, self.warps, self.arrangement)}
        for part in self.parts:
            result[f"output{part}"] = derive(unit, self.block_m, part, self.warps, self.arrangement)
        return result

    @cached_property
    def stagings(self) -> dict[str, Staging]:
        """How each tile gets into its buffer, by part: query0, key0, value0. k runs along the columns of Q and K."""
        k = self.tilings["scores"].unit.shape[2]
        result = {}
        for index, part in enumerate(self.parts):
            result[f"query{index}"] = stage((self.block_m, part), 1, k, self.element_bytes, self.num_warps)
            result[f"key{index}"] = stage((self.block_n, part), 1, k, self.element_bytes, self.num_warps)
            result[f"value{index}"] = stage((self.block_n, part), 0, k, self.element_bytes, self.num_warps)
        return result

    @property
    def weights(self) -> Staging:
        """How P gets from the accumulator's layout into its buffer; only the cutting up is used."""
        k = self.tilings["scores"].unit.shape[2]
        return stage((self.block_m, self.block_n), 1, k, self.element_bytes, self.num_warps)

    @cached_property
    def proofs(self) -> tuple[Verdict, ...]:
        verdicts: list[Verdict] = []
        for tiling in self.tilings.values():
            verdicts.extend(prove(tiling))
        verdicts.extend(staged(name, staging.stored, self.element_bytes) for name, staging in self.stagings.items())
        verdicts.append(
            staged("weights", self.weights.into_buffer(self.tilings["scores"].accumulator), self.element_bytes)
        )
        return tuple(verdicts)

    @cached_property
    def plan(self) -> Plan:
        """The tiles and moves of one block; `times` counts per tile of keys."""
        scores = self.tilings["scores"]
        tiles = [Tile("scores", "register", (self.block_m, self.block_n), STATISTICS_DTYPE, scores.accumulator)]
        moves = []
        weights = self.weights
        weights_access = access(weights.into_buffer(scores.accumulator), self.element_bytes)
        tiles.append(Tile("weights", "register", scores.accumulator.shape, self.dtype, scores.accumulator))
        tiles.append(Tile("weights_shared", "shared", weights.buffer, self.dtype))
        moves.append(Move("scores", "weights", "compute"))
        moves.append(Move("weights", "weights_shared", "stage", 1, weights_access))
        for index, part in enumerate(self.parts):
            output = self.tilings[f"output{part}"]
            names = {kind: f"{kind}{index}" for kind in ("query", "key", "value", "output")}
            for kind in ("query", "key", "value"):
                staging = self.stagings[names[kind]]
                name = names[kind]
                tiles.append(Tile(f"{name}_global", "global", staging.shape, self.dtype))
                tiles.append(Tile(f"{name}_loaded", "register", staging.shape, self.dtype, staging.loaded))
                tiles.append(Tile(f"{name}_shared", "shared", staging.buffer, self.dtype))
                times = 0 if kind == "query" else 1  # Q is staged once, before the loop
                moves.append(Move(f"{name}_global", f"{name}_loaded", "load", times))
                moves.append(Move(f"{name}_loaded", f"{name}_shared", "stage", times, staging.access))
            tiles.append(Tile(names["output"], "register", (self.block_m, part), STATISTICS_DTYPE, output.accumulator))
            tiles.append(Tile(f"output{index}_global", "global", (self.block_m, part), self.dtype))
            moves.append(Move(names["output"], f"output{index}_global", "store", 0))
            for tiling, target, operands in (
                (scores, "scores", (("a", f"query{index}", part), ("b", f"key{index}", part))),
                (output, names["output"], (("a", "weights", self.block_n), ("b", f"value{index}", self.block_n))),
            ):
                for operand, source, extent in operands:
                    steps = extent // tiling.unit.shape[2]
                    fragment = tiling.fragment_a if operand == "a" else tiling.fragment_b
                    name = f"{source}_fragment_{target}"
                    tiles.append(Tile(name, "register", fragment.shape, self.dtype, fragment))
                    moves.append(Move(f"{source}_shared", name, "fetch", steps, access(fragment, self.element_bytes)))
                    moves.append(Move(name, target, "mma", steps * tiling.instructions))
        return Plan("attention", tuple(tiles), tuple(moves), self.proofs)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain data, block sizes as numbers."""
        return {
            "kernel": self.family,
            **asdict(self),
            "split": list(self.parts),
            "warps": written_warps(self.warps),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        return cls(**fields_from(data, cls))

    @property
    def default_shape(self) -> tuple[int, ...]:
        """B, H, Hkv, Tq, Tk, D of the launch that a compilation is specialised for when nothing is said."""
        return 1, 1, 1, 1024, 1024, self.head_dim

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the host function's array arguments for a shape B, H, Hkv, Tq, Tk, D, contiguous."""
        check_shape(shape, "B,H,Hkv,Tq,Tk,D")
        batch, heads, kv_heads, t_q, t_k, head_dim = shape
        if kv_heads < 1 or heads % kv_heads:
            given = ",".join(map(str, shape))
            raise LayoutgenError(
                f"shape {given}: Hkv = {kv_heads} must divide H = {heads}; Hkv = {heads} or 1 would do"
            )
        if head_dim != self.head_dim:
            raise LayoutgenError(
                f"shape: D = {head_dim}: this kernel has head dim {self.head_dim}; emit one for {head_dim}"
            )
        result = {
            "q": contiguous((batch, heads, t_q, head_dim), self.dtype),
            "k": contiguous((batch, kv_heads, t_k, head_dim), self.dtype),
            "v": contiguous((batch, kv_heads, t_k, head_dim), self.dtype),
            "out": contiguous((batch, heads, t_q, head_dim), self.dtype),
            "lse": contiguous((batch, heads, t_q), STATISTICS_DTYPE),
        }
        if self.bias:
            result["bias"] = contiguous((batch, heads, t_q, t_k), self.dtype)
        return result
