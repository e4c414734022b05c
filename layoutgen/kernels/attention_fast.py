"""Flash attention, forward, the fast design: the request and the layouts that it leads to.

A warp owns two units of rows where it can, so that one fragment of K or V in registers serves two instructions. Rows of
Q, K and V are kept and fetched as whole 16-byte vectors, V as it lies in memory; the weights become a left operand
by exchanges within the warp. See tiling.chained for the second product, docs/attention.md for the order of the loop.

Where a warp cannot hold all columns of O, several share its rows (tiling.divided): each sums S over its part of the
head dim, the partial sums go through shared memory to all of them, and each computes its part of O's columns.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from layoutgen.algebra import LinearLayout
from layoutgen.algebra.operations import rename_bits
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention import MIN_HEAD_DIM, AttentionRequest, check_head_dim, check_split, covering_split
from layoutgen.kernels.attention_features import ALIGNMENTS, MASK_DTYPES, check_features
from layoutgen.kernels.attention_layouts import (
    arrangements_of,
    check_atom,
    usual_column_warps,
    usual_row_blocks,
)
from layoutgen.kernels.attention_plan import plan_of, proofs_of
from layoutgen.kernels.request import (
    STATISTICS_DTYPE,
    Array,
    check_power_of_two,
    check_types,
    contiguous,
    float_atom,
    written_warps,
)
from layoutgen.plan import Plan
from layoutgen.plan.partial import PartialSums, exchange_sums
from layoutgen.plan.rows import RowStaging, stage_rows
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.proofs import Verdict
from layoutgen.tiling import Tiling, arrange, derive
from layoutgen.tiling.chained import Chain, vector_columns
from layoutgen.tiling.divided import copied, divided, stacked
from layoutgen.tiling.relabelling import Product
from layoutgen.tiling.words import deepened, oriented


@dataclass(frozen=True)
class FastAttentionRequest(AttentionRequest):
    """The fast design of an attention kernel; fields as for AttentionRequest.

    `row_blocks` are the units along the rows of a warp: how many instructions one fragment of K or V serves. Without it
    there are two, or one where the output takes too many registers. `column_warps` share the rows and divide the head
    dim among themselves; without it they are as many as need be. `v_head_dim` is the head dim of V and the output,
    where it is not that of Q and K, and `v_split` its parts.

    `mask` takes an array that says which keys a query attends to. `causal`, or a `window` of keys to the left and right
    of a query's own (-1: all), hide keys; `alignment` says which key is a query's own: key number i is that of query i
    (top-left), or the last key that of the last query (bottom-right). `softcap` bounds scores to +-softcap by a tanh;
    `sinks` are logits of a head that join the denominator alone. The order is: scale, softcap, bias, masks. `out_dtype`
    is the output's, by default that of Q.

    >>> FastAttentionRequest(head_dim=96, atom="m8n8k4", block_m=128, block_n=32).warps
    (4, 1)
    >>> FastAttentionRequest(head_dim=256, atom="m8n8k4", block_m=128, block_n=16).warps
    (4, 2)
    """

    row_blocks: int = 0
    column_warps: int = 0
    v_head_dim: int | None = None
    v_split: tuple[int, ...] | None = None
    mask: bool = False
    causal: bool = False
    window: tuple[int, int] | None = None
    alignment: str = ALIGNMENTS[0]
    softcap: float | None = None
    sinks: bool = False
    out_dtype: str | None = None

    design = "fast"
    most_head_dim = 1024  # that is derived; whether a card holds it, its limits say
    template = "attention_fast.py.jinja"

    @property
    def usual_arrangement(self) -> str:
        return arrangements_of(float_atom(self.atom))[0]

    def __post_init__(self) -> None:
        check_types(self)
        check_head_dim(self.head_dim, self.most_head_dim)
        atom = float_atom(self.atom)
        check_atom(atom)
        unit = arrange(atom, self.arrangement or arrangements_of(atom)[0])
        object.__setattr__(self, "atom", atom.name)
        object.__setattr__(self, "arrangement", unit.arrangement)
        if self.window is not None:
            object.__setattr__(self, "window", tuple(self.window))
        check_features(self, atom.operand_dtype)
        if self.out_dtype == atom.operand_dtype:
            object.__setattr__(self, "out_dtype", None)
        self._check_parts()
        object.__setattr__(self, "row_blocks", self.row_blocks or self.usual_row_blocks)
        check_power_of_two("row_blocks", self.row_blocks, 1, "one unit along the rows of a warp")
        rows = unit.shape[0] * self.row_blocks
        check_power_of_two("block_m", self.block_m, rows, "the query rows of a warp")
        check_power_of_two("block_n", self.block_n, unit.shape[1], "the keys of a unit")
        try:
            _ = self.chains
        except LayoutgenError as error:
            if self.arrangement == self.usual_arrangement:
                raise
            near = f"the nearest that is: {self.usual_arrangement}"
            raise LayoutgenError(f"arrangement {self.arrangement}: {error}; {near}") from error
        _ = self.partial_sums  # raises when they have no room

    def _check_parts(self) -> None:
        """Normalise the head dims, their parts and the warps that divide them, and refuse what is none."""
        if self.v_head_dim is not None:
            check_head_dim(self.v_head_dim, self.most_head_dim)
        if self.v_head_dim == self.head_dim and self.v_split in (None, self.split):
            object.__setattr__(self, "v_head_dim", None)
        if self.v_head_dim is None and self.v_split is not None:
            raise LayoutgenError("v_split: V has the parts of Q and K unless it has a head dim of its own: v_head_dim")
        object.__setattr__(self, "column_warps", self.column_warps or usual_column_warps(self.value_dim))
        check_power_of_two("column_warps", self.column_warps, 1, "one warp with all columns of O")
        split = self.usual_split if self.split is None else tuple(self.split)
        check_split(split, self.head_dim, self._least_part, self.most_head_dim)
        object.__setattr__(self, "split", split)
        if self.v_head_dim is not None:
            v_split = self.usual_v_split if self.v_split is None else tuple(self.v_split)
            check_split(v_split, self.v_head_dim, self._least_part, self.most_head_dim, "v_split")
            object.__setattr__(self, "v_split", v_split)

    @property
    def value_dim(self) -> int:
        """The head dim of V and the output."""
        return self.v_head_dim or self.head_dim

    @property
    def value_parts(self) -> tuple[int, ...]:
        """The parts of V's head dim, larger first."""
        return self.v_split or self.parts

    @property
    def useful(self) -> float:
        return (self.head_dim + self.value_dim) / (sum(self.parts) + sum(self.value_parts))

    @property
    def _least_part(self) -> int:
        """Of every part each warp takes a unit's columns of O, at least."""
        return MIN_HEAD_DIM * self.column_warps

    @property
    def usual_split(self) -> tuple[int, ...]:
        return self._covering(self.head_dim)

    @property
    def usual_v_split(self) -> tuple[int, ...]:
        """The split of V's head dim in requests that name none."""
        return self._covering(self.value_dim)

    def _covering(self, head_dim: int) -> tuple[int, ...]:
        """Cover a head dim; where warps divide it, by one part rather than two halves: sums have the room of one."""
        parts = covering_split(head_dim, self._least_part, self.most_head_dim)
        return (sum(parts),) if self.column_warps > 1 and len(set(parts)) < len(parts) else parts

    @property
    def usual_row_blocks(self) -> int:
        return usual_row_blocks(self.value_parts, self.column_warps)

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
    def row_warps(self) -> int:
        """Groups of warps with rows of their own: one per `row_blocks` units along the rows."""
        return self.block_m // (arrange(float_atom(self.atom), self.arrangement).shape[0] * self.row_blocks)

    @property
    def warps(self) -> tuple[int, int]:
        """Warps with rows of their own, and warps that share them."""
        return self.row_warps, self.column_warps

    @property
    def num_warps(self) -> int:
        return self.row_warps * self.column_warps

    # ---- S: one warp of a group, then the group

    @cached_property
    def scores(self) -> Tiling:
        """The tiling of S as one warp of each group has it."""
        return derive(float_atom(self.atom), self.block_m, self.block_n, (self.row_warps, 1), self.arrangement)

    @cached_property
    def matrix_scores(self) -> LinearLayout:
        """S, which every warp of a group holds: [block_m, block_n]."""
        return copied(self.scores.accumulator, self.column_warps)

    @cached_property
    def score_product(self) -> Product:
        """The partial sums of S and the k-steps of Q and K: each warp of a group takes k of its own."""
        scores, warps = self.scores, self.column_warps
        return Product(
            stacked(scores.accumulator, warps),
            divided(scores.fragment_a, "dim1", warps),
            divided(scores.fragment_b, "dim1", warps),
            scores.product.cuts,
        )

    @cached_property
    def partial_sums(self) -> PartialSums | None:
        """How the partial sums of S get to all warps of a group; None when a warp has the whole of it."""
        if self.column_warps == 1:
            return None
        # They go where K and V lie: K has been read by then, and V is stored after them.
        k_bytes, v_bytes = (self.block_n * p[0] * self.element_bytes for p in (self.parts, self.value_parts))
        return exchange_sums(self.score_product.accumulator, self.matrix_scores, (k_bytes, v_bytes))

    @property
    def reordered(self) -> bool:
        """Whether the buffers of K and V keep the keys of a tile in another order than memory does."""
        return self.bias or self.mask

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
        """S by key: [block_m, block_n] as a bias lies in memory."""
        return rename_bits(self.matrix_scores, "dim1", self.key_order)

    # ---- O

    @cached_property
    def chains(self) -> dict[int, Chain]:
        """The second product of one warp of each group, by the size of a part of V's head dim."""
        scores = float_atom(self.atom)
        atom = oriented(scores, "k", "n")  # V is fetched as it lies in memory: a thread holds neighbouring columns
        arrangement = arrangements_of(scores)[1]
        vector = VECTOR_BYTES // self.element_bytes
        return {
            part: Chain(
                self.scores,
                vector_columns(
                    derive(atom, self.block_m, part // self.column_warps, (self.row_warps, 1), arrangement), vector
                ),
            )
            for part in dict.fromkeys(self.value_parts)
        }

    @cached_property
    def output_products(self) -> dict[int, Product]:
        """The second product of whole groups: each warp takes a part of the columns of O and V."""
        return {
            part: Product(
                divided(chain.second.accumulator, "dim1", self.column_warps),
                copied(chain.fragment_a, self.column_warps),
                divided(chain.fragment_b, "dim0", self.column_warps),
                frozenset({part.bit_length() - 1 + chain.second.unit.shape[0].bit_length() - 1}),
            )
            for part, chain in self.chains.items()
        }

    @cached_property
    def tilings(self) -> dict[str, Tiling]:
        return {"scores": self.scores, **{f"output{part}": chain.second for part, chain in self.chains.items()}}

    # ---- what is fetched at once

    @property
    def steps_fetched(self) -> int:
        """k-steps of Q and K in one vector."""
        return VECTOR_BYTES // self.element_bytes // self.scores.unit.shape[2]

    @property
    def columns_fetched(self) -> int:
        """Columns of Q and K that a group of warps fetches at once: a vector each."""
        return VECTOR_BYTES // self.element_bytes * self.column_warps

    @cached_property
    def query_fragment(self) -> LinearLayout:
        """What a warp fetches of Q at once: [block_m, 16 bytes]."""
        return deepened(self.scores.fragment_a, self.steps_fetched)

    @cached_property
    def key_fragment(self) -> LinearLayout:
        """What a warp fetches of K at once: [block_n, 16 bytes]."""
        return deepened(self.scores.fragment_b, self.steps_fetched)

    @cached_property
    def fetched(self) -> dict[str, LinearLayout]:
        """What a group of warps fetches at once: "query", "key", and "value" with the size of a part."""
        warps = self.column_warps
        return {
            "query": divided(self.query_fragment, "dim1", warps),
            "key": divided(self.key_fragment, "dim1", warps),
            **{f"value{part}": divided(chain.fetched, "dim1", warps) for part, chain in self.chains.items()},
        }

    @cached_property
    def stagings(self) -> dict[str, RowStaging]:  # type: ignore[override]
        """How each tile goes through shared memory, by part: query0, key0, value0."""
        result = {}
        for kind, size, parts in (
            ("query", self.block_m, self.parts),
            ("key", self.block_n, self.parts),
            ("value", self.block_n, self.value_parts),
        ):
            for index, part in enumerate(parts):
                fragment = self.fetched[f"value{part}" if kind == "value" else kind]
                result[f"{kind}{index}"] = stage_rows(
                    (size, part),
                    fragment,
                    self.element_bytes,
                    self.num_warps,
                    few_rows=kind != "query",  # Q is loaded once
                    turn=self.chains[part].flip[0] if kind == "value" else None,
                )
        return result

    @cached_property
    def proofs(self) -> tuple[Verdict, ...]:
        return proofs_of(self)

    @cached_property
    def plan(self) -> Plan:
        """The tiles and moves of one block; `times` counts per tile of keys."""
        return plan_of(self)

    # ---- as data

    @property
    def features(self) -> dict[str, Any]:
        plain = {f.name for f in fields(AttentionRequest)}
        usual = {f.name: f.default for f in fields(self) if f.name not in plain}
        usual["row_blocks"] = self.usual_row_blocks
        usual["column_warps"] = usual_column_warps(self.value_dim)
        if self.v_head_dim is not None:
            usual["v_split"] = self.usual_v_split
        own = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        return super().features | own

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain data, block sizes as numbers; features that were not asked for are left out."""
        plain = {f.name for f in fields(AttentionRequest)}
        return {
            "kernel": self.family,
            "design": self.design,
            **{name: value for name, value in asdict(self).items() if name in plain},
            **{name: list(value) if isinstance(value, tuple) else value for name, value in self.features.items()},
            "split": list(self.parts),
            "warps": written_warps(self.warps),
        }

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the host function's array arguments for a shape B, H, Hkv, Tq, Tk, D, contiguous.

        A head dim of V of its own follows from the request; it may be given as a seventh size, Dv.
        """
        if len(shape) == 7 and shape[6] != self.value_dim:
            raise LayoutgenError(
                f"shape: Dv = {shape[6]}: this kernel has V head dim {self.value_dim}; emit one for {shape[6]}"
            )
        result = super().arrays(shape[:6] if len(shape) == 7 else shape)
        batch, heads, kv_heads, t_q, t_k, _ = shape[:6]
        result["v"] = contiguous((batch, kv_heads, t_k, self.value_dim), self.dtype)
        result["out"] = contiguous((batch, heads, t_q, self.value_dim), self.o_dtype)
        if self.mask:
            result["mask"] = contiguous((batch, heads, t_q, t_k), MASK_DTYPES[0])
        if self.sinks:
            result["sinks"] = contiguous((heads,), STATISTICS_DTYPE)
        return result
