"""Volta's atoms: m8n8k4 in its four operand orders, with fp32 and fp16 accumulators.

PTX ISA 8.7, section 9.7.14.5.1, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; CUTLASS
names them in cute/atom/mma_traits_sm70.hpp. A lane is a0 + 2 a1 + 4 q0 + 8 q1 + 16 b: the thread within its
quadpair is t = a0 + 2 a1 + 4 b, and each of the four quadpairs q0 + 2 q1 computes a product of its own.

An operand whose k runs along its rows (.row A, .col B) is held one row (column) a thread; in the other order a thread
holds four rows (columns) of one k. CUTLASS's letters are T for .row and N for .col, A first, with B read transposed.
"""

from layoutgen.atoms.atom import Atom, Fragment

LANE = "a0 a1 q0 q1 b"
A = {
    "row": Fragment(registers="i0 i1", rows=(("m", "a0 a1 b"), ("k", "i0 i1")), dtype="float16"),
    "col": Fragment(registers="i0 i1", rows=(("m", "i0 i1 b"), ("k", "a0 a1")), dtype="float16"),
}
B = {
    "col": Fragment(registers="i0 i1", rows=(("n", "a0 a1 b"), ("k", "i0 i1")), dtype="float16"),
    "row": Fragment(registers="i0 i1", rows=(("n", "i0 i1 b"), ("k", "a0 a1")), dtype="float16"),
}
ACCUMULATOR = {
    "f32": Fragment(registers="v0 v1 v2", rows=(("m", "a0 v1 b"), ("n", "v0 a1 v2")), dtype="float32"),
    "f16": Fragment(registers="i0 i1 i2", rows=(("m", "a0 a1 b"), ("n", "i0 i1 i2")), dtype="float16"),
}
ORDERS = {"TN": ("row", "col"), "NT": ("col", "row"), "NN": ("col", "col"), "TT": ("row", "row")}


def _m8n8k4(letters: str, accumulator: str) -> Atom:
    a, b = ORDERS[letters]
    suffix = [a, b] if letters != "TN" else []
    suffix += ["f16"] if accumulator == "f16" else []
    dtype = accumulator.upper()
    return Atom(
        name=f"SM70_8x8x4_{dtype}F16F16{dtype}_{letters}",
        alias=".".join(["m8n8k4", *suffix]),
        instruction=f"mma.sync.aligned.m8n8k4.{a}.{b}.{accumulator}.f16.f16.{accumulator}",
        shape=(8, 8, 4),
        lane=LANE,
        a=A[a],
        b=B[b],
        accumulator=ACCUMULATOR[accumulator],
        arrangement="m3,n3",
        native=("sm_70", "sm_75"),
        source="PTX ISA, matrix fragments for mma.m8n8k4",
    )


ATOMS = tuple(_m8n8k4(letters, accumulator) for accumulator in ("f32", "f16") for letters in ORDERS)
SM70_8x8x4_F32F16F16F32_TN = ATOMS[0]
