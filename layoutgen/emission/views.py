"""What templates receive: names, literals and comments, computed here so that templates hold no logic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layoutgen.algebra import LinearLayout
from layoutgen.algebra.interchange import FIELDS
from layoutgen.atoms import Atom
from layoutgen.plan import Staging
from layoutgen.tiling import Relabelling, Tiling
from layoutgen.tiling.tile import hardware_order

LEAST_BIAS = -3.4028234663852886e38 * math.log(2) * (1 - 2**-20)
"""The most negative bias that stays finite in fp32 when it is multiplied by log2 e."""
TRITON_TYPE = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
"""The names of types in the signatures that Triton reads."""


AXES = {"m": "row", "n": "column"}


@dataclass(frozen=True)
class LayoutView:
    """One DistributedLinearLayout literal: per field, its bases with the comment that says what each bit is."""

    name: str
    comment: str
    fields: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    shape: str


@dataclass(frozen=True)
class OperandView:
    """The function that turns one loaded fragment into a broadcast operand."""

    function: str
    fragment: str
    split: str
    order: str
    shape: str


@dataclass(frozen=True)
class TilingView:
    """Names and literals of one tiling.

    `matrix` is the accumulator as [block_m, block_n], `accumulator` the same in its grouped shape; `to_matrix` and
    `to_accumulator` name the functions between the two.
    """

    accumulator: LayoutView
    matrix: LayoutView
    fragment_a: LayoutView
    fragment_b: LayoutView
    operand_a: OperandView
    operand_b: OperandView
    shape: str
    matrix_shape: str
    to_matrix: str
    to_accumulator: str

    @property
    def layouts(self) -> tuple[LayoutView, ...]:
        return self.matrix, self.accumulator, self.fragment_a, self.fragment_b

    @property
    def operands(self) -> tuple[OperandView, ...]:
        return self.operand_a, self.operand_b


@dataclass(frozen=True)
class MmaView:
    """The inline assembly of one atom: instruction and operands, constraints, and the elements a call packs."""

    instruction: str
    operands: str
    constraints: str
    pack: int
    note: str


@dataclass(frozen=True)
class AddingView:
    """The inline assembly of one atom with additions: a text for each k-step, constraints, elements a call packs."""

    steps: tuple[tuple[str, tuple[str, ...]], ...]
    constraints: tuple[str, ...]
    pack: int


@dataclass(frozen=True)
class StagingView:
    """How a tile is loaded and cut up into slabs, as literals."""

    name: str
    layout: str
    rows: int
    columns: int
    split: str
    order: str
    buffer: str
    slab: int
    steps: int
    comment: str


def layout_view(
    name: str, comment: str, layout: LinearLayout, letters: Sequence[str], bit_names: Mapping[str, Sequence[str]]
) -> LayoutView:
    """Return the literal of a layout; `letters` name the coordinates of the ungrouped matrix, slowest first.

    A basis is explained by the hardware bit and the coordinate bit that it moves: "v1: m1".
    """
    fields = []
    bits = {letter: size for letter, (_, size) in zip(letters, layout.codomain.dims, strict=True)}
    for dim, bases in layout.bases.items():
        names = bit_names.get(dim, ())
        start = layout.domain.offsets[dim]
        columns = layout.columns[start : start + len(bases)]
        rows = [
            (str(basis), f"{bit}: {_moved(column, bits)}")
            for basis, column, bit in zip(bases, columns, names, strict=True)
        ]
        fields.append((FIELDS[dim], tuple(rows)))
    return LayoutView(name, comment, tuple(fields), str(list(layout.shape)))


def regrouped(name: str, matrix: LayoutView, grouped: LinearLayout) -> LayoutView:
    """Return the literal of an accumulator in its grouped shape; a bit's comment is that of the matrix."""
    fields = []
    for (field, rows), bases in zip(matrix.fields, grouped.bases.values(), strict=True):
        fields.append((field, tuple((str(b), comment) for b, (_, comment) in zip(bases, rows, strict=True))))
    comment = f"{matrix.name}, cut into dims along which each operand is a broadcast."
    return LayoutView(name, comment, tuple(fields), str(list(grouped.shape)))


def _moved(column: int, bits: Mapping[str, int]) -> str:
    """Name the coordinate bits of a packed matrix coordinate, the last coordinate being the fastest."""
    position = 0
    moved = []
    for letter, count in reversed(list(bits.items())):
        moved += [f"{letter}{i}" for i in range(count) if column >> position + i & 1]
        position += count
    return " ^ ".join(moved) or "free"


