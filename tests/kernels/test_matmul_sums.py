"""The fast design of matmul whose sums are added apart: parts in turn, and tiles that come in portions."""

import dataclasses
import functools
from itertools import combinations

import pytest

import layoutgen as lg
from layoutgen.algebra import LinearLayout
from layoutgen.execution import Launch, run_kernel
from layoutgen.kernels.matmul_fast import ADDED_AT
from layoutgen.proofs import refutations
from layoutgen.proofs.methods import equal
from layoutgen.readback.source import prove_source
from layoutgen.sass.inspection import inspect
from layoutgen.toolchain import compile_kernel
from tests.kernels.launching import emitted, kernel

ORDERS = [(a, b) for a in ("mk", "km") for b in ("kn", "nk")]


def loop_of(**fields):
    file = emitted(lg.matmul(design="fast", **fields))
    return inspect(file, compile_kernel(file, "sm_70"))


def test_eight_warps_whose_sums_are_added_apart():
    """One addition for every element and 16 k, nothing spilled: two K tiles an iteration."""
    found = loop_of(accumulate="tile", block_k=32, warps="4x2")
    assert found.compiled.spill_stores == found.compiled.spill_loads == 0
    assert found.loop.count("FADD") == 2 * 2 * 128 * 128 // (32 * found.compiled.num_warps)


@pytest.mark.parametrize(
    ("a_order", "b_order"),
    [("mk", "nk"), *(pytest.param(*order, marks=pytest.mark.sweep) for order in ORDERS if order != ("mk", "nk"))],
)
def test_the_loop_whose_parts_are_summed_in_turn(a_order, b_order):
    """Two K tiles of 32 an iteration, four parts a warp: nothing is spilled, and a branch ends each part."""
    found = loop_of(accumulate="tile", a_order=a_order, b_order=b_order)
    assert not {"LDL", "STL"} & set(found.loop.opcodes)
    assert found.compiled.spill_stores == found.compiled.spill_loads == 0
    assert found.loop.count("FADD") == 2 * 2 * 128 * 128 // (32 * found.compiled.num_warps)
    assert found.loop.count("EXIT") == 2 * 2 * 4
    assert found.loop.count("BAR") == 2
    assert found.instructions_per_hmma <= 1.73
    assert found.predict().mean > 91


@pytest.mark.sweep
@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
def test_sums_added_apart_cost_little(a_order, b_order):
    """At most 8 % beside the tensor core's own sums of the same tile."""
    rates = [loop_of(accumulate=way, a_order=a_order, b_order=b_order).predict().mean for way in ("unit", "tile")]
    assert rates[1] >= 0.92 * rates[0]


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize(
    ("warps", "part", "streamed"), [("4x1", (128, 32), "b"), ("1x4", (32, 128), "a"), ("2x2", (128, 32), "b")]
)
def test_parts_that_are_summed_in_turn(warps, part, streamed, a_order, b_order):
    """Four units a warp; fragments of the operand that parts share less of are fetched for each."""
    request = kernel(
        a_order=a_order, b_order=b_order, accumulate="tile", block_m=128, block_n=128, block_k=32, warps=warps
    ).request
    assert (request.part, request.streamed) == (part, streamed)
    assert sum(ADDED_AT) == request.tiling.atom.accumulator.elements
    assert sum(tile.name.startswith("sum") for tile in request.plan.tiles) == 2
    assert request.plan.accumulator_registers == 128 + 2 * 32
    assert request.plan.instructions == 2 * 128 * 128 * 32 // (4 * 16 * 16 * 4)  # of a warp, in two K tiles
    fetches = [move.times for move in request.plan.moves if move.kind == "fetch" and move.source.endswith("0")]
    parts = request.parts[0] * request.parts[1]
    assert sorted(fetches) == sorted(
        request.block_k // 4 // way.steps * (parts if name == streamed else way.parts)
        for name, way in request.operands.items()
    )


