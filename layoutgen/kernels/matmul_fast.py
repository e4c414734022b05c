"""Matrix products, the fast design: the request and its plan.

Both operands lie in memory with either of their dims contiguous, and are staged as they lie: 16 bytes of a row stay
together from global memory to the registers of a fragment. The atom is taken in the form that wants them so. While one
K tile is multiplied, the next one is on its way: first in registers, then in a second buffer; and the fragments of a
step are fetched during the step before it, across the one barrier of a tile.

The accumulator of a block is held in parts. Where all of K is summed in the tensor core these are of rows, and a part
takes all the k of a fetch before the next one begins, so that A's fragments live in few registers for a short time.
Where sums are added apart, a part takes 16 k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from layoutgen.algebra.space import LANES
from layoutgen.atoms import Atom
from layoutgen.errors import LayoutgenError
from layoutgen.kernels.expression import Expression
from layoutgen.kernels.matmul import B_ORDERS, MatmulRequest
from layoutgen.kernels.matmul_layouts import (
    Key,
    Operand,
    best_arrangement,
    operand,
    part_shape,
    streamed,
    tile_words,
)
from layoutgen.kernels.matmul_workspace import check_split_k, checked_operands, workspace
from layoutgen.kernels.request import (
    STATISTICS_DTYPE,
    Array,
    check_power_of_two,
    check_shape,
    check_types,
    contiguous,
    float_atom,
)
from layoutgen.plan import Move, Plan, Tile
from layoutgen.plan.staging import VECTOR_BYTES
from layoutgen.proofs import Verdict
from layoutgen.proofs.methods import equal
from layoutgen.proofs.staging import staged
from layoutgen.proofs.words import fetched, prove_words
from layoutgen.tiling import Tiling
from layoutgen.tiling.words import Words, oriented

A_ORDERS = {"mk": "[M, K], K along the rows in memory", "km": "[K, M], M along the rows in memory"}
ACCUMULATE = {
    "unit": "all of K is summed in the tensor core, which truncates",
    "tile": "every 16 k are summed from zero in the tensor core, and these sums added in fp32, rounded to nearest",
}
FEATURES = ("operand_dtype", "accumulate", "split_k", "group_m", "scale", "bias", "epilogue", "rounded", "residual")
"""Fields that add something to the plain product."""
MAX_GROUP = 1024
"""Blocks in a column of the launch order, so that those of a whole group are counted in 32 bits."""
K_LIMIT = 2**31
"""K from which on sums are not added apart: the kernel looks at the sign of K as a number of 32 bits."""
SUMS_AT_ONCE = 2
"""Parts whose sums are in registers together when sums are added apart: one, and the one before it."""
SUMMED_K = 16
"""k of a K tile that are summed from zero in the tensor core when sums are added apart: two vectors."""
ADDED_AT = (4, 4)
"""Of a thread's 8 sums of a unit, those that are added at the first k-steps of the next part: beside every HMMA one."""
STAGES = 2
"""Buffers of each operand: one is read while the other is filled. An iteration of the loop does as many K tiles."""


