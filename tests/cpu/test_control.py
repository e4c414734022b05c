"""Branches: divergence by masks, reconvergence, loops, returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.cpu import ExecutionError, Tensor, launch
from tests.cpu.conftest import run_snippet

X = np.arange(96, dtype=np.uint32)


def test_if_else() -> None:
    text = """and.b32 %x0, %i0, 3; setp.eq.u32 %q0, %x0, 1; @%q0 bra ELSE; add.u32 %o0, %i0, 100; bra.uni JOIN;
              ELSE: add.u32 %o0, %i0, 200; JOIN: add.u32 %o0, %o0, 1000;"""
    assert run_snippet(text, [X]).tolist() == [int(x) + (1200 if x % 4 == 1 else 1100) for x in X]


def test_loop_with_a_count_per_thread() -> None:
    text = """mov.b32 %o0, 0; mov.b32 %x0, 0; LOOP: setp.ge.u32 %q0, %x0, %i0; @%q0 bra DONE;
              add.u32 %o0, %o0, %x0; add.u32 %x0, %x0, 1; bra LOOP; DONE: add.u32 %o0, %o0, 5;"""
    assert run_snippet(text, [X]).tolist() == [int(x) * (int(x) - 1) // 2 + 5 for x in X]


def test_nested_divergence_reconverges() -> None:
    """A shuffle behind two nested branches must find the warp whole (run_snippet wants a clean report)."""
    text = """and.b32 %x0, %i0, 1; and.b32 %x1, %i0, 2; setp.ne.u32 %q0, %x0, 0; setp.ne.u32 %q1, %x1, 0;
              mov.b32 %o0, 0; @%q0 bra B; @%q1 bra A2; add.u32 %o0, %o0, 1; bra A3; A2: add.u32 %o0, %o0, 2;
              A3: add.u32 %o0, %o0, 10; bra JOIN; B: add.u32 %o0, %o0, 40;
              JOIN: shfl.sync.bfly.b32 %o0, %o0, 1, 31, -1;"""
    values = [40 if x & 1 else (12 if x & 2 else 11) for x in X]
    assert run_snippet(text, [X]).tolist() == [values[x ^ 1] for x in X]


def test_guards_mask_any_instruction() -> None:
    text = "setp.lt.u32 %q0, %i0, 50; mov.b32 %o0, 1; @%q0 mov.b32 %o0, 2; @!%q0 add.u32 %o0, %o0, %i0;"
    assert run_snippet(text, [X]).tolist() == [2 if x < 50 else 1 + int(x) for x in X]


def test_uniform_guard() -> None:
    text = "setp.lt.u32 %q0, 3, 50; mov.b32 %o0, 1; @%q0 mov.b32 %o0, 2; @!%q0 mov.b32 %o0, 3;"
    assert run_snippet(text, [], threads=32).tolist() == [2] * 32


def _early(guarded: str) -> str:
    return f""".version 8.8
.target sm_70
.visible .entry early(.param .u64 p, .param .u32 n) .reqntid 64 {{
.reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>;
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; setp.ge.u32 %p0, %r0, %r1;
{guarded}
ld.param.u64 %rd0, [p]; mad.wide.u32 %rd0, %r0, 4, %rd0;
bar.sync 0;
st.global.b32 [%rd0], %r0; ret; }}"""


@pytest.mark.parametrize("n", [0, 10, 64])
def test_returned_threads_are_not_waited_for(n: int) -> None:
    out = Tensor.output("o", (64,), "u4")
    report = launch(_early("@%p0 ret;"), 1, 2, [out, n], expect_all_written=False)
    assert report.clean, str(report)
    assert out.unwritten == 64 - n
    assert (out.array[:n] == np.arange(n)).all()


def test_trap_and_endless_loop() -> None:
    with pytest.raises(ExecutionError, match="trap"):
        launch(_early("trap;"), 1, 2, [Tensor.output("o", (64,), "u4"), 1])
    with pytest.raises(ExecutionError, match="endless"):
        launch(_early("L: bra L;"), 1, 2, [Tensor.output("o", (64,), "u4"), 1], step_limit=1000)


def test_running_off_the_end_ends() -> None:
    text = _early("").replace("ret; }", "}")
    out = Tensor.output("o", (64,), "u4")
    assert launch(text, 1, 2, [out, 0]).clean


def test_blocks_in_three_dimensions() -> None:
    text = """.version 8.8