def subsets(items):
    return (chosen for count in range(len(items) + 1) for chosen in combinations(items, count))


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize("block", [(128, 128, 32, "2x2"), (64, 32, 16, "1x1"), (32, 64, 64, "1x2")])
def test_portions_make_up_a_tile(block, a_order, b_order):
    """Each is one vector a thread, and together they read every element of the tile once."""
    m, n, k, warps = block
    request = kernel(
        a_order=a_order, b_order=b_order, accumulate="tile", block_m=m, block_n=n, block_k=k, warps=warps
    ).request
    for way in request.operands.values():
        held = way.portion.columns
        assert len(held) == (way.vector.bit_length() - 1) + 5 + (request.num_warps.bit_length() - 1)
        inner = [functools.reduce(int.__xor__, chosen, 0) for chosen in subsets(held)]
        seen = [
            tuple(map(sum, zip(way.portion.codomain.unpack(place), begin, strict=True)))
            for begin in way.portions
            for place in inner
        ]
        assert sorted(seen) == [(row, column) for row in range(way.shape[0]) for column in range(way.shape[1])]


@pytest.mark.parametrize(
    ("block_m", "block_n", "block_k", "a_order", "b_order"),
    [
        (64, 16, 16, "mk", "nk"),
        (32, 64, 32, "km", "kn"),
        *(
            pytest.param(m, n, k, *order, marks=pytest.mark.sweep)
            for m, n, k in [(32, 32, 16), (32, 64, 16), (64, 32, 32), (64, 64, 16), (32, 32, 64)]
            for order in ORDERS
        ),
    ],
)
def test_any_number_of_parts_is_summed_in_turn(block_m, block_n, block_k, a_order, b_order):
    sizes = {"block_m": block_m, "block_n": block_n, "block_k": block_k, "warps": "1x1"}
    made = kernel(a_order=a_order, b_order=b_order, accumulate="tile", **sizes)
    for k in (0, 72, 136):
        result = run_kernel(emitted(made), Launch((1, 33, 40, k), inputs="integers"))
        assert result.passed, result.as_dict()
        assert result.max_abs_error == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("beside(a_pointer, 32, stride_ak)", "beside(a_pointer, 64, stride_ak)"),
        ("skipped * stride_ak, 32, stride_ak)", "skipped * stride_ak, 64, stride_ak)"),
        (".slice(4, 4, dim=1), a_tile2", ".slice(8, 4, dim=1), a_tile2"),
        ("stay(k)", "stay(m)"),
        ("setp.lt.s32 gone, $1, 0;", "setp.lt.s32 gone, $1, 1;"),
        ("words.slice(2 * step + 1, 1, dim=0)", "words.slice(2 * step, 1, dim=0)"),
    ],
)
def test_portions_that_change_places_are_refuted(old, new):
    """The set of what is loaded stays the same, when two portions are taken for each other everywhere."""
    sizes = {"block_m": 32, "block_n": 32, "block_k": 128, "warps": "1x2"}
    file = emitted(kernel(accumulate="tile", **sizes))
    assert refutations(prove_source(file.path, file.source, file.request)) == ()
    assert old in file.source
    wrong = file.source.replace(old, "\0").replace(new, old).replace("\0", new)
    assert refutations(prove_source(file.path, wrong, file.request))


def test_a_depth_that_32_bits_do_not_hold_is_refused_where_sums_are_added_apart():
    for fields, limit in (({}, 2**31), ({"operand_dtype": "float32"}, 2**29)):
        file = emitted(kernel(accumulate="tile", **fields))
        arrays = file.request.arrays((1, 1, 1, limit - 1))
        host = file.load().launches if fields else file.load().launch_arguments
        host(**arrays)
        with pytest.raises(ValueError, match=f"K is {limit}; sums that are added apart are for less than {limit}"):
            host(**file.request.arrays((1, 1, 1, limit)))


def test_tiles_added_apart_are_compiled_at_a_lower_level():
    """The level is in the file, and what is reported is of the code that a launch runs."""
    assert emitted(kernel(accumulate="tile")).options["ptx_options"] == "--opt-level 1"
    assert "ptx_options" not in emitted(kernel()).options


def test_a_buffer_whose_groups_are_others_is_not_what_the_portions_fill():
    request = kernel(accumulate="tile", block_m=128, block_n=128, block_k=32, warps="2x2").request
    way = request.operands["a"]
    buffer = way.staging.buffer
    in_rows = LinearLayout(buffer.domain, buffer.codomain, tuple(1 << bit for bit in range(len(buffer.columns))))
    other = dataclasses.replace(way.staging, buffer=in_rows)
    assert equal("a", way.sliced, way.staging.stored).holds
    assert not equal("a", way.sliced, other.stored).holds
