"""Flash attention, forward, the fast design: the request and its plan.

A warp owns two units of rows where it can, so that one fragment of K or V in registers serves two instructions. Rows of
Q, K and V are kept and fetched as whole 16-byte vectors, V as it lies in memory; the weights become a left operand
by exchanges within the warp. See tiling.chained for the second product, docs/attention.md for the order of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from typing import Any

from layoutgen.algebra import LinearLayout, Space
from layoutgen.atoms import CATALOGUE, Atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention import AttentionRequest, check_head_dim, check_split, covering_split
from layoutgen.kernels.request import STATISTICS_DTYPE, Array, check_power_of_two, contiguous, float_atom
from layoutgen.plan import Move, Plan, Tile
from layoutgen.plan.rows import RowStaging, stage_rows
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.proofs import Verdict, prove
from layoutgen.proofs.chained import cut_into_steps, prove_chain
from layoutgen.proofs.staging import staged
from layoutgen.tiling import Tiling, arrange, derive
from layoutgen.tiling.chained import Chain, rename_bits, vector_columns

WIDEST_PAIR = 128
"""The most columns of O for which a thread can hold those of two units of rows, next to S."""


ALIGNMENTS = ("top-left", "bottom-right")
"""How queries and keys of different number are aligned: at the first of each, or at the last."""


def deepened(fragment: LinearLayout, steps: int) -> LinearLayout:
    """Return what a thread fetches of `steps` k-steps at once: the steps are the highest registers.

    >>> deepened(LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0]]}, (2, 2)), 2).bases["register"]
    [[0, 1], [0, 2]]
    """
    rows, k = fragment.shape
    wider = Space.of_shape((rows, k * steps))
    bases = {dim: [list(basis) for basis in rows] for dim, rows in fragment.bases.items()}
    bases["register"] += [[0, k << bit] for bit in range(steps.bit_length() - 1)]
    return LinearLayout.from_bases(bases, wider)


def without_copies(layout: LinearLayout) -> tuple[LinearLayout, tuple[int, ...]]:
    """Return a layout without the registers that only repeat others, and which register bits are left.

    >>> thin, kept = without_copies(LinearLayout.from_bases({"register": [[1], [0], [2]]}, (4,)))
    >>> thin.bases["register"], kept
    ([[1], [2]], (0, 2))
    """
    kept = tuple(bit for bit in range(layout.domain.bits_of("register")) if layout.columns[bit])
    bases = {dim: list(rows) for dim, rows in layout.bases.items()}
    bases["register"] = [bases["register"][bit] for bit in kept]
    return LinearLayout.from_bases(bases, layout.codomain), kept


def with_copies(thin: LinearLayout, like: LinearLayout) -> LinearLayout:
    """Return a layout with registers that repeat others where `like` has them: what without_copies took away."""
    rows = iter(thin.bases["register"])
    zero = [0] * len(thin.shape)
    registers = range(like.domain.bits_of("register"))
    bases = {dim: list(bases) for dim, bases in thin.bases.items()}
    bases["register"] = [next(rows) if like.columns[bit] else zero for bit in registers]
    return LinearLayout.from_bases(bases, thin.codomain)


def right_operand_by_columns(atom: Atom) -> Atom:
    """Return the atom that differs from the given one in that a thread holds neighbouring columns of B.

    Then B is fetched as it lies in memory, columns along the rows. Raises LayoutgenError when there is none.
    """
    for other in CATALOGUE:
        same = (other.a, other.accumulator, other.lane, other.shape) == (
            atom.a,
            atom.accumulator,
            atom.lane,
            atom.shape,
        )
        if same and other.b != atom.b and other.b.formula("n")[0][0] in other.b.register_names:
            return other
    raise LayoutgenError(
        f"design fast: no atom is {atom.alias} with neighbouring columns of B in registers; take --design simple"
    )


@cache
def arrangements_of(atom: Atom) -> tuple[str, str]:
    """Return the arrangements of S and of O: rows of Q without conflicts, and the key bit that can be gathered."""
    k = atom.shape[2]
    key_bit = k.bit_length() - 1
    top = atom.shape[1].bit_length() - 1

    def cost(row_bit: int) -> int:
        tiling = derive(atom, 32, 32, (1, 1), f"m{row_bit},n{key_bit}")
        fragment = deepened(tiling.fragment_a, VECTOR_BYTES // 2 // k)
        return stage_rows((32, 32), fragment, 2, 1).fetched_access(fragment).wavefronts

    row_bit = min(range(atom.shape[0].bit_length()), key=lambda bit: (cost(bit), -bit))
    return f"m{row_bit},n{key_bit}", f"m{row_bit},n{top}"


def usual_row_blocks(parts: tuple[int, ...]) -> int:
    """Return the units along the rows of a warp for requests that name none: two, or one if O takes too much."""
    return 2 if sum(parts) <= WIDEST_PAIR else 1


@dataclass(frozen=True)
class FastAttentionRequest(AttentionRequest):
    """The fast design of an attention kernel; fields as for AttentionRequest.

    `row_blocks` are the units along the rows of a warp: how many instructions one fragment of K or V serves. Without it
    there are two, or one where the output takes too many registers.

    `causal`, or a `window` of keys to the left and right of a query's own (-1: all), hide keys; `alignment` says which
    key is a query's own: key number i is that of query i (top-left), or the last key that of the last query
    (bottom-right). `softcap` bounds scores to +-softcap by a tanh; `sinks` are logits of a head that join the
    denominator alone. The order is: scale, softcap, bias, masks. `out_dtype` is the output's, by default that of Q.

    >>> FastAttentionRequest(head_dim=96, atom="m8n8k4", block_m=128, block_n=32).warps
    (4, 1)
    """

    row_blocks: int = 0
    causal: bool = False
    window: tuple[int, int] | None = None
    alignment: str = ALIGNMENTS[0]
    softcap: float | None = None
    sinks: bool = False
    out_dtype: str | None = None

    design = "fast"
    template = "attention_fast.py.jinja"

    @property
    def usual_arrangement(self) -> str:
        return arrangements_of(float_atom(self.atom))[0]

    def __post_init__(self) -> None:
        check_head_dim(self.head_dim)
        atom = float_atom(self.atom)
        if len(atom.free_lane_bits) != 2:
            raise LayoutgenError(
                f"design fast: is built on two free lane bits; {atom.alias} has {len(atom.free_lane_bits)}: "
                "take --design simple"
            )
        unit = arrange(atom, self.arrangement or arrangements_of(atom)[0])
        object.__setattr__(self, "atom", atom.name)
        object.__setattr__(self, "arrangement", unit.arrangement)
        self._check_features(atom.operand_dtype)
        split = covering_split(self.head_dim) if self.split is None else tuple(self.split)
        object.__setattr__(self, "split", split)
        check_split(split, self.head_dim)
        object.__setattr__(self, "row_blocks", self.row_blocks or usual_row_blocks(split))
        check_power_of_two("row_blocks", self.row_blocks, 1, "one unit along the rows of a warp")
        rows = unit.shape[0] * self.row_blocks
        check_power_of_two("block_m", self.block_m, rows, "the query rows of a warp")
        check_power_of_two("block_n", self.block_n, unit.shape[1], "the keys of a unit")
        _ = self.chains  # raises when the units do not tile the block

    def _check_features(self, dtype: str) -> None:
        """Normalise what was asked for, and refuse what is no request."""
        if self.alignment not in ALIGNMENTS:
            raise LayoutgenError(f"alignment {self.alignment!r}: must be one of {', '.join(ALIGNMENTS)}")
        if self.window is not None:
            window = tuple(self.window)
            object.__setattr__(self, "window", window)
            if len(window) != 2 or min(window) < -1:
                raise LayoutgenError(
                    f"window {','.join(map(str, window))}: must be two numbers, left and right, of keys that are seen "
                    "beside a query's own, or -1 for all; for example 128,0"
                )
        if self.alignment != ALIGNMENTS[0] and not self.causal and self.window is None:
            raise LayoutgenError(f"alignment {self.alignment}: nothing is aligned without causal or a window")
        if self.softcap is not None and not 0 < self.softcap < float("inf"):
            raise LayoutgenError(f"softcap {self.softcap}: must be positive and finite, for example 30.0")
        if self.out_dtype not in (None, dtype, STATISTICS_DTYPE):
            raise LayoutgenError(f"out_dtype {self.out_dtype!r}: must be one of {dtype}, {STATISTICS_DTYPE}")
        if self.out_dtype == dtype:
            object.__setattr__(self, "out_dtype", None)

    @property
    def left(self) -> int | None:
        """How many keys before its own a query sees; None for all."""
        return self.window[0] if self.window is not None and self.window[0] >= 0 else None

    @property
    def right(self) -> int | None:
        """How many keys after its own a query sees; None for all."""
        if self.causal:
            return 0
        return self.window[1] if self.window is not None and self.window[1] >= 0 else None

    @property
    def o_dtype(self) -> str:
        """The dtype of the output."""
        return self.out_dtype or self.dtype

    @property
    def warps(self) -> tuple[int, int]:
        """One warp per `row_blocks` units along the rows."""
        return self.block_m // (arrange(float_atom(self.atom), self.arrangement).shape[0] * self.row_blocks), 1

    @cached_property
    def scores(self) -> Tiling:
        return derive(float_atom(self.atom), self.block_m, self.block_n, self.warps, self.arrangement)

    @property
    def reordered(self) -> bool:
        """Whether the buffers of K and V keep the keys of a tile in another order than memory does."""
        return self.bias

    @cached_property
    def key_order(self) -> tuple[int, ...]:
        """The key bit that each column bit of S stands for, so that what a thread holds of a row is a run of keys."""
        accumulator = self.scores.accumulator
        keys = accumulator.codomain.bits_of("dim1")
        registers = accumulator.domain.bits_of("register")
        own = sorted(c.bit_length() - 1 for c in accumulator.columns[:registers] if 0 < c < 1 << keys)
        first = own[: (VECTOR_BYTES // self.element_bytes).bit_length() - 1]
        bits = [*first, *(bit for bit in range(keys) if bit not in first)]
        return tuple(bits.index(bit) for bit in range(keys))

    @cached_property
    def by_keys(self) -> LinearLayout:
        """The accumulator of S by key: [block_m, block_n] as a bias lies in memory."""
        return rename_bits(self.scores.accumulator, "dim1", self.key_order)

    @cached_property
    def chains(self) -> dict[int, Chain]:
        """The second product, by the size of a part of the head dim."""
        atom = right_operand_by_columns(float_atom(self.atom))
        arrangement = arrangements_of(float_atom(self.atom))[1]
        vector = VECTOR_BYTES // self.element_bytes
        return {
            part: Chain(self.scores, vector_columns(derive(atom, self.block_m, part, self.warps, arrangement), vector))
            for part in dict.fromkeys(self.parts)
        }

    @cached_property
    def tilings(self) -> dict[str, Tiling]:
        return {"scores": self.scores, **{f"output{part}": chain.second for part, chain in self.chains.items()}}

    @property
    def steps_fetched(self) -> int:
        """k-steps of Q and K in one vector."""
        return VECTOR_BYTES // self.element_bytes // self.scores.unit.shape[2]

    @cached_property
    def query_fragment(self) -> LinearLayout:
        """What is fetched of Q at once: [block_m, 16 bytes]."""
        return deepened(self.scores.fragment_a, self.steps_fetched)

    @cached_property
    def key_fragment(self) -> LinearLayout:
        """What is fetched of K at once: [block_n, 16 bytes]."""
        return deepened(self.scores.fragment_b, self.steps_fetched)

    @cached_property
    def rows(self) -> dict[str, RowStaging]:
        """How each tile goes through shared memory, by part: query0, key0, value0."""
        result = {}
        for index, part in enumerate(self.parts):
            for kind, size, fragment in (
                ("query", self.block_m, self.query_fragment),
                ("key", self.block_n, self.key_fragment),
                ("value", self.block_n, self.chains[part].fetched),
            ):
                result[f"{kind}{index}"] = stage_rows((size, part), fragment, self.element_bytes, self.num_warps)
        return result

    @cached_property
    def proofs(self) -> tuple[Verdict, ...]:
        scores, k = self.scores, self.scores.unit.shape[2]
        verdicts = [
            *prove(scores),
            cut_into_steps("Q", self.query_fragment, scores.fragment_a, k),
            cut_into_steps("K", self.key_fragment, scores.fragment_b, k),
        ]
        for part, chain in self.chains.items():
            names = (f"O{part}", "P", f"V{part}")
            verdicts += prove_chain(
                chain, chain.second.accumulator, chain.weights, chain.fetched, names, self.element_bytes
            )
        verdicts += [staged(name, rows.stored, self.element_bytes) for name, rows in self.rows.items()]
        return tuple(verdicts)

    @cached_property
    def plan(self) -> Plan:
        """The tiles and moves of one block; `times` counts per tile of keys."""
        scores = self.scores
        shape = (self.block_m, self.block_n)
        weights = next(iter(self.chains.values())).weights
        tiles = [
            Tile("scores", "register", shape, STATISTICS_DTYPE, scores.accumulator),
            Tile("weights", "register", shape, self.dtype, scores.accumulator),
            Tile("operand", "register", shape, self.dtype, weights),
        ]
        moves = [Move("scores", "weights", "compute"), Move("weights", "operand", "compute")]
        for index, part in enumerate(self.parts):
            chain = self.chains[part]
            for kind in ("query", "key", "value"):
                name, rows = f"{kind}{index}", self.rows[f"{kind}{index}"]
                tiles.append(Tile(f"{name}_global", "global", rows.shape, self.dtype))
                tiles.append(Tile(f"{name}_loaded", "register", rows.shape, self.dtype, rows.loaded))
                tiles.append(Tile(f"{name}_shared", "shared", rows.shape, self.dtype))
                times = 0 if kind == "query" else 1  # Q is staged once, before the loop
                moves.append(Move(f"{name}_global", f"{name}_loaded", "load", times))
                moves.append(Move(f"{name}_loaded", f"{name}_shared", "stage", times, rows.stored_access))
            output = (self.block_m, part)
            tiles.append(Tile(f"output{index}", "register", output, STATISTICS_DTYPE, chain.second.accumulator))
            tiles.append(Tile(f"output{index}_global", "global", output, self.o_dtype))
            moves.append(Move(f"output{index}", f"output{index}_global", "store", 0))
            vectors = part // (scores.unit.shape[2] * self.steps_fetched)
            for source, fragment, target, times in (
                (f"query{index}", self.query_fragment, "scores", vectors),
                (f"key{index}", self.key_fragment, "scores", vectors),
                (f"value{index}", chain.fetched, f"output{index}", self.block_n // chain.k),
            ):
                name = f"{source}_fragment"
                instructions = scores.instructions * self.steps_fetched
                if target != "scores":
                    instructions = chain.second.instructions
                tiles.append(Tile(name, "register", fragment.shape, self.dtype, fragment))
                cost = self.rows[source].fetched_access(fragment)
                moves.append(Move(f"{source}_shared", name, "fetch", times, cost))
                moves.append(Move(name, target, "mma", times * instructions))
            moves.append(Move("operand", f"output{index}", "mma", self.block_n // chain.k * chain.second.instructions))
        return Plan("attention", tuple(tiles), tuple(moves), self.proofs)

    @property
    def features(self) -> dict[str, Any]:
        """What was asked for beyond the fields of AttentionRequest, by name."""
        plain = {f.name for f in fields(AttentionRequest)}
        usual = {f.name: f.default for f in fields(self) if f.name not in plain}
        usual["row_blocks"] = usual_row_blocks(self.parts)
        return {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain data, block sizes as numbers; features that were not asked for are left out."""
        plain = {f.name for f in fields(AttentionRequest)}
        return {
            "kernel": self.family,
            "design": self.design,
            **{name: value for name, value in asdict(self).items() if name in plain},
            **{name: list(value) if isinstance(value, tuple) else value for name, value in self.features.items()},
            "split": list(self.parts),
            "warps": "x".join(map(str, self.warps)),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FastAttentionRequest:
        """Read what `as_dict` wrote."""
        given: dict[str, Any] = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        for name in ("split", "window"):
            if given.get(name) is not None:
                given[name] = tuple(given[name])
        return cls(**given)

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the host function's array arguments for a shape B, H, Hkv, Tq, Tk, D, contiguous."""
        result = super().arrays(shape)
        batch, heads, _, t_q, _, head_dim = shape
        result["out"] = contiguous((batch, heads, t_q, head_dim), self.o_dtype)
        if self.sinks:
            result["sinks"] = contiguous((heads,), STATISTICS_DTYPE)
        return result