.target sm_70
.visible .entry where(.param .u64 p) .reqntid 32 {
.reg .b32 %r<9>; .reg .b64 %rd<2>;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %r0;
mov.u32 %r6, %tid.x; mad.lo.u32 %r5, %r5, 32, %r6;
mad.lo.u32 %r7, %r2, 100, %r1; mad.lo.u32 %r7, %r7, 100, %r0;
ld.param.u64 %rd0, [p]; mad.wide.u32 %rd0, %r5, 4, %rd0; st.global.b32 [%rd0], %r7; ret; }"""
    out = Tensor.output("o", (2, 3, 5, 32), "u4")
    assert launch(text, (5, 3, 2), 1, [out]).clean
    z, y, x = np.meshgrid(np.arange(2), np.arange(3), np.arange(5), indexing="ij")
    assert (out.array == ((z * 100 + y) * 100 + x)[..., None]).all()


# Random structured programs against one thread at a time ------------------------------------------------------

Block = list[Any]

statements = st.deferred(lambda: st.lists(statement, max_size=4))
statement = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 1000)),
    st.tuples(st.just("multiply"), st.integers(0, 7)),
    st.tuples(st.just("if"), st.sampled_from([1, 2, 3, 8, 31, 32, 64]), statements, statements),
    st.tuples(st.just("loop"), st.sampled_from([0, 1, 3, 32]), statements),
    st.tuples(st.just("leave"), st.integers(0, 95)),
)


def interpret(block: Block, thread: int, value: int) -> tuple[int, bool]:
    """What one thread makes of `value`, and whether it has left the program."""
    for kind, number, *bodies in block:
        left = False
        if kind == "add":
            value = value + number & 0xFFFFFFFF
        elif kind == "multiply":
            value = value * number & 0xFFFFFFFF
        elif kind == "if":
            value, left = interpret(bodies[0] if thread & number else bodies[1], thread, value)
        elif kind == "loop":
            for _ in range(thread & number & 3):
                value, left = interpret(bodies[0], thread, value)
                if left:
                    break
        else:
            left = thread == number
        if left:
            return value, True
    return value, False


class Emitter:
    """Emits a block as PTX; every loop gets a counter of its own."""

    def __init__(self) -> None:
        self.labels = 0
        self.registers: list[str] = []

    def emit(self, block: Block) -> str:
        out = []
        for kind, number, *bodies in block:
            self.labels += 1
            me = self.labels
            if kind == "add":
                out.append(f"add.u32 %o0, %o0, {number};")
            elif kind == "multiply":
                out.append(f"mul.lo.u32 %o0, %o0, {number};")
            elif kind == "if":
                test = f"and.b32 %x0, %i0, {number}; setp.eq.u32 %q0, %x0, 0; @%q0 bra ELSE{me};"
                first, second = self.emit(bodies[0]), self.emit(bodies[1])
                out.append(f"{test} {first} bra JOIN{me}; ELSE{me}: {second} JOIN{me}:")
            elif kind == "loop":
                self.registers += [f"%c{me}", f"%n{me}"]
                head = f"mov.b32 %c{me}, 0; and.b32 %n{me}, %i0, {number & 3}; bra TEST{me};"
                test = f"TEST{me}: setp.lt.u32 %q1, %c{me}, %n{me}; @%q1 bra BODY{me};"
                body = f"BODY{me}: {self.emit(bodies[0])} add.u32 %c{me}, %c{me}, 1;"
                out.append(f"{head} {body} {test}")
            else:
                out.append(f"setp.eq.u32 %q2, %i0, {number}; @%q2 bra DONE;")
        return "\n".join(out)


@settings(max_examples=150, deadline=None)
@given(statements)
def test_random_programs(block: Block) -> None:
    emitter = Emitter()
    body = emitter.emit(block)
    declare = f".reg .b32 {', '.join(emitter.registers)};" if emitter.registers else ""
    # behind the label all threads must have met again: the shuffle would report a diverged warp
    text = f"mov.b32 %o0, %i0; {body} DONE: shfl.sync.bfly.b32 %o0, %o0, 1, 31, -1;"
    got = run_snippet(text, [X], extra=declare)
    values = [interpret(block, int(x), int(x))[0] for x in X]
    assert got.tolist() == [values[x ^ 1] for x in X]
