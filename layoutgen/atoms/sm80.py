"""Ampere's atoms for 16-bit operands: m16n8k8 and m16n8k16.

PTX ISA 8.7, section 9.7.14.5, "Matrix Fragments for mma.m16n8k8" and "for mma.m16n8k16 with floating point type";
CUTLASS: cute/atom/mma_traits_sm80.hpp. Lanes are named as Turing's are.
"""

from layoutgen.atoms.atom import Atom, Fragment
from layoutgen.atoms.sm75 import ACCUMULATOR, LANE, m16n8k8

NATIVE = ("sm_80", "sm_86", "sm_89", "sm_90")


def _m16n8k16(name: str, alias: str, dtype: str) -> Atom:
    ptx = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    return Atom(
        name=name,
        alias=alias,
        instruction=f"mma.sync.aligned.m16n8k16.row.col.f32.{ptx}.{ptx}.f32",
        shape=(16, 8, 16),
        lane=LANE,
        a=Fragment(registers="i0 i1 i2", rows=(("m", "g0 g1 g2 i1"), ("k", "i0 l0 l1 i2")), dtype=dtype),
        b=Fragment(registers="i0 i1", rows=(("n", "g0 g1 g2"), ("k", "i0 l0 l1 i1")), dtype=dtype),
        accumulator=ACCUMULATOR,
        arrangement="",
        native=NATIVE,
        source="PTX ISA, matrix fragments for mma.m16n8k16",
    )


ATOMS = (
    m16n8k8("SM80_16x8x8_F32F16F16F32_TN", "m16n8k8.sm80", "float16", NATIVE),
    m16n8k8("SM80_16x8x8_F32BF16BF16F32_TN", "m16n8k8.bf16", "bfloat16", NATIVE),
    _m16n8k16("SM80_16x8x16_F32F16F16F32_TN", "m16n8k16", "float16"),
    _m16n8k16("SM80_16x8x16_F32BF16BF16F32_TN", "m16n8k16.bf16", "bfloat16"),
)
