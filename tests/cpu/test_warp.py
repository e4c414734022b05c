"""shfl.sync, vote.sync, bar.warp.sync: what lanes exchange."""

from __future__ import annotations

import numpy as np
import pytest

from layoutgen.cpu import UnsupportedInstructionError
from tests.cpu.conftest import run_snippet


def by_hand(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The source lane and predicate of the ISA's pseudo-code for shfl.sync."""
    segment, clamp = c >> 8 & 31, c & 31
    maximum = (lane & segment) | (clamp & ~segment & 31)
    minimum = lane & segment
    if mode == "up":
        source = lane - b
        inside = source >= maximum
    elif mode == "down":
        source = lane + b
        inside = source <= maximum
    elif mode == "bfly":
        source = lane ^ b
        inside = source <= maximum
    else:
        source = minimum | (b & ~segment & 31)
        inside = source <= maximum
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("b", [0, 1, 2, 5, 16, 31])
@pytest.mark.parametrize("c", [31, 0, 0x1C1F, 0x181F, 0x1F1F, 0x0C0F])
def test_shuffle(mode: str, b: int, c: int) -> None:
    if mode == "up" and c == 31:
        c = 0
    values = np.arange(96, dtype=np.uint32) * 3 + 1
    text = f"shfl.sync.{mode}.b32 %x0|%q0, %i0, {b}, {c}, -1; selp.b32 %x1, 1000, 0, %q0; add.u32 %o0, %x0, %x1;"
    got = run_snippet(text, [values])
    for thread, g in enumerate(got):
        source, inside = by_hand(mode, thread % 32, b, c)
        assert int(g) == values[thread // 32 * 32 + source] + (1000 if inside else 0), f"thread {thread}"


def test_shuffle_with_a_distance_per_lane() -> None:
    values, lanes = np.arange(32, dtype=np.uint32) + 100, (np.arange(32, dtype=np.uint32) * 7) % 32
    got = run_snippet("shfl.sync.idx.b32 %o0, %i0, %i1, 31, -1;", [values, lanes])
    assert (got == values[lanes]).all()


def test_shuffle_of_a_uniform_value() -> None:
    assert (run_snippet("mov.b32 %x0, 7; shfl.sync.bfly.b32 %o0, %x0, 3, 31, -1;", [], threads=32) == 7).all()


def test_votes() -> None:
    a = np.zeros(96, np.uint32)
    a[[1, 5, 40]] = 1
    a[64:] = 1
    setup = "setp.ne.b32 %q0, %i0, 0;"
    ballot = [0b100010, 1 << 8, 0xFFFFFFFF]
    got = run_snippet(f"{setup} vote.sync.ballot.b32 %o0, %q0, -1;", [a])
    assert got.tolist() == np.repeat(np.uint32(ballot), 32).tolist()
    for mode, want in (("all", [0, 0, 1]), ("any", [1, 1, 1]), ("uni", [0, 0, 1])):
        got = run_snippet(f"{setup} vote.sync.{mode}.pred %q1, %q0, -1; selp.b32 %o0, 1, 0, %q1;", [a])
        assert got.tolist() == np.repeat(want, 32).tolist(), mode
    assert (run_snippet("activemask.b32 %o0;", [], threads=32) == 0xFFFFFFFF).all()


def test_activemask_under_divergence() -> None:
    text = "setp.lt.u32 %q0, %i0, 5; mov.b32 %o0, 0; @!%q0 bra JOIN; activemask.b32 %o0; JOIN:"
    got = run_snippet(text, [np.arange(64, dtype=np.uint32) % 32])
    assert got.tolist() == [31 if t % 32 < 5 else 0 for t in range(64)]


@pytest.mark.parametrize(
    "text",
    ["shfl.bfly.b32 %o0, %i0, 1, 31", "shfl.sync.rotate.b32 %o0, %i0, 1, 31, -1", "vote.all.pred %q0, %q1",
     "match.any.sync.b32 %o0, %i0, -1", "redux.sync.add.u32 %o0, %i0, -1", "bar.red.popc.u32 %o0, 0, %q0",
     "atom.global.add.u32 %o0, [%w0], %i0", "bar.sync 0, 32", "barrier.cluster.arrive"],
)  # fmt: skip
def test_unknown_forms(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="unsupported"):
        run_snippet(f"{text};", [np.zeros(64, np.uint32)])
