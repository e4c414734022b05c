"""Turing's atom, m16n8k8; the tables are shared with Ampere's.

PTX ISA 8.7, section 9.7.14.5, "Matrix Fragments for mma.m16n8k8"; CUTLASS: cute/atom/mma_traits_sm75.hpp. A lane is
l0 + 2 l1 + 4 g0 + 8 g1 + 16 g2: group g = lane >> 2, thread in its group t = lane & 3. No lane bit is free.
"""

from layoutgen.atoms.atom import Atom, Fragment

LANE = "l0 l1 g0 g1 g2"
ACCUMULATOR = Fragment(registers="v0 v1", rows=(("m", "g0 g1 g2 v1"), ("n", "v0 l0 l1")), dtype="float32")


def m16n8k8(name: str, alias: str, dtype: str, native: tuple[str, ...]) -> Atom:
    """Return the atom for one 16-bit operand dtype."""
    ptx = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    return Atom(
        name=name,
        alias=alias,
        instruction=f"mma.sync.aligned.m16n8k8.row.col.f32.{ptx}.{ptx}.f32",
        shape=(16, 8, 8),
        lane=LANE,
        a=Fragment(registers="i0 i1", rows=(("m", "g0 g1 g2 i1"), ("k", "i0 l0 l1")), dtype=dtype),
        b=Fragment(registers="i0", rows=(("n", "g0 g1 g2"), ("k", "i0 l0 l1")), dtype=dtype),
        accumulator=ACCUMULATOR,
        arrangement="",
        native=native,
        source="PTX ISA, matrix fragments for mma.m16n8k8",
    )


ATOMS = (m16n8k8("SM75_16x8x8_F32F16F16F32_TN", "m16n8k8", "float16", ("sm_75",)),)
