"""Registers that no instruction writes: found where they are read, but for bytes of a pack that nothing takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.cpu import Tensor, launch
from layoutgen.cpu.ptx_flow import unread_undefined
from layoutgen.cpu.ptx_parser import parse_ptx

LOW = "mov.b32 %r1, {%h1, %h9};"
"""Bytes 2 and 3 of %r1 are undefined."""
HIGH = "mov.b32 %r1, {%h9, %h1};"


def text(body: str) -> str:
    """A kernel that stores %o, a word a thread, from %h1 = 0x8003 and %r0 = 0x44332211."""
    return f"""
.version 8.8
.target sm_70
.address_size 64
.visible .entry snippet(.param .u64 p0)
.reqntid 32
{{
.reg .pred %p<3>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .b32 %t; .reg .b32 %o; .reg .b64 %a;
.loc 1 1 0
mov.u32 %t, %tid.x; mov.b16 %h1, 0x8003; mov.b32 %r0, 0x44332211; mov.b32 %o, 0; setp.eq.u32 %p1, %t, 99;
{body}
ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; st.global.b32 [%a], %o;
ret;
}}
.file 1 "snippet.py"
"""


def execute(body: str) -> tuple[list[str], int]:
    """Return the findings of a launch, and the first thread's word."""
    out = Tensor.output("out", (32,), "u4")
    report = launch(text(body), 1, 1, [out])
    assert all(finding.kind == "uninitialised" for finding in report.findings), str(report)
    return [str(finding) for finding in report.findings], int(out.array[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOW + "prmt.b32 %o, %r1, 0, 0x7710U;", 0x00008003),
        (LOW + "prmt.b32 %o, %r1, 0, 0x7770U;", 0x00000003),
        (LOW + "prmt.b32 %o, %r1, 0, 0x9971U;", 0xFFFF0080),  # the sign of a defined byte
        (LOW + "prmt.b32 %o, %r1, %r0, 0x7610U;", 0x44338003),  # the same bytes of the other operand
        (LOW + "prmt.b32 %o, %r0, %r1, 0x5432U;", 0x80034433),
        (LOW + "prmt.b32 %o, %r1, %r1, 0x5410U;", 0x80038003),
        (LOW + "prmt.b32 %o, %r1, 0, 0x7770U; prmt.b32 %o, %r1, %o, 0x7741U;", 0x00000380),
        (HIGH + "prmt.b32 %o, %r1, %r0, 0x5432U;", 0x22118003),
        (LOW, 0),  # without a reader
        ("cvt.u16.u32 %h2, %t;" + HIGH.replace("1}", "2}") + "prmt.b32 %o, %r1, 0, 0x7732U;", 0),
    ],
)
def test_bytes_that_nothing_takes_are_no_finding(body: str, expected: int) -> None:
    assert execute(body) == ([], expected)


@pytest.mark.parametrize(
    "body",
    [
        LOW + "mov.b32 %o, %r1;",
        LOW + "prmt.b32 %o, %r1, 0, 0x7710U; add.u32 %r2, %r1, 1;",  # another reader
        LOW + "mov.b32 {%h2, %h3}, %r1;",
        LOW + "shl.b32 %o, %r1, 16;",  # no prmt, even if it drops the bytes
        LOW + "prmt.b32 %o, %r1, 0, 0x7720U;",
        LOW + "prmt.b32 %o, %r1, 0, 0x3710U;",
        LOW + "prmt.b32 %o, %r1, 0, 0x7A10U;",  # the sign of byte 2
        LOW + "prmt.b32 %o, %r0, %r1, 0x7410U;",  # byte 3 of the second operand
        LOW + "prmt.b32 %o, %r0, %r1, 0x0E10U;",
        LOW + "prmt.b32 %o, %r1, %r1, 0x6410U;",  # byte 2, by way of the second
        LOW + "prmt.b32 %o, %r1, 0, 0x7770U; prmt.b32 %o, %r1, 0, 0x7772U;",  # one of two
        LOW + "mov.b32 %r2, 0x7710U; prmt.b32 %o, %r1, 0, %r2;",  # a selector that could be any
        LOW + "prmt.b32 %o, %r0, 0, %r1;",
        HIGH + "prmt.b32 %o, %r1, 0, 0x7710U;",
        LOW + "prmt.b32 %o, %r1, 0, 0x7710U; mov.b32 %r1, 0;",  # a second writer
        LOW + "@%p1 mov.b32 %r1, 0; prmt.b32 %o, %r1, 0, 0x7710U;",
        LOW + "prmt.b32 %r1, %r1, 0, 0x7710U;",
        "mov.b32 %r1, 0; @!%p1 " + LOW + "prmt.b32 %o, %r1, 0, 0x7710U;",
        "@!%p1 " + LOW + "prmt.b32 %o, %r1, 0, 0x7710U;",
        LOW + "prmt.b32 %o, %r1, 0, 0x7710U; @%p1 mov.b16 %h9, 0;",  # an instruction writes it, but too late
    ],
)
def test_any_other_use_is_a_finding(body: str) -> None:
    messages, _ = execute(body)
    assert len(messages) == 1
    assert "register %h9 is read before it is written" in messages[0]


def test_the_defined_half_is_still_watched() -> None:
    """%h2 is written, but later."""
    messages, _ = execute("mov.b32 %r1, {%h2, %h9}; prmt.b32 %o, %r1, 0, 0x7710U; mov.b16 %h2, 0;")
    assert len(messages) == 1
    assert "register %h2 " in messages[0]


@given(st.integers(0, 0xFFFF), st.sampled_from([LOW, HIGH]), st.booleans())
def test_a_selector_is_waived_where_the_undefined_half_does_not_matter(selector: int, pack: str, second: bool) -> None:
    """Oracle: the executor's prmt on two words that differ in every byte of that half, signs too."""
    operands = "%r0, %r1" if second else "%r1, %r0"
    permute = f"prmt.b32 %o, {operands}, {selector};"
    results = [execute(f"mov.b16 %h9, {value}; {pack} {permute}")[1] for value in (0x0102, 0x8384)]
    waived = any("%h9" in names for names in unread_undefined(parse_ptx(text(pack + permute))).values())
    assert waived == (results[0] == results[1])


def test_what_is_waived_is_named() -> None:
    program = parse_ptx(text(LOW + "prmt.b32 %o, %r1, 0, 0x7710U;"))
    found = unread_undefined(program)
    assert [program.instructions[number].text for number in found] == [LOW.rstrip(";")]
    assert set(found.values()) == {frozenset({"%h9"})}
    assert unread_undefined(parse_ptx(text("mov.b32 %o, {%h1, %h1};"))) == {}
