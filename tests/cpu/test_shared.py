"""Shared memory: values, bounds, initialisation, races across warps and within one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.cpu import LaunchReport, Tensor, launch
from layoutgen.cpu.watch import SharedWatch


def run(body: str, *, warps: int = 2, grid: int = 3, size: int = 1024) -> tuple[LaunchReport, Any]:
    """Run `body`: %s is the shared array, %t the thread, %l the lane, %c = 4 t; %o goes to the output."""
    text = f""".version 8.8
.target sm_70
.extern .shared .align 16 .b8 smem[];
.visible .entry body(.param .u64 p) .reqntid {32 * warps} {{
.reg .b32 %x<9>; .reg .b16 %h<9>; .reg .b64 %w<9>; .reg .pred %p<9>;
.reg .b32 %t; .reg .b32 %b; .reg .b32 %o; .reg .b32 %s; .reg .b32 %c; .reg .b32 %l;
.loc 1 7 0
mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %l, %laneid; mov.b32 %s, smem; mov.b32 %o, 0; shl.b32 %c, %t, 2;
mad.lo.u32 %x8, %b, {32 * warps}, %t;
.loc 1 9 0
{body}
.loc 1 11 0
ld.param.u64 %w0, [p]; mad.wide.u32 %w0, %x8, 4, %w0; st.global.b32 [%w0], %o; ret; }}
.file 1 "body.py"
"""
    out = Tensor.output("o", (grid, 32 * warps), "i4")
    return launch(text, grid, warps, [out], shared_bytes=size), out.array


def kinds(report: LaunchReport) -> list[str]:
    return [f.kind for f in report.findings]


WRITE = "add.u32 %x0, %s, %c; st.shared.b32 [%x0], %t;"
OTHER_WARP = "xor.b32 %x1, %c, 128; ld.shared.b32 %o, [%x1];"
OTHER_LANE = "xor.b32 %x1, %c, 4; ld.shared.b32 %o, [%x1];"


def test_exchange_through_a_barrier() -> None:
    report, out = run(f"{WRITE} bar.sync 0; {OTHER_WARP}")
    assert report.clean, str(report)
    assert (out == (np.arange(64) ^ 32)).all()


def test_race_across_warps() -> None:
    report, _ = run(f"{WRITE} {OTHER_WARP}")
    assert kinds(report) == ["race"]
    assert report.races == 3 * 64
    assert "thread 0 reads shared address 128, which thread 32 wrote" in str(report.findings[0])
    assert str(report.findings[0].source) == "body.py:9"
    assert kinds(run(f"{WRITE} bar.warp.sync -1; {OTHER_WARP}")[0]) == ["race"]


def test_race_within_a_warp() -> None:
    assert kinds(run(f"{WRITE} {OTHER_LANE}")[0]) == ["race"]
    report, out = run(f"{WRITE} bar.warp.sync -1; {OTHER_LANE}")
    assert report.clean, str(report)
    assert (out == (np.arange(64) ^ 1)).all()
    assert run(f"{WRITE} bar.sync 0; {OTHER_LANE}")[0].clean


def test_a_shuffle_orders_no_memory() -> None:
    assert kinds(run(f"{WRITE} shfl.sync.bfly.b32 %x5, %t, 1, 31, -1; {OTHER_LANE}")[0]) == ["race"]


def test_own_data_need_no_barrier() -> None:
    assert run(f"{WRITE} ld.shared.b32 %o, [%c]; st.shared.b32 [%c], 5;")[0].clean


def test_write_after_read() -> None:
    exchange = f"{WRITE} bar.sync 0; xor.b32 %x1, %c, {{}}; ld.shared.b32 %o, [%x1];"
    read_all = exchange + "{} st.shared.b32 [%c], %o;"
    assert kinds(run(read_all.format(128, ""))[0]) == ["race"]
    assert run(read_all.format(128, "bar.sync 0;"))[0].clean
    assert kinds(run(read_all.format(4, ""))[0]) == ["race"]
    assert run(read_all.format(4, "bar.warp.sync -1;"))[0].clean
    # many readers, one of them the writer
    every = "ld.shared.b32 %o, [8]; setp.eq.u32 %p0, %t, 2; @%p0 st.shared.b32 [8], 77;"
    report, _ = run(f"{WRITE} bar.sync 0; {every}")
    assert kinds(report) == ["race"]
    assert report.races == 3


def test_write_after_write() -> None:
    assert kinds(run("st.shared.b32 [16], %t;")[0]) == ["race"]
    same, _ = run("st.shared.b32 [16], 7; st.shared.b32 [16], 7;")
    assert same.clean
    assert same.redundant_writes > 0
    two = "setp.lt.u32 %p0, %t, 32; @%p0 st.shared.b32 [16], 1; @!%p0 st.shared.b32 [16], 2;"
    assert kinds(run(two)[0]) == ["race"]


def test_races_of_some_blocks_only() -> None:
    body = f"setp.eq.u32 %p1, %b, 1; {WRITE} @%p1 bra SKIP; bar.sync 0; SKIP: {OTHER_WARP}"
    report, _ = run(body, grid=4)
    assert kinds(report) == ["race"]
    assert report.races == 64
    assert report.findings[0].block == (1, 0, 0)


def test_blocks_that_address_differently() -> None:
    body = """shl.b32 %x3, %b, 8; add.u32 %x3, %x3, %c; st.shared.b32 [%x3], %t; bar.sync 0;
              xor.b32 %x3, %x3, 128; ld.shared.b32 %o, [%x3];"""
    report, out = run(body)
    assert report.clean
    assert (out == (np.arange(64) ^ 32)).all()
    assert kinds(run(body.replace("bar.sync 0;", ""))[0]) == ["race"]


def test_uninitialised() -> None:
    report, _ = run(f"setp.ne.u32 %p0, %t, 40; {WRITE.replace('st.', '@%p0 st.')} bar.sync 0; {OTHER_WARP}")
    assert kinds(report) == ["uninitialised"]
    assert report.uninitialised == 3
    assert report.findings[0].thread == 8


def test_half_initialised_words() -> None:
    body = "st.shared.b16 [%c], %h0; bar.sync 0; ld.shared.b32 %o, [%c];"
    report, _ = run("mov.b16 %h0, 3;" + body)
    assert kinds(report) == ["uninitialised"]
    both = body.replace("bar.sync", "st.shared.b16 [%c+2], %h0; bar.sync")
    report, out = run("mov.b16 %h0, 3;" + both)
    assert report.clean
    assert (out == 0x30003).all()


def test_neighbouring_halves_do_not_race() -> None:
    body = "shl.b32 %x2, %t, 1; cvt.u16.u32 %h0, %t; st.shared.b16 [%x2], %h0; ld.shared.u16 %o, [%x2];"
    report, out = run(body)
    assert report.clean, str(report)
    assert (out == np.arange(64)).all()


def test_bounds_and_alignment() -> None:
    report, _ = run(WRITE, size=252)
    assert kinds(report) == ["out of bounds"]
    assert report.out_of_bounds == 3
    report, _ = run(WRITE.replace("%s, %c", "%c, -4"))
    assert kinds(report) == ["out of bounds"]
    report, _ = run("st.shared.v2.b32 [%c], {%t, %t};")
    assert "misaligned" in kinds(report)


def test_vectors() -> None:
    body = """shl.b32 %x0, %t, 4; st.shared.v4.b32 [%x0], {%t, 1, 2, %c}; bar.sync 0;
              xor.b32 %x0, %x0, 16; ld.shared.v4.b32 {%x1, %x2, %x3, %x4}, [%x0]; add.u32 %o, %x1, %x4;"""
    report, out = run(body)
    assert report.clean
    assert (out == 5 * (np.arange(64) ^ 1)).all()


def test_static_shared_variables() -> None:
    text = """.version 8.8
