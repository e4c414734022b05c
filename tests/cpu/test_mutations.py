"""Mutants of the slim attention kernel's PTX: each must be caught, by the check that is there to catch it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from layoutgen.cpu import ExecutionError, PtxError, UnsupportedInstructionError
from layoutgen.cpu.watch import (
    DIVERGENCE,
    MISALIGNED,
    OUT_OF_BOUNDS,
    RACE,
    UNINITIALISED,
    UNOWNED,
    UNWRITTEN,
)
from tests.cpu.conftest import run_attention, slim_ptx

BOUND = 2e-3
ERROR = "error beyond the bound"

MMA_S0 = "{%r86,%r87}, {%r88,%r89}"
MMA_S1 = "{%r98,%r99}, {%r100,%r101}"
MMA_FORM = "mma.sync.aligned.m8n8k4.row.col"


@dataclass(frozen=True)
class Mutant:
    """The `number`-th `old` becomes `new`; `caught` is the kind of finding expected, at kernel line `line` if given."""

    name: str
    old: str
    new: str
    caught: str
    number: int = 0
    line: int = 0

    def apply(self, text: str) -> str:
        parts = text.split(self.old)
        assert len(parts) > self.number + 1, f"{self.name}: nothing to mutate"
        return self.old.join(parts[: self.number + 1]) + self.new + self.old.join(parts[self.number + 1 :])


MUTANTS = [
    # synchronisation
    Mutant("no barrier before staging", "bar.sync \t0;", "", RACE, 0, 101),
    Mutant("no barrier after staging", "bar.sync \t0;", "", RACE, 1),
    Mutant("no barrier after P", "bar.sync \t0;", "", RACE, 2, 122),
    Mutant("warp barrier where warps meet", "bar.sync \t0;", "bar.warp.sync -1;", RACE, 1),
    Mutant("barrier in a diverged warp", "bar.sync \t0;", "@%p8 bar.sync 0;", DIVERGENCE, 2, 122),
    Mutant("mma in a diverged warp", MMA_FORM, f"@%p8 {MMA_FORM}", DIVERGENCE, 4, 54),
    Mutant("shuffle in a diverged warp", "shfl.sync", "@%p8 shfl.sync", DIVERGENCE, 0, 111),
    Mutant("shuffle by lanes outside the mask", "8, 31, -1;", "8, 31, 65535;", DIVERGENCE, 0, 111),
    # registers and operands
    Mutant("swapped registers of A", MMA_S0, "{%r87,%r86}, {%r88,%r89}", ERROR),
    Mutant("swapped registers of B", MMA_S0, "{%r86,%r87}, {%r89,%r88}", ERROR),
    Mutant("swapped operands", MMA_S1, "{%r100,%r101}, {%r98,%r99}", ERROR),
    Mutant("transposed B", MMA_FORM, "mma.sync.aligned.m8n8k4.row.row", ERROR),
    Mutant("transposed A", MMA_FORM, "mma.sync.aligned.m8n8k4.col.col", ERROR, 5),
    Mutant("swapped accumulators", "{%r90,%r91,%r92", "{%r91,%r90,%r92", ERROR, 3),
    Mutant("swapped halves", "{%rs7, %rs6}", "{%rs6, %rs7}", ERROR),
    Mutant("a fragment in another register", "{%r86, %r87}, [%r13]", "{%r304, %r87}, [%r13]", UNINITIALISED),
    Mutant("wrong alpha", "fma.rn.f32 \t%r301, %r301, %r179", "fma.rn.f32 \t%r301, %r301, %r180", ERROR),
    Mutant("swapped selp", "selp.f32 \t%r155, %r143, 0fFF800000", "selp.f32 \t%r155, 0fFF800000, %r143", ERROR),
    Mutant("min for max", "max.f32 \t%r299", "min.f32 \t%r299", ERROR),
    # shuffles
    Mutant("wrong lane in the maximum", "%r165, 8, 31", "%r165, 4, 31", ERROR),
    Mutant("wrong lane in the sum", "%r204, 2, 31", "%r204, 1, 31", ERROR),
    Mutant("wrong clamp", "%r199, 8, 31", "%r199, 8, 15", ERROR),
    Mutant("wrong mode", "shfl.sync.bfly.b32 \t%r203", "shfl.sync.down.b32 \t%r203", ERROR),
    # masks and predicates
    Mutant("off by one: K rows", "setp.lt.s32 \t%p3", "setp.le.s32 \t%p3", OUT_OF_BOUNDS, 0, 97),
    Mutant("off by one: Q rows", "setp.lt.s32 \t%p1,", "setp.le.s32 \t%p1,", OUT_OF_BOUNDS, 0, 82),
    Mutant("off by one: output rows", "setp.lt.s32 \t%p13", "setp.le.s32 \t%p13", OUT_OF_BOUNDS, 0, 128),
    Mutant("off by one: a row of V less", "setp.lt.s32 \t%p4, %r135", "setp.lt.s32 \t%p4, %r136", ERROR),
    Mutant("off by one: scores", "setp.lt.s32 \t%p11", "setp.le.s32 \t%p11", ERROR),
    Mutant("no predicate on the load of K", "@%p3 ld.global", "ld.global", OUT_OF_BOUNDS, 0, 97),
    Mutant("no predicate on the load of V", "@%p7 ld.global", "ld.global", OUT_OF_BOUNDS, 0, 98),
    Mutant("no predicate on the store of O", "@%p14 st.global", "st.global", OUT_OF_BOUNDS, 0, 128),
    Mutant("no predicate on the store of LSE", "@%p19 st.global", "st.global", OUT_OF_BOUNDS, 0, 129),
    Mutant("opposite predicate", "@%p13 st.global", "@!%p13 st.global", UNWRITTEN),
    # addresses
    Mutant("wrong k-step", "[%r14+2176]", "[%r14+2304]", ERROR),
    Mutant("half a fragment further", "[%r13+768]", "[%r13+772]", MISALIGNED, 0, 106),
    Mutant("beyond the allocation", "[%r48+256]", "[%r48+4096]", OUT_OF_BOUNDS, 0, 87),
    Mutant("before the allocation", "[%r48+256]", "[%r48+-2048]", OUT_OF_BOUNDS, 0, 87),
    Mutant("Q stored over itself", "[%r48+256]", "[%r48+264]", UNINITIALISED, 0, 106),
    Mutant("a store of P left out", "st.shared.b32 \t[%r15+1296], %r214;", "", UNINITIALISED, 0, 122),
    Mutant("V not staged", "st.shared.v4.b16 \t[%r12+2560], {%rs1, %rs3, %rs4, %rs5};", "", UNINITIALISED, 0, 123),
    Mutant("same row twice", "mul.lo.s32 \t%r235, %r31, %r25", "mul.lo.s32 \t%r235, %r31, %r24", UNWRITTEN),
    Mutant("O moved by a half", "add.s64 \t%rd17, %rd15, 8", "add.s64 \t%rd17, %rd15, 10", MISALIGNED, 0, 128),
    Mutant("a wrong high half", "add.s64 \t%rd16, %rd20, %rd21", "add.s64 \t%rd16, %rd20, 4294967296", OUT_OF_BOUNDS),
    Mutant("stores to an input", "[slim_attention_param_3]", "[slim_attention_param_0]", UNOWNED, 0, 128),
    Mutant("K for V", "[slim_attention_param_2]", "[slim_attention_param_1]", ERROR),
    Mutant("a narrow store", "@%p13 st.global.b32", "@%p13 st.global.b16", UNWRITTEN),
    Mutant("wrong row bit", "or.b32 \t%r25, %r24, 2", "or.b32 \t%r25, %r24, 3", UNWRITTEN),
    # control
    Mutant("a tile skipped", "add.s32 \t%r297, %r297, 16", "add.s32 \t%r297, %r297, 32", ERROR),
    Mutant("pointer not advanced", "add.s32 \t%r295, %r295, %r21", "add.s32 \t%r295, %r295, 0", ERROR),
    # arithmetic
    Mutant("no scale", "mul.f32 \t%r143, %r28, %r90", "mov.b32 %r143, %r90", ERROR),
    Mutant("sub for add", "add.f32 \t%r197", "sub.f32 \t%r197", ERROR),
    Mutant("rounding of P away", "cvt.rn.f16.f32 \t%rs7, %r189", "cvt.rn.f16.s32 \t%rs7, %r189", ERROR),
]


@pytest.fixture(scope="module")
def text() -> str:
    original = slim_ptx()
    run = run_attention(original)
    assert run.report.clean, "the kernel itself must be clean"
    assert run.error < BOUND
    return original


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_is_caught(text: str, mutant: Mutant) -> None:
    run = run_attention(mutant.apply(text))
    kinds = {finding.kind for finding in run.report.findings}
    if mutant.caught == ERROR:
        assert run.error > BOUND, f"not noticed; findings: {kinds}"
        return
    assert mutant.caught in kinds, f"found {kinds}, error {run.error:.2g}\n{run.report}"
    if mutant.line:
        places = {str(f.source) for f in run.report.findings if f.kind == mutant.caught}
        assert f"slim_attention.py:{mutant.line}" in places


def test_names_are_distinct() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS) >= 30


def test_an_endless_loop_ends(text: str) -> None:
    mutant = text.replace("add.s32 \t%r297, %r297, 16", "add.s32 \t%r297, %r297, 0")
    with pytest.raises(ExecutionError, match="endless"):
        run_attention(mutant)


def test_text_that_is_no_instruction(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match=r"unsupported: maxx\.f32 %r170"):
        run_attention(text.replace("max.f32 \t%r170", "maxx.f32 \t%r170"))
    with pytest.raises(PtxError, match="%r999"):
        run_attention(text.replace("max.f32 \t%r170, %r165", "max.f32 \t%r170, %r999"))


# What must not be caught: changes that leave the kernel right ------------------------------------------------


def test_a_warp_barrier_is_enough_for_what_one_warp_shares(text: str) -> None:
    """P is written and read by the same warp: lanes need a warp barrier, warps need none."""
    run = run_attention(Mutant("", "bar.sync \t0;", "bar.warp.sync -1;", "", 2).apply(text))
    assert run.report.clean, str(run.report)
    assert run.error < BOUND


def test_one_more_barrier_changes_nothing(text: str) -> None:
    run = run_attention(text.replace("bar.sync \t0;", "bar.sync 0; bar.sync 0;"))
    assert run.report.clean
    assert run.error < BOUND
