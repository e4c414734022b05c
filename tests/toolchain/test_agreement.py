"""PTX against SASS by counts: every committed kernel agrees, and every rule fires on code that lost an instruction."""

import re

import pytest

from layoutgen.toolchain import compile_kernel, read_kernel
from layoutgen.toolchain.agreement import RULES, agreements, dead_loads
from tests.committed import GENERATED, committed


@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize("path", committed())
def test_committed_kernels_agree(path, arch):
    compiled = compile_kernel(read_kernel(path), arch)
    assert [str(agreement) for agreement in compiled.agreements if not agreement.holds] == []
    assert len(compiled.agreements) == len(RULES) + 1


@pytest.fixture(scope="module")
def attention():
    return compile_kernel(read_kernel(next(path for path in GENERATED if path.stem == "attention_d64_64x32")), "sm_70")


LOST = {
    "global loads": "LDG",
    "global stores": "STG",
    "shared loads": "LDS",
    "shared stores": "STS",
    "barriers": "BAR.SYNC",
    "shuffles": "SHFL.BFLY",
    "exponentials": "MUFU.EX2",
    "conversions to fp16": "F2F.F16.F32",
    "fused multiply-adds": "FFMA",
    "HMMA steps": "HMMA.884",
}


@pytest.mark.parametrize("operation", LOST)
def test_a_lost_instruction_is_noticed(attention, operation):
    fewer, dropped = re.subn(
        rf"\n[^\n]*/\s+(?:@!?P\w+\s+)?{re.escape(LOST[operation])}\b[^\n]*", "", attention.sass, count=1
    )
    assert dropped == 1
    differing = [agreement for agreement in agreements(attention.ptx, fewer) if not agreement.holds]
    assert [agreement.operation for agreement in differing] == [operation]
    assert "by the PTX" in str(differing[0])


def test_contraction_is_no_difference(attention):
    more = attention.sass + "\n        /*ffff0*/                   FFMA R0, R1, R2, R3 ;"
    assert all(agreement.holds for agreement in agreements(attention.ptx, more))


def test_loads_that_nothing_uses_are_not_expected():
    """The fast design touches shared memory by loads of which ptxas keeps none; a lost other one is noticed."""
    path = next(path for path in GENERATED if path.stem == "attention_d64_128x64_fast_causal")
    compiled = compile_kernel(read_kernel(path), "sm_70")
    dead = dead_loads(compiled.ptx)
    assert dead > 0
    shared = next(agreement for agreement in compiled.agreements if agreement.operation == "shared loads")
    assert shared.holds
    assert shared.expected == compiled.ptx.count("ld.shared.") - dead
    fewer, dropped = re.subn(r"\n[^\n]*/\s+LDS\b[^\n]*", "", compiled.sass, count=1)
    assert dropped == 1
    assert [a.operation for a in agreements(compiled.ptx, fewer) if not a.holds] == ["shared loads"]


LOAD = "ld.shared.v2.b32 {%r1, %r2}, [%r9];\n"


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        (LOAD, 0),
        (LOAD + "mov.b32 %r3, %r1;\nmov.b32 %r4, {%rs1, %rs2};", 0),
        (LOAD + "mov.b32 %r3, %r1;\nmov.b32 {%rs1, %rs2}, %r3;\n", 0),
        (LOAD + "mov.b32 %r3, %r12;\nst.shared.b32 [%r9], %r3;", 0),  # %r12 is not %r1
        (LOAD + "mov.b32 %r1, 0;\nld.shared.b32 %r2, [%r8];", 0),  # written again, not read
        (LOAD.replace("ld.", "ld.volatile."), 1),
        (LOAD + "add.s32 %r3, %r2, 1;", 1),
        (LOAD + "st.global.b32 [%rd1], %r2;", 1),
        (LOAD + "ld.global.b32 %r3, [%r1];", 1),
        (LOAD + "st.shared.b32 [%r1], 0;", 1),
        (LOAD + "bar.sync %r1, 64;", 1),
        (LOAD + "mov.b32 %r3, %r1;\nmov.b32 {%rs1, %rs2}, %r3;\nadd.f16 %rs3, %rs2, %rs2;", 1),
        ("mov.b32 %r4, %r3;\nst.shared.b32 [%r9], %r4;\n" + LOAD + "mov.b32 %r3, %r1;", 1),  # as in a loop
        ("ld.shared.pred %p1, [%r9];\n@%p1 mov.b32 %r5, %r6;", 1),
        (LOAD + "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32\n{%f1},\n{%r1, %r2},\n{%r3}, {%f1};", 1),
    ],
)
def test_which_loads_are_expected(ptx, expected):
    """How many LDS the machine code of a text must have, where one of its loads may be used or not."""
    shared = next(agreement for agreement in agreements(ptx, "") if agreement.operation == "shared loads")
    assert shared.expected == expected


def test_emulated_architectures_are_not_counted():
    path = next(path for path in GENERATED if "matmul_64" in path.stem)
    assert compile_kernel(read_kernel(path), "sm_80").agreements == ()
