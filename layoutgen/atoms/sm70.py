"""Volta's atoms.

PTX ISA 8.7, section 9.7.14.5.1, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; CUTLASS
names them in cute/atom/mma_traits_sm70.hpp. A lane is a0 + 2 a1 + 4 q0 + 8 q1 + 16 b: the thread within its
quadpair is t = a0 + 2 a1 + 4 b, and each of the four quadpairs q0 + 2 q1 computes a product of its own.
"""

from layoutgen.atoms.atom import Atom, Fragment

SM70_8x8x4_F32F16F16F32_TN = Atom(
    name="SM70_8x8x4_F32F16F16F32_TN",
    alias="m8n8k4",
    instruction="mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    shape=(8, 8, 4),
    lane="a0 a1 q0 q1 b",
    a=Fragment(registers="i0 i1", rows=(("m", "a0 a1 b"), ("k", "i0 i1")), dtype="float16"),
    b=Fragment(registers="i0 i1", rows=(("n", "a0 a1 b"), ("k", "i0 i1")), dtype="float16"),
    accumulator=Fragment(registers="v0 v1 v2", rows=(("m", "a0 v1 b"), ("n", "v0 a1 v2")), dtype="float32"),
    arrangement="m3,n3",
    native=("sm_70", "sm_75"),
    source="PTX ISA, matrix fragments for mma.m8n8k4",
)
