"""counters: wavefronts and sectors against closed forms and a count by hand; counts of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutgen.cpu import LineCount, Tensor, launch
from layoutgen.cpu.counters import sectors, wavefronts
from tests.cpu.conftest import run_attention, run_snippet, slim_ptx

LANE = np.arange(32).reshape(32, 1)


def by_hand(address: Any, active: Any, width: int) -> int:
    """Wavefronts of one warp: phases of consecutive lanes, distinct words a bank, the largest number."""
    lanes = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    total = 0
    for start in range(0, 32, lanes):
        banks: dict[int, set[int]] = {}
        for lane in range(start, start + lanes):
            if active[lane]:
                for word in range(max(width // 4, 1)):
                    index = int(address[lane]) // 4 + word
                    banks.setdefault(index % 32, set()).add(index)
        total += max((len(words) for words in banks.values()), default=0)
    return total


@pytest.mark.parametrize(
    ("address", "width", "taken", "least"),
    [
        (LANE * 4, 4, 1, 1),
        (LANE * 0, 4, 1, 1),
        (LANE * 128, 4, 32, 1),
        (LANE * 8, 4, 2, 1),
        (LANE * 8, 8, 2, 2),
        (LANE * 16, 16, 4, 4),
        (LANE * 2, 2, 1, 1),
        (LANE * 132, 4, 1, 1),  # a row of padding
        (LANE // 4 * 8, 8, 2, 2),  # duplicates across phases are not free
        (LANE % 16 * 8, 8, 2, 2),
    ],
)
def test_wavefronts_of_known_patterns(address: Any, width: int, taken: int, least: int) -> None:
    assert wavefronts(address, None, width) == (taken, least)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_wavefronts_by_hand(width: int) -> None:
    rng = np.random.default_rng(width)
    address = rng.integers(0, 64, (32, 40)) * width
    active = rng.random((32, 40)) < rng.random(40)
    want = sum(by_hand(address[:, w], active[:, w], width) for w in range(40))
    assert wavefronts(address, active, width)[0] == want
    everyone = np.ones_like(active)
    want = sum(by_hand(address[:, w], everyone[:, w], width) for w in range(40))
    assert wavefronts(address, None, width)[0] == want


def test_least_wavefronts_count_phases_with_an_active_lane() -> None:
    active = np.zeros((32, 1), np.bool_)
    assert wavefronts(LANE * 16, active, 16) == (0, 0)
    active[9] = True
    assert wavefronts(LANE * 16, active, 16) == (1, 1)


@pytest.mark.parametrize(
    ("address", "width", "taken", "least"),
    [
        (LANE * 4, 4, 4, 4),
        (LANE * 2, 2, 2, 2),
        (LANE * 16, 16, 16, 16),
        (LANE * 64, 4, 32, 4),
        (LANE * 0, 4, 1, 1),
        (LANE * 4 + 16, 4, 5, 4),
    ],
)
def test_sectors(address: Any, width: int, taken: int, least: int) -> None:
    assert sectors(address + (1 << 34), None, width) == (taken, least)


def test_sectors_of_active_lanes() -> None:
    assert sectors(LANE * 64, LANE < 5, 4) == (5, 1)
    assert sectors(LANE * 64, LANE < 0, 4) == (0, 0)


def test_the_fragment_reads_of_the_facts() -> None:
    """Duplicates at lane^4 and lane^8 of an 8-byte read: 2 wavefronts although 128 bytes are distinct."""
    row = LANE % 4 + LANE // 16 * 4  # A of m8n8k4: the same row in all quadpairs
    assert wavefronts(row * 8, None, 8) == (2, 2)


def test_launch_adds_up() -> None:
    report = run_attention(slim_ptx(), 64, 32).report
    total = sum(report.lines.values(), LineCount())
    assert total == report.total
    # 2 blocks x 2 tiles x 2 warps x 8 k-steps, each with two LDS.64 that take two wavefronts
    steps = 2 * 2 * 2 * 8
    assert report.total.mma == steps
    loads = [c for s, c in report.lines.items() if s.line in (106, 107, 122, 123)]
    assert sum(c.wavefronts for c in loads) >= steps * 4
    assert sum(c.wavefronts_minimum for c in loads) == steps * 4
    assert report.total.sectors >= report.total.sectors_minimum > 0


def test_counts_are_linear_in_blocks() -> None:
    one, two = (run_attention(slim_ptx(), rows, 32).report.total for rows in (32, 64))
    assert one + one == two


def test_instructions_of_diverged_groups() -> None:
    """A warp that takes both sides of a branch issues both; a warp that takes one issues one."""
    text = """.version 8.8
.target sm_70
.visible .entry body(.param .u64 p) .reqntid 64 {
.reg .b32 %t; .reg .b64 %w; .reg .pred %p;
.loc 1 1 0
mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 16; ld.param.u64 %w, [p]; mad.wide.u32 %w, %t, 4, %w; @%p bra LOW;
.loc 1 2 0
add.u32 %t, %t, 1; bra JOIN;
LOW:
.loc 1 3 0
add.u32 %t, %t, 2;
JOIN:
.loc 1 4 0
st.global.b32 [%w], %t; ret; }
.file 1 "x.py"
"""
    out = Tensor.output("o", (64,), "i4")
    report = launch(text, 1, 2, [out])
    assert {s.line: c.instructions for s, c in report.lines.items()} == {1: 10, 2: 4, 3: 1, 4: 4}


def test_snippets_run_many_warps() -> None:
    assert run_snippet("mov.b32 %o0, 3;", [], threads=1000).tolist() == [3] * 1000
