"""parse_ptx: what a program is, and text that is none."""

from __future__ import annotations

import pytest

from layoutgen.cpu import PtxError, UnsupportedInstructionError, parse_ptx
from layoutgen.cpu.ptx_program import Address, Immediate, Pair, Register, Sink, Special, Symbol, Vector
from tests.cpu.conftest import slim_ptx

HEAD = ".version 8.8\n.target sm_70\n.visible .entry k(.param .u64 a, .param .f32 b, .param .u64 c)\n{\n"


def parse(body: str, head: str = HEAD) -> list[object]:
    program = parse_ptx(f"{head}.reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %rd<5>;\n{body}\n}}")
    return [i.operands for i in program.instructions]


def test_slim_attention() -> None:
    program = parse_ptx(slim_ptx())
    assert (program.name, program.target, program.threads) == ("slim_attention", "sm_70", 64)
    assert program.dynamic_shared
    assert program.shared == {"global_smem": 0}
    assert [p.type for p in program.parameters] == ["u64"] * 5 + ["f32"] + ["u32"] * 6 + ["u64"] * 2
    assert [p.offset for p in program.parameters][4:8] == [32, 40, 44, 48]
    assert program.parameters[-1].offset == 80
    mma = [i for i in program.instructions if i.op[0] == "mma"]
    assert len(mma) == 8
    assert {str(i.source) for i in mma} == {"slim_attention.py:54"}
    # reductions are inlined from Triton's library: the kernel's own line is named
    assert {str(i.source) for i in program.instructions if i.op[0] == "shfl"} == {
        "slim_attention.py:111",
        "slim_attention.py:114",
    }
    assert all(i.source.line for i in program.instructions)
    text = slim_ptx().splitlines()
    for instruction in program.instructions:
        assert instruction.op[0] in text[instruction.ptx_line - 1]


def test_operands() -> None:
    r1, rd1 = Register("%r1"), Register("%rd1")
    assert parse("add.s32 %r1, %r1, -5;") == [(r1, r1, Immediate(-5))]
    assert parse("mov.f32 %r1, 0fFF800000;") == [(r1, Immediate(0xFF800000, 32))]
    assert parse("mov.b32 %r1, 0x1F;") == [(r1, Immediate(31))]
    assert parse("mov.b32 %r1, 017U;") == [(r1, Immediate(15))]
    assert parse("mov.u32 %r1, %tid.x;") == [(r1, Special("%tid.x"))]
    assert parse("mov.b64 {%r1, _}, %rd1;") == [(Vector((r1, Sink())), rd1)]
    assert parse("ld.global.b32 { %r1 }, [ %rd1 + 0 ];") == [(Vector((r1,)), Address(rd1, 0))]
    assert parse("ld.shared.b32 %r1, [%r1+-16];") == [(r1, Address(r1, -16))]
    assert parse("ld.shared.b32 %r1, [64];") == [(r1, Address(None, 64))]
    assert parse("ld.param.b64 %rd1, [a];") == [(rd1, Address(Symbol("a"), 0))]
    assert parse("setp.lt.s32 %p0|%p1, %r1, 3;")[0][0] == Pair(Register("%p0"), Register("%p1"))  # type: ignore[index]
    assert parse("and.pred %p0, %p1, !%p2;")[0][2] == Register("%p2", negated=True)  # type: ignore[index]


def test_guards_labels_and_comments() -> None:
    body = "/* a\nb */ L1: // c\n@!%p1 bra L2; ret; L2: L3: ret;\n$L4:\n}"
    program = parse_ptx(f"{HEAD}.reg .pred %p<2>; {body}")
    assert program.labels == {"L1": 0, "L2": 2, "L3": 2, "$L4": 3}
    assert program.instructions[0].guard == Register("%p1", negated=True)
    assert program.instructions[0].name == "bra"


def test_chained_inlining() -> None:
    body = """.reg .b32 %r<2>;
.loc 1 10 1
mov.b32 %r0, 0;
.loc 2 5 3, function_name $L, inlined_at 1 20 4
mov.b32 %r0, 1;
.loc 3 7 7, function_name $L, inlined_at 2 5 3
mov.b32 %r0, 2;
.loc 1 0 4
mov.b32 %r0, 3;
.loc 1 30 4
ret;
}
.file 1 "/a/b/kernel.py"
.file 2 "/lib/x.py"
.file 3 "/lib/y.py"
"""
    lines = [i.source.line for i in parse_ptx(HEAD + body).instructions]
    assert lines == [10, 20, 20, 20, 30]
    assert parse_ptx(HEAD + body).instructions[2].source.file == "kernel.py"


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("mov.b32 %r99, 0;", "%r99 is not declared"),
        ("bra NOWHERE;", "no label"),
        ("ld.shared.b32 %r1, [%r1*4];", "cannot be read"),
        ("mov.b32 %r1, 0", "without an end|closing brace"),
    ],
)
def test_bad_text(body: str, match: str) -> None:
    with pytest.raises(PtxError, match=match):
        parse(body)


def test_bad_programs() -> None:
    with pytest.raises(PtxError, match="0 kernels"):
        parse_ptx(".version 8.8")
    two = HEAD + "ret; }\n.visible .entry l()\n{ ret; }"
    with pytest.raises(PtxError, match="2 kernels"):
        parse_ptx(two)
    assert parse_ptx(two, "l").name == "l"
    with pytest.raises(PtxError, match="aggregate"):
        parse_ptx(HEAD.replace(".param .f32 b", ".param .b8 b[64]") + "ret; }")
    with pytest.raises(UnsupportedInstructionError, match=r"unsupported: .local"):
        parse_ptx(HEAD + ".local .align 4 .b8 depot[8]; ret; }")