.target sm_70 .shared .align 8 .b8 first[12]; .visible .entry body(.param .u64 p) .reqntid 32 { .shared
.align 16 .f32 second[32]; .reg .b32 %r<5>; .reg .b64 %w; mov.u32 %r0, %tid.x; mov.b32 %r1, second;
mad.lo.u32 %r2, %r0, 4, %r1; st.shared.b32 [%r2], %r1; ld.shared.b32 %r3, [%r2]; ld.param.u64 %w, [p];
mad.wide.u32 %w, %r0, 4, %w; st.global.b32 [%w], %r3; ret; }"""
    out = Tensor.output("o", (32,), "i4")
    assert launch(text, 1, 1, [out]).clean
    assert (out.array == 16).all()


# Barriers ---------------------------------------------------------------------------------------------------


def test_barrier_that_a_warp_does_not_reach() -> None:
    report, _ = run("setp.lt.u32 %p0, %t, 32; @%p0 bra SKIP; bar.sync 0; SKIP: mov.b32 %o, 1;")
    assert kinds(report) == ["divergence"]
    assert "does not reach" in report.findings[0].detail


def test_barrier_in_a_diverged_warp() -> None:
    report, _ = run("setp.lt.u32 %p0, %l, 7; @%p0 bra SKIP; bar.sync 0; SKIP: mov.b32 %o, 1;")
    assert kinds(report) == ["divergence"]
    report, _ = run("setp.lt.u32 %p0, %l, 7; @%p0 bar.warp.sync -1;")
    assert kinds(report) == ["divergence"]


def test_shuffle_from_a_sleeping_lane() -> None:
    report, _ = run("setp.lt.u32 %p0, %l, 16; @%p0 shfl.sync.idx.b32 %o, %t, 20, 31, 65535;")
    assert kinds(report) == ["divergence"]
    assert "takes no part" in report.findings[0].detail
    assert run("setp.lt.u32 %p0, %l, 16; @%p0 shfl.sync.bfly.b32 %o, %t, 8, 31, 65535;")[0].clean


# The shadow against a list of all accesses
# --------------------------------------------------------------------


@dataclass
class Access:
    thread: int
    cell: int
    write: bool
    epoch: int
    sync: int


def racing(a: Access, b: Access) -> bool:
    if a.cell != b.cell or a.thread == b.thread or not (a.write or b.write) or a.epoch != b.epoch:
        return False
    return a.thread // 32 != b.thread // 32 or a.sync == b.sync


step = st.one_of(
    st.tuples(st.just("barrier"), st.just(0)),
    st.tuples(st.just("warp barrier"), st.integers(0, 2)),
    st.tuples(
        st.sampled_from(["read", "write"]),
        st.dictionaries(st.sampled_from([0, 1, 2, 31, 32, 33, 64, 70]), st.integers(0, 3), min_size=1, max_size=4),
    ),
)


@settings(max_examples=300)
@given(st.lists(step, max_size=25))
def test_the_first_race_is_found_exactly(steps: list[Any]) -> None:
    shadow = SharedWatch(1, 3, 16, 4)
    history: list[Access] = []
    epoch, sync = 0, [0, 0, 0]
    for kind, what in steps:
        if kind == "barrier":
            epoch += 1
            shadow.block_barrier(None)
            continue
        if kind == "warp barrier":
            sync[what] += 1
            shadow.warp_barrier(np.array([0]), np.array([what]))
            continue
        write = kind == "write"
        now = [Access(t, cell, write, epoch, sync[t // 32]) for t, cell in what.items()]
        earlier = {a.thread for a in now if any(racing(a, b) for b in history)}
        together = any(racing(a, b) for a in now for b in now)
        thread = np.array([a.thread for a in now])
        address = np.array([4 * a.cell for a in now])
        never = (lambda size=thread.size: np.zeros(size, np.bool_)) if write else None
        verdict = shadow.access(np.zeros(thread.size, np.int64), thread, address, 4, never)
        found = set() if verdict.race is None else set(thread[verdict.race].tolist())
        assert found == earlier
        assert verdict.clash == (together and write)
        if earlier or together:
            return
        fresh = {a.thread for a in now if not write and not any(b.write and b.cell == a.cell for b in history)}
        seen = set() if verdict.uninitialised is None else set(thread[verdict.uninitialised].tolist())
        assert seen == fresh
        history += now


@pytest.mark.parametrize("grid", [1, 2])
def test_one_row_of_shadow_and_many_agree(grid: int) -> None:
    a, b = SharedWatch(grid, 2, 64, 4), SharedWatch(grid, 2, 64, 4)
    b.split()
    rng = np.random.default_rng(0)
    for _ in range(200):
        thread = rng.permutation(64)[:5]
        address = rng.integers(0, 16, 5) * 4
        unchanged = (lambda: np.zeros(5, np.bool_)) if rng.random() < 0.5 else None
        if rng.random() < 0.3:
            a.block_barrier(None)
            b.block_barrier(None)
        one = a.access(np.zeros(5, np.int64), thread, address, 4, unchanged)
        for block in range(grid):
            other = b.access(np.full(5, block), thread, address, 4, unchanged)
            assert np.array_equal(one.race, other.race)
            assert np.array_equal(one.uninitialised, other.uninitialised)