def tiling_view(tiling: Tiling, suffix: str, description: str) -> TilingView:
    """Return the names and literals of a tiling; `suffix` tells it from the kernel's other tilings."""
    names = hardware_order(tiling.unit, tiling.block_m, tiling.block_n, tiling.warps)
    matrix = layout_view(
        f"MATRIX_{suffix}",
        f"{description} as a matrix: who holds which element.",
        tiling.accumulator,
        tiling.coordinates,
        names,
    )
    accumulator = regrouped(f"ACCUMULATOR_{suffix}", matrix, tiling.grouped)
    k = tiling.unit.shape[2]
    fragment_a = layout_view(
        f"FRAGMENT_A_{suffix}", f"One k-step of {k} of the left operand, [m, k].", tiling.fragment_a, "mk", names
    )
    fragment_b = layout_view(
        f"FRAGMENT_B_{suffix}", f"One k-step of {k} of the right operand, [n, k].", tiling.fragment_b, "nk", names
    )
    return TilingView(
        accumulator=accumulator,
        matrix=matrix,
        fragment_a=fragment_a,
        fragment_b=fragment_b,
        operand_a=operand_view(f"operand_a_{suffix.lower()}", fragment_a.name, tiling.relabel_a),
        operand_b=operand_view(f"operand_b_{suffix.lower()}", fragment_b.name, tiling.relabel_b),
        shape=str(list(tiling.shape)),
        matrix_shape=str([tiling.block_m, tiling.block_n]),
        to_matrix=f"to_matrix_{suffix.lower()}",
        to_accumulator=f"to_accumulator_{suffix.lower()}",
    )


def operand_view(function: str, fragment: str, relabelling: Relabelling) -> OperandView:
    return OperandView(
        function=function,
        fragment=fragment,
        split=str(list(relabelling.split)),
        order=str(list(relabelling.order)),
        shape=str(list(relabelling.shape)),
    )


def legend(tiling: Tiling) -> tuple[str, ...]:
    """Return the comment lines that say what the bit names beside a layout mean."""
    atom = tiling.atom
    lane = " + ".join(name if i == 0 else f"{1 << i} {name}" for i, name in enumerate(atom.lane_names))
    registers = atom.accumulator.register_names
    element = " + ".join(name if i == 0 else f"{1 << i} {name}" for i, name in enumerate(registers))
    return (
        f"Bits: lane = {lane}; a thread's element of an accumulator or fragment = {element};",
        "mb and nb are a unit's row and column in the block. `v0: n0` says that hardware bit v0 moves bit 0 of n;",
        "`free` that the layout is replicated over that bit.",
    )


def mma_view(atom: Atom) -> MmaView:
    """Return the inline assembly that hands the registers of one accumulator repeat to the atom.

    Every operand arrives with as many elements as there are accumulators; the atom reads the first registers.
    """
    pack = atom.accumulator.elements
    outputs = atom.accumulator.words
    per_operand = pack * atom.a.words // atom.a.elements
    a = [f"${outputs + i}" for i in range(atom.a.words)]
    b = [f"${outputs + per_operand + i}" for i in range(atom.b.words)]
    c = [f"${i}" for i in range(outputs)]
    groups = (c, a, b, c)
    text = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    constraints = ["=f"] * outputs + ["r"] * (2 * per_operand) + [str(i) for i in range(outputs)]
    note = (
        f"A call takes {pack} accumulators of a thread; an operand arrives as {per_operand} registers, the first "
        f"{atom.a.words} holding its {atom.a.elements} elements."
    )
    return MmaView(atom.instruction, f"{text};", ",".join(constraints), pack, note)


def staging_view(name: str, staging: Staging) -> StagingView:
    """Return the literals of a staging."""
    cost = staging.access
    along = "rows" if staging.k_dim == 0 else "columns"
    return StagingView(
        name=name,
        layout=str(staging.blocked),
        rows=staging.shape[0],
        columns=staging.shape[1],
        split=str(list(staging.split)),
        order=str(list(staging.order)),
        buffer=str(list(staging.buffer)),
        slab=staging.slab,
        steps=staging.steps,
        comment=(
            f"contraction along the {along}; a warp stores it in {cost.instructions} x {8 * cost.width_bytes} bits, "
            f"{cost.wavefronts} wavefronts ({cost.minimum} at least)"
        ),
    )
