"""The simulation on loops whose time can be worked out by hand, and against the bound on random ones."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.profiles.model import load_model
from layoutgen.sass.pricing import PORTS
from layoutgen.sass.simulate import REASONS, Step, simulate

MODEL = replace(load_model("volta"), shared_efficiency=1.0)
TENSOR, FMA, LSU, NONE = (PORTS.index(port) for port in ("tensor", "fma", "lsu", "none"))


def instruction(port=NONE, cycles=0, *, stall=1, wait=(), write=None, read=None, latency=0, barrier=False):
    return Step(wait, stall, write, read, port, cycles, latency, barrier)


def cycles(steps, blocks=1, warps=1, **options):
    return simulate(steps, blocks, warps, MODEL, **options).cycles


def test_one_warp_takes_the_sum_of_its_stalls():
    assert cycles([instruction(stall=s) for s in (1, 4, 2, 15)]) == 22


def test_a_port_limits_the_warps_of_a_sub_core():
    """Two STEPs of two cycles each, eight warps on four sub-cores: two warps share a tensor core."""
    steps = [instruction(TENSOR, 2), instruction(TENSOR, 2)]
    assert cycles(steps, warps=4) == 4
    assert cycles(steps, warps=8) == 8
    assert cycles(steps, blocks=2, warps=4) == 8


def test_a_sub_core_issues_one_instruction_a_clock():
    assert cycles([instruction()] * 10, warps=16) == 40


def test_different_ports_work_side_by_side():
    steps = [instruction(TENSOR, 2), instruction(FMA, 2)]
    assert cycles(steps, warps=4) == 2
    assert cycles(steps, warps=8) == 4


def test_the_memory_pipe_is_shared_by_all_sub_cores():
    steps = [instruction(LSU, 4)] * 8
    assert cycles(steps, warps=1, iterations=20) == pytest.approx(32, rel=0.02)
    assert cycles(steps, warps=4, iterations=20) == pytest.approx(128, rel=0.02)
    assert cycles(steps, blocks=2, warps=4, iterations=20) == pytest.approx(256, rel=0.02)


def test_a_waiting_instruction_waits_for_its_barrier_and_no_other():
    load = instruction(LSU, 2, write=3, latency=19)
    trip = MODEL.queue_delay + 2 + 19
    assert cycles([load, instruction(wait=(3,))]) == trip + 1
    assert cycles([load, instruction(wait=(2,)), instruction(stall=8)]) == 10
    hidden = [load, instruction(stall=15), instruction(stall=15), instruction(wait=(3,))]
    assert cycles(hidden) == 32


def test_the_read_barrier_falls_before_the_result_is_there():
    load = instruction(LSU, 2, write=0, read=1, latency=100)
    by_read = cycles([load, instruction(wait=(1,))])
    assert by_read == MODEL.queue_delay + MODEL.latency["read"] + 1
    assert by_read < cycles([load, instruction(wait=(0,))])


def test_a_barrier_waits_for_all_warps_of_its_block_and_not_for_other_blocks():
    barrier = instruction(barrier=True)
    work = instruction(stall=15)
    alone = cycles([work, barrier], warps=4)
    assert alone == 15 + MODEL.latency["barrier"]
    assert cycles([work, barrier], blocks=3, warps=4, stagger=7.0) == pytest.approx(alone, abs=2)
    # The warps of a sub-core take turns at the port; all leave with the last.
    port = [instruction(TENSOR, 12), barrier]
    assert cycles(port, warps=8) == pytest.approx(12 + 1 + MODEL.latency["barrier"], abs=1)


def test_a_full_queue_holds_the_sub_core_back():
    deep = replace(MODEL, queue_depth=64)
    steps = [instruction(LSU, 8)] * 16 + [instruction(stall=15)] * 8
    shallow = simulate(steps, 1, 1, replace(MODEL, queue_depth=1))
    assert simulate(steps, 1, 1, deep).cycles == pytest.approx(16 + 120, abs=1)
    assert shallow.cycles > 15 * 8 + 120 - 20
    queue = REASONS.index("queue")
    assert sum(row[queue] for row in shallow.spent) > 90


def test_where_the_cycles_go_adds_up():
    steps = [
        instruction(LSU, 2, write=0, latency=19),
        instruction(TENSOR, 2, wait=(0,), stall=2),
        instruction(TENSOR, 2, stall=1),
        instruction(FMA, 2, stall=4),
        instruction(barrier=True),
    ]
    for blocks, warps in ((1, 1), (1, 4), (2, 4), (3, 8)):
        run = simulate(steps, blocks, warps, MODEL, iterations=20)
        assert sum(map(sum, run.spent)) == pytest.approx(run.cycles, rel=0.1)


random_steps = st.lists(
    st.builds(
        instruction,
        port=st.sampled_from([TENSOR, FMA, LSU, NONE]),
        cycles=st.integers(1, 4),
        stall=st.integers(1, 6),
        wait=st.sets(st.integers(0, 2)).map(tuple),
        write=st.none() | st.integers(0, 2),
        latency=st.integers(0, 30),
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(random_steps, st.integers(1, 3), st.sampled_from([1, 2, 4, 8]))
def test_no_faster_than_the_busiest_port(steps, blocks, warps):
    total = blocks * warps
    per_core = -(-total // 4)
    use = {port: sum(s.cycles for s in steps if s.port == port) for port in (TENSOR, FMA, LSU)}
    run = simulate(steps, blocks, warps, MODEL, iterations=12)
    at_least = max(sum(s.stall for s in steps), use[LSU] * total)
    if total % 4 == 0:
        at_least = max(at_least, per_core * max(use[TENSOR], use[FMA], len(steps)))
    # A warp that is served first may be ahead of the others by an iteration when the simulation ends.
    assert run.cycles >= at_least * 0.8 - 8


@given(random_steps)
@settings(max_examples=20, deadline=None)
def test_the_same_loop_gives_the_same_time(steps):
    assert simulate(steps, 2, 4, MODEL, stagger=3.0) == simulate(steps, 2, 4, MODEL, stagger=3.0)
