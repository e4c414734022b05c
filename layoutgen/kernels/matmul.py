"""Matrix products, fp16 operands and fp32 accumulation: the request and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from layoutgen.algebra import access
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

B_ORDERS = {"kn": "[K, N], N along the rows in memory", "nk": "[N, K], K along the rows in memory"}


@dataclass(frozen=True)
class MatmulRequest:
    """C[z] = A[z] @ B[z] with operands in the atom's dtype, accumulated in fp32.

    A is [M, K]. B is [K, N] ("kn") or the k-contiguous [N, K] ("nk"), which decides how it is staged; strides are free
    in either case. Raises LayoutgenError on anything that cannot be built.

    >>> MatmulRequest(atom="m8n8k4", block_m=64, block_n=64, block_k=32, warps=(2, 2)).num_warps
    4
    """

    atom: str
    block_m: int
    block_n: int
    block_k: int
    warps: tuple[int, int]
    b_order: str = "kn"
    out_dtype: str | None = None
    arrangement: str | None = None

    family = "matmul"
    design = "simple"
    a_order = "mk"
    split_k = 1
    bias = residual = False
    orders: ClassVar[tuple[str, ...]] = ("b_order",)
    """Fields for the order of an operand in memory."""
    template = "matmul.py.jinja"
    useful = 1.0
    """Share of the multiplied elements that count: all."""

    @property
    def usual_arrangement(self) -> str:
        """The arrangement of requests that name none."""
        return float_atom(self.atom).arrangement

    def __post_init__(self) -> None:
        check_types(self)
        unit = arrange(float_atom(self.atom), self.arrangement)
        object.__setattr__(self, "atom", unit.atom.name)
        object.__setattr__(self, "arrangement", unit.arrangement)
        object.__setattr__(self, "warps", tuple(self.warps))
        if self.b_order not in B_ORDERS:
            raise LayoutgenError(f"b_order {self.b_order!r}: must be one of {', '.join(B_ORDERS)}")
        object.__setattr__(self, "out_dtype", self.out_dtype or unit.atom.operand_dtype)
        dtypes = (unit.atom.operand_dtype, STATISTICS_DTYPE)
        if self.out_dtype not in dtypes:
            raise LayoutgenError(f"out_dtype {self.out_dtype!r}: must be one of {', '.join(dtypes)}")
        check_power_of_two("block_k", self.block_k, unit.shape[2], "one k-step")
        _ = self.tiling  # raises when the units do not tile the block

    def form_of(self, found: Atom) -> Atom:
        """Return the form in which this request takes an atom."""
        return found

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that one call launches, in this order."""
        return (f"{self.family}_kernel",)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of a block by name."""
        return {"block_m": self.block_m, "block_n": self.block_n, "block_k": self.block_k}

    @property
    def features(self) -> dict[str, Any]:
        """What is asked for beside the plain product, by name."""
        return {}

    @property
    def options(self) -> dict[str, Any]:
        """What asks for this kernel, by name; the design, the atom and the arrangement stand beside it."""
        orders = {name: getattr(self, name) for name in self.orders}
        out = {} if self.c_dtype == self.dtype else {"out_dtype": self.c_dtype}
        return {**self.sizes, "warps": written_warps(self.warps), **orders, **out, **self.features}

    @property
    def usual(self) -> dict[str, Any]:
        """Values of options that go without saying."""
        return {"warps": "2x2", "a_order": "mk", "b_order": "kn"}

    @property
    def num_warps(self) -> int:
        return self.warps[0] * self.warps[1]

    @property
    def compiler_options(self) -> dict[str, Any]:
        """What a launch tells Triton's compiler beside the number of warps."""
        return {}

    @property
    def c_dtype(self) -> str:
        """The dtype of C: that of the operands unless the request says otherwise."""
        return self.out_dtype or self.dtype

    @property
    def dtype(self) -> str:
        """The dtype of A and B."""
        return float_atom(self.atom).operand_dtype

    @property
    def given_dtype(self) -> str:
        """The dtype of A and B as a launch gets them; `dtype` is that of what is multiplied."""
        return self.dtype

    @property
    def element_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    @cached_property
    def tiling(self) -> Tiling:
        return derive(float_atom(self.atom), self.block_m, self.block_n, self.warps, self.arrangement)

    @property
    def tilings(self) -> dict[str, Tiling]:
        return {"product": self.tiling}

    @cached_property
    def stagings(self) -> dict[str, Staging]:
        """How A ("a") and B ("b") get into their buffers."""
        k = self.tiling.unit.shape[2]
        b_shape = (self.block_k, self.block_n) if self.b_order == "kn" else (self.block_n, self.block_k)
        return {
            "a": stage((self.block_m, self.block_k), 1, k, self.element_bytes, self.num_warps),
            "b": stage(b_shape, 0 if self.b_order == "kn" else 1, k, self.element_bytes, self.num_warps),
        }

    @cached_property
    def proofs(self) -> tuple[Verdict, ...]:
        return (
            *prove(self.tiling),
            *(staged(name, staging.stored, self.element_bytes) for name, staging in self.stagings.items()),
        )

    @cached_property
    def plan(self) -> Plan:
        """The tiles and moves of one block; `times` counts per K tile."""
        tiling = self.tiling
        tiles = [
            Tile("product", "register", (self.block_m, self.block_n), STATISTICS_DTYPE, tiling.accumulator),
            Tile("c", "global", (self.block_m, self.block_n), self.c_dtype),
        ]
        moves = [Move("product", "c", "store", 0)]
        for operand, staging in self.stagings.items():
            fragment = tiling.fragment_a if operand == "a" else tiling.fragment_b
            steps = self.block_k // tiling.unit.shape[2]
            tiles += [
                Tile(operand, "global", staging.shape, self.dtype),
                Tile(f"{operand}_loaded", "register", staging.shape, self.dtype, staging.loaded),
                Tile(f"{operand}_shared", "shared", staging.buffer, self.dtype),
                Tile(f"{operand}_fragment", "register", fragment.shape, self.dtype, fragment),
            ]
            moves += [
                Move(operand, f"{operand}_loaded", "load"),
                Move(f"{operand}_loaded", f"{operand}_shared", "stage", 1, staging.access),
                Move(f"{operand}_shared", f"{operand}_fragment", "fetch", steps, access(fragment, self.element_bytes)),
                Move(f"{operand}_fragment", "product", "mma", steps * tiling.instructions),
            ]
        return Plan("matmul", tuple(tiles), tuple(moves), self.proofs)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as plain data, block sizes as numbers."""
        return {"kernel": self.family, **asdict(self), "warps": written_warps(self.warps)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        return cls(**fields_from(data, cls))

    @property
    def default_shape(self) -> tuple[int, ...]:
        """Z, M, N, K of the launch that a compilation is specialised for when nothing is said."""
        return 1, 1024, 1024, 1024

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Return the host function's array arguments for a shape Z, M, N, K, each contiguous in its order."""
        check_shape(shape, "Z,M,N,K")
        batch, m, n, k = shape
        b_shape = (batch, k, n) if self.b_order == "kn" else (batch, n, k)
        return {
            "a": contiguous((batch, m, k), self.dtype),
            "b": contiguous(b_shape, self.dtype),
            "c": contiguous((batch, m, n), self.c_dtype),
        }
