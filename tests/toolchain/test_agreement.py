"""PTX against SASS by counts: every committed kernel agrees, and every rule fires on code that lost an instruction."""

import re

import pytest

from layoutgen.toolchain import compile_kernel, read_kernel
from layoutgen.toolchain.agreement import RULES, agreements
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


def test_emulated_architectures_are_not_counted():
    path = next(path for path in GENERATED if "matmul_64" in path.stem)
    assert compile_kernel(read_kernel(path), "sm_80").agreements == ()