@dataclass(frozen=True)
class FastMatmulRequest(MatmulRequest):
    """C[z] = A[z] @ B[z], fast. A is [M, K] ("mk") or the m-contiguous [K, M] ("km"); all else as in the simple design.

    C = epilogue(alpha A B + beta bias) + residual, all of it in fp32. `accumulate` says who sums over K: see
    `ACCUMULATE`. Blocks run in columns of `group_m` blocks, side by side, so that those that run together share
    more of A and B in the cache; 1 is for the plain order, all rows of a column first. `scale` makes alpha and beta
    arguments of the launch, `bias` adds an array that is broadcast to [Z, M, N], `epilogue` is a name or an
    expression in x (see `Expression`), `rounded` rounds its argument to C's dtype first, as a product and an
    activation apart would, and `residual` adds an array of C's shape. `operand_dtype` float32 takes A and B in fp32
    and multiplies two 16-bit parts of each; `split_k` blocks share the sum of an element. Both need a workspace: see
    `matmul_workspace`.

    >>> FastMatmulRequest(atom="m8n8k4", block_m=64, block_n=64, block_k=32, warps=(1, 2)).arrangement
    'n2,m2'
    """

    a_order: str = "mk"
    accumulate: str = "unit"
    group_m: int = 1
    scale: bool = False
    bias: bool = False
    epilogue: str = "none"
    rounded: bool = False
    residual: bool = False
    operand_dtype: str | None = None
    split_k: int = 1

    design = "fast"
    orders = ("a_order", "b_order")
    template = "matmul_fast.py.jinja"

    @property
    def usual_arrangement(self) -> str:
        return best_arrangement(self.shape_key)

    def __post_init__(self) -> None:
        check_types(self)
        for name, orders in (("a_order", A_ORDERS), ("b_order", B_ORDERS)):
            if getattr(self, name) not in orders:
                raise LayoutgenError(f"{name} {getattr(self, name)!r}: must be one of {', '.join(orders)}")
        object.__setattr__(self, "warps", tuple(self.warps))
        object.__setattr__(self, "atom", self.form_of(float_atom(self.atom)).name)
        vector = VECTOR_BYTES // self.element_bytes
        check_power_of_two("block_k", self.block_k, 2 * vector, "two whole vectors")
        if min(self.warps) < 1:
            raise LayoutgenError(f"warps {'x'.join(map(str, self.warps))}: must be positive; the nearest is 1x1")
        for name, size in (("block_m", self.block_m), ("block_n", self.block_n)):
            check_power_of_two(name, size, 2 * vector, "two whole vectors")
            least = LANES * self.num_warps * vector // self.block_k
            if size < least:
                raise LayoutgenError(
                    f"{name} = {size}: a K tile of {self.block_k} leaves threads of {self.num_warps} warps without a "
                    f"whole vector; the nearest legal value is {least}"
                )
        if self.accumulate not in ACCUMULATE:
            raise LayoutgenError(f"accumulate {self.accumulate!r}: must be one of {', '.join(ACCUMULATE)}")
        if not 1 <= self.group_m <= MAX_GROUP:
            nearest = min(max(self.group_m, 1), MAX_GROUP)
            raise LayoutgenError(
                f"group_m = {self.group_m}: must be 1, the plain order, to {MAX_GROUP}; the nearest is {nearest}"
            )
        object.__setattr__(self, "operand_dtype", checked_operands(self.operand_dtype, self.dtype))
        object.__setattr__(self, "out_dtype", self.out_dtype or self.given_dtype)
        check_split_k(self.split_k)
        _ = self.expression  # raises when it is none
        if self.rounded and self.epilogue == "none":
            raise LayoutgenError("rounded: is about what an epilogue is given; name an epilogue, for example silu")
        if self.arrangement is None:
            object.__setattr__(self, "arrangement", best_arrangement(self.shape_key))
        super().__post_init__()
        _ = self.operands  # raises when a tile cannot be staged

    def form_of(self, found: Atom) -> Atom:
        return oriented(found, self.along("a"), self.along("b"))

    @property
    def features(self) -> dict[str, Any]:
        usual = {name: type(self).__dataclass_fields__[name].default for name in FEATURES}
        return {name: getattr(self, name) for name in FEATURES if getattr(self, name) != usual[name]}

    @property
    def compiler_options(self) -> dict[str, Any]:
        """A lower level of ptxas for sums that are added apart.

        At its usual one ptxas puts off the additions of a part, whose results nothing in the tile waits for, until the
        sums of many parts are in registers and some spill.
        """
        return {"ptx_options": "--opt-level 1"} if self.summed_by_part else {}

    @property
    def given_dtype(self) -> str:
        return self.operand_dtype or self.dtype

    @property
    def kernels(self) -> tuple[str, ...]:
        split = ("split_a_kernel", "split_b_kernel") if self.operand_dtype else ()
        return (*split, *super().kernels, *(("finish_kernel",) if self.split_k > 1 else ()))

    @property
    def shape_key(self) -> Key:
        """What the layouts depend on, the arrangement excepted."""
        return Key(
            atom=self.atom,
            block_m=self.block_m,
            block_n=self.block_n,
            block_k=self.block_k,
            warps=self.warps,
            along_a=self.along("a"),
            along_b=self.along("b"),
            summed_by_part=self.summed_by_part,
        )

    @property
    def summed_by_part(self) -> bool:
        """Whether parts take turns: each sums some k, and is added while the next one sums the same k."""
        return self.accumulate == "tile"

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of a part of the accumulator."""
        return part_shape(self.shape_key, self.arrangement)

    @property
    def parts(self) -> tuple[int, int]:
        """Parts one below the other, and side by side."""
        return self.block_m // self.part[0], self.block_n // self.part[1]

    @property
    def streamed(self) -> str | None:
        """The operand that a part fetches anew though the part before had it, when parts are summed in turn."""
        return streamed(self.parts) if self.summed_by_part else None

    def along(self, operand: str) -> str:
        """Return the coordinate along which an operand is contiguous."""
        return (self.a_order if operand == "a" else self.b_order)[-1]

    @property
    def expression(self) -> Expression:
        return Expression(self.epilogue)

    @cached_property
    def words(self) -> Words:
        return tile_words(self.shape_key, self.arrangement)

    @cached_property
    def tiling(self) -> Tiling:
        return self.words.tiling

    @cached_property
    def operands(self) -> dict[str, Operand]:
        return {name: operand(self.words, name, self.shape_key) for name in "ab"}

    @cached_property
    def proofs(self) -> tuple[Verdict, ...]:
        verdicts = [*prove_words(self.words)]
        for name, way in self.operands.items():
            places = way.staging.into_buffer(way.fetch)
            verdicts += [
                staged(f"buffer_{name}", way.staging.stored, self.element_bytes),
                fetched(f"fragment_{name}", places, way.staging.buffer, way.wanted),
            ]
            if self.summed_by_part:
                verdicts.append(equal(f"the buffer that the portions of {name} fill", way.sliced, way.staging.stored))
        return tuple(verdicts)

    @cached_property
    def plan(self) -> Plan:
        """The tiles and moves of one block; `times` counts per iteration of the loop, which does two K tiles."""
        tiling = self.tiling
        steps = self.block_k // tiling.unit.shape[2]
        products = [f"product{part}" for part in range(self.parts[0] * self.parts[1])]
        sums = [f"sum{part}" for part in range(min(SUMS_AT_ONCE, len(products)))] if self.summed_by_part else []
        shares = len(products) // len(sums or products)  # parts whose products a tile takes, one after the other
        shape = self.part
        tiles = [
            *(Tile(name, "register", shape, STATISTICS_DTYPE, tiling.accumulator) for name in products + sums),
            *(Tile(f"c{part}", "global", shape, self.c_dtype) for part in range(len(products))),
        ]
        moves = [Move(product, f"c{part}", "store", 0) for part, product in enumerate(products)]
        moves += [
            Move(sums[part % len(sums)], product, "add", STAGES * self.block_k // SUMMED_K)
            for part, product in enumerate(products)
            if sums
        ]
        for name, way in self.operands.items():
            cost = way.staging.fetched_access(way.fetch)
            tiles += [
                Tile(name, "global", way.shape, self.dtype),
                Tile(f"{name}_loaded", "register", way.shape, self.dtype, way.staging.loaded),
                Tile(f"{name}_fragment", "register", way.fetch.shape, self.dtype, way.fetch),
            ]
            moves += [
                Move(name, f"{name}_loaded", "load", STAGES),
                *(
                    Move(f"{name}_fragment", target, "mma", STAGES * steps * tiling.instructions * shares)
                    for target in sums or products
                ),
            ]
            fetched_parts = len(products) if name == self.streamed else way.parts
            for stage in range(STAGES):
                shared = f"{name}_shared{stage}"
                tiles.append(Tile(shared, "shared", way.buffer, self.dtype))
                moves += [
                    Move(f"{name}_loaded", shared, "stage", 1, way.staging.stored_access),
                    Move(shared, f"{name}_fragment", "fetch", steps // way.steps * fetched_parts, cost),
                ]
        return Plan("matmul", tuple(tiles), tuple(moves), self.proofs)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain data; a feature that was not asked for is left out."""
        data = super().as_dict()
        left_out = {*FEATURES} - {*self.features}
        kept = {name: value for name, value in data.items() if name not in left_out}
        return {"kernel": kept.pop("kernel"), "design": self.design, **kept}

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        check_shape(shape, "Z,M,N,K")
        batch, m, n, k = shape
        a_shape = (batch, m, k) if self.a_order == "mk" else (batch, k, m)
        b_shape = (batch, k, n) if self.b_order == "kn" else (batch, n, k)
        found = {
            "a": contiguous(a_shape, self.given_dtype),
            "b": contiguous(b_shape, self.given_dtype),
            "c": contiguous((batch, m, n), self.c_dtype),
        }
        if self.bias:
            found["bias"] = contiguous((1, 1, n), self.dtype)
        if self.residual:
            found["residual"] = contiguous((batch, m, n), self.c_dtype)
        parts = self.dtype if self.operand_dtype else None
        return found | workspace(shape, self.a_order, self.b_order, self.block_k, parts, self.split_k)
