"""The fast design of matmul: its request, what it emits, and that it computes the product."""

import dataclasses
import functools
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layoutgen as lg
from layoutgen.cpu import Tensor, parse_ptx
from layoutgen.cpu import launch as execute
from layoutgen.errors import LayoutgenError
from layoutgen.execution import KINDS, STRIDES, TRANSPOSED, Launch, run_kernel
from layoutgen.kernels import request_from_dict
from layoutgen.proofs import refutations
from layoutgen.readback.source import prove_source
from layoutgen.sass.inspection import inspect
from layoutgen.toolchain import build_kernel, compile_kernel, read_kernel
from tests.sweep_log import examples, in_parts

FOLDER = tempfile.TemporaryDirectory(prefix="layoutgen-tests-")
ORDERS = [(a, b) for a in ("mk", "km") for b in ("kn", "nk")]


def kernel(a_order="mk", b_order="kn", **fields):
    small = {"block_m": 32, "block_n": 32, "block_k": 16, "warps": "1x1"}
    return lg.matmul(design="fast", a_order=a_order, b_order=b_order, **{**small, **fields})


@functools.cache
def emitted(made: lg.Kernel):
    folder = Path(FOLDER.name) / str(abs(hash(made)))
    folder.mkdir(exist_ok=True)
    return read_kernel(made.write(folder))


def check_run(made, launch):
    """Post-condition: no finding, every error within its bound, no avoidable conflict in shared memory."""
    result = run_kernel(emitted(made), launch)
    assert result.findings == (), [str(finding) for finding in result.findings]
    assert result.bound_share <= 1, result.as_dict()
    assert result.report.total.wavefronts == result.report.total.wavefronts_minimum
    return result


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize("k", [0, 16, 33, 80])
def test_integers_are_exact_at_every_depth(a_order, b_order, k):
    """Odd and even numbers of K tiles, whole and cut, and none at all."""
    made = kernel(a_order, b_order, out_dtype="float32")
    assert check_run(made, Launch((1, 33, 40, k), inputs="integers")).max_abs_error == 0


@pytest.mark.parametrize(
    ("block_m", "block_n", "block_k", "warps"),
    [(16, 64, 32, "1x1"), (64, 64, 16, "1x2"), (64, 32, 32, "2x1"), (64, 128, 32, "2x2")],
)
def test_tiles(block_m, block_n, block_k, warps):
    made = kernel(block_m=block_m, block_n=block_n, block_k=block_k, warps=warps, out_dtype="float32")
    shape = (1, block_m + 3, block_n + 8, 2 * block_k + 5)
    assert check_run(made, Launch(shape, inputs="integers")).max_abs_error == 0


SMALL = tuple(kernel(a, b, out_dtype=dtype) for (a, b), dtype in zip(ORDERS, ("float32", "float16") * 2, strict=True))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    made=st.sampled_from(SMALL),
    shape=st.tuples(st.integers(1, 2), *[st.integers(1, 70)] * 3),
    inputs=st.sampled_from(tuple(KINDS)),
    order=st.sampled_from(tuple(TRANSPOSED)),
    strides=st.sampled_from(tuple(STRIDES)),
    misalign=st.sampled_from((0, 0, 2, 8, 16)),
    seed=st.integers(0, 2**16),
)
def test_against_float64(made, shape, inputs, order, strides, misalign, seed):
    check_run(made, Launch(shape, inputs=inputs, order=order, strides=strides, misalign=misalign, seed=seed))


@in_parts
@settings(max_examples=examples(20), deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))
@given(
    orders=st.sampled_from(ORDERS),
    tile=st.sampled_from(((64, 64, "1x2"), (128, 64, "2x1"), (128, 128, "2x2"), (64, 128, "2x4"))),
    block_k=st.sampled_from((16, 32, 64)),
    shape=st.tuples(st.integers(1, 2), *[st.integers(1, 200)] * 3),
    inputs=st.sampled_from(tuple(KINDS)),
    order=st.sampled_from(tuple(TRANSPOSED)),
    strides=st.sampled_from(tuple(STRIDES)),
)
def test_sweep(record_sweep, orders, tile, block_k, shape, inputs, order, strides):
    if tile[2] == "2x4":
        block_k = max(block_k, 32)  # a shallower tile leaves threads of eight warps without a vector, and is refused
    made = kernel(*orders, block_m=tile[0], block_n=tile[1], block_k=block_k, warps=tile[2])
    record_sweep("matmul_fast", check_run(made, Launch(shape, inputs=inputs, order=order, strides=strides)))


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize("k", [33, 48])
def test_tiles_added_apart_are_exact_for_integers(a_order, b_order, k):
    made = kernel(a_order, b_order, accumulate="tile", out_dtype="float32")
    assert check_run(made, Launch((1, 33, 40, k), inputs="integers")).max_abs_error == 0


@pytest.mark.parametrize(("block_m", "block_n", "block_k", "warps"), [(64, 128, 32, "2x2"), (32, 64, 16, "1x1")])
def test_tiles_added_apart(block_m, block_n, block_k, warps):
    made = kernel(block_m=block_m, block_n=block_n, block_k=block_k, warps=warps, accumulate="tile")
    check_run(made, Launch((1, block_m + 3, block_n + 8, 3 * block_k + 5)))


def test_adding_tiles_apart_takes_the_drift_of_truncation_away():
    """Positive terms: the unit loses in one direction, so that its error grows with K, and that of tiles does not."""
    errors = {}
    for accumulate in ("unit", "tile"):
        file = emitted(kernel(accumulate=accumulate, out_dtype="float32"))
        errors[accumulate] = drift(file, 1024)
    assert errors["unit"] < -8 * abs(errors["tile"])


def drift(file, k):
    """Return the mean relative error of a product of positive matrices, 32 x K x 32, in V100 arithmetic."""
    rng = np.random.default_rng(0)
    values = {"a": rng.random((1, 32, k)).astype(np.float16), "b": rng.random((1, k, 32)).astype(np.float16)}
    arrays = file.request.arrays((1, 32, 32, k))
    build = build_kernel(file, "sm_70", arrays)
    tensors = {name: Tensor.input(name, value, arrays[name].strides) for name, value in values.items()}
    tensors["c"] = Tensor.output("c", arrays["c"].shape, arrays["c"].dtype, arrays["c"].strides)
    arguments = [tensors.get(name, value) for name, value in build.arguments]
    execute(parse_ptx(build.ptx), build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes)
    exact = values["a"].astype(np.float64) @ values["b"].astype(np.float64)
    return float(((tensors["c"].array - exact) / exact).mean())


@pytest.mark.parametrize(("m", "n"), [(1, 1), (33, 100), (100, 33), (130, 97), (65, 65)])
@pytest.mark.parametrize("group_m", [2, 3])
def test_blocks_in_groups_cover_c(group_m, m, n):
    """Every element of C is written: the executor reports those that are not, and blocks that collide."""
    made = kernel(group_m=group_m, out_dtype="float32")
    assert check_run(made, Launch((2, m, n, 16), inputs="integers")).max_abs_error == 0


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
def test_multiples_of_8_are_loaded_in_vectors_too(a_order, b_order):
    """Triton knows multiples of 16 alone: what is said of others is so, and their loads take 16 bytes."""
    file = emitted(kernel(a_order, b_order, out_dtype="float32"))
    for shape, said in (((2, 40, 56, 72), True), ((2, 48, 64, 80), False), ((2, 40, 57, 71), False)):
        *_, vectors, _, _ = file.load().launch_arguments(**file.request.arrays(shape))[1]
        assert vectors is said
    result = run_kernel(file, Launch((2, 40, 56, 72), inputs="integers"))
    assert result.passed
    assert result.max_abs_error == 0
    loads = re.findall(r"ld\.global\S*", result.build.ptx)
    assert loads
    if (a_order, b_order) == ("km", "kn"):  # whose first tile, too, is cut along whole vectors alone
        assert all(".v4.b32" in load for load in loads), loads
    assert sum(".v4.b32" in load for load in loads) >= 8
    wrong = file.source.replace("size % 8 == 0", "size % 4 == 0")
    assert refutations(prove_source(file.path, wrong, file.request))
    wrong = file.source.replace("return size // 8 * 8", "return size // 8 * 16")
    assert refutations(prove_source(file.path, wrong, file.request))


def test_offsets_beyond_32_bits():
    """A row stride at which 32 bits would wrap within one tile: the host says so, and the kernel is another one."""
    made = emitted(kernel())
    module = made.load()
    arrays = made.request.arrays((1, 32, 32, 32))
    *_, whole, wide = module.launch_arguments(**arrays)[1]
    assert (whole, wide) == (True, False)
    far = lg.kernels.Array((1, 32, 32), (0, 2**27, 1), "float16")
    *_, wide = module.launch_arguments(**{**arrays, "a": far})[1]
    assert wide


@pytest.mark.parametrize(("a_order", "b_order"), [("mk", "kn"), ("km", "nk")])
def test_the_kernel_of_wide_offsets(monkeypatch, a_order, b_order):
    """Executed on small arrays, since large ones would not fit; its offsets are 64 bits wide in the PTX."""
    file = emitted(kernel(a_order, b_order, out_dtype="float32"))
    module = file.load()
    own = module.launch_arguments

    def wide(*arrays, **named):
        grid, arguments = own(*arrays, **named)
        return grid, (*arguments[:-1], True)

    monkeypatch.setattr(module, "launch_arguments", wide)
    result = run_kernel(file, Launch((2, 33, 40, 50), inputs="integers", strides="padded"))
    assert result.passed
    assert result.max_abs_error == 0


def loop_of(**fields):
    file = emitted(lg.matmul(design="fast", **fields))
    return inspect(file, compile_kernel(file, "sm_70"))


@pytest.mark.parametrize(("a_order", "b_order"), [("mk", "kn"), pytest.param("km", "nk", marks=pytest.mark.sweep)])
def test_the_loop_of_the_large_tile(a_order, b_order):
    """Counts of the machine code, not of a model: no spill, and instructions per HMMA as the docs say."""
    found = loop_of(a_order=a_order, b_order=b_order)
    assert found.compiled.spill_stores == found.compiled.spill_loads == 0
    assert found.instructions_per_hmma <= 1.15
    assert found.occupied.blocks == 2


@pytest.mark.sweep
def test_what_the_large_tile_is_predicted_at():
    """All storage orders, and blocks in groups: within 2 % of each other."""
    rates = [loop_of(a_order=a, b_order=b).predict().mean for a, b in ORDERS]
    rates.append(loop_of(group_m=8).predict().mean)
    assert min(rates) > 0.98 * max(rates)
    assert min(rates) > 98


@pytest.mark.sweep
@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
@pytest.mark.parametrize(("block_m", "warps", "least"), [(64, "1x1", 80), (128, "2x1", 85)])
def test_what_small_tiles_are_predicted_at(block_m, warps, least, a_order, b_order):
    found = loop_of(block_m=block_m, block_n=64, block_k=16, warps=warps, a_order=a_order, b_order=b_order)
    assert not {"LDL", "STL"} & set(found.loop.opcodes)
    assert found.predict().mean > least


@pytest.mark.parametrize(("a_order", "b_order"), ORDERS)
def test_the_file_is_proved_as_it_stands(a_order, b_order):
    made = kernel(a_order, b_order)
    file = emitted(made)
    assert refutations(prove_source(file.path, file.source, file.request)) == ()
    wrong = file.source.replace("[0, 0, 1, 0],  # a0", "[0, 0, 2, 0],  # a0", 1)
    wrong = wrong.replace("[0, 0, 2, 0],  # a1", "[0, 0, 1, 0],  # a1", 1)
    assert wrong != file.source
    assert refutations(prove_source(file.path, wrong, file.request))


def test_the_request_survives_as_plain_data():
    for a_order, b_order in ORDERS:
        request = kernel(a_order, b_order).request
        assert request.as_dict()["design"] == "fast"
        assert request_from_dict(request.as_dict()) == request


def test_the_simple_design_stays_the_default():
    assert lg.matmul().request.design == "simple"
    assert "design" not in lg.matmul().request.as_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"design": "faster"}, "design 'faster': must be one of simple, fast"),
        ({"design": "simple", "a_order": "km"}, "matmul, design simple: takes no a_order; fast does"),
        ({"group_m": 0}, "group_m = 0: must be 1, the plain order, to 1024; the nearest is 1"),
        ({"group_m": 2**31}, "group_m = 2147483648: .* the nearest is 1024"),
        ({"accumulate": "chunk"}, "accumulate 'chunk': must be one of unit, tile"),
        ({"a_order": "kk"}, "a_order 'kk': must be one of mk, km"),
        ({"block_k": 8}, "block_k = 8: .* two whole vectors"),
        ({"block_m": 32, "warps": "2x2", "block_k": 16}, "block_m = 32: .* without a whole vector; .* is 64"),
        ({"atom": "m16n8k8"}, "has no form of it"),
        ({"block_n": 32, "warps": "1x2", "arrangement": "n2,m2"}, "block_n = 32: a thread holds 4 neighbours of b"),
    ],
)  # fmt: skip
def test_refused(fields, message):
    with pytest.raises(LayoutgenError, match=message):
        lg.matmul(**{"design": "fast", "block_m": 64, "block_n": 64, "block_k": 32, "warps": "2x2", **fields})


@pytest.mark.parametrize(
    ("strides", "wide"), [((2**25, 1), True), ((-(2**25), 1), True), ((2**25, -(2**25)), True), ((-64, 1), False)]
)
def test_offsets_are_wide_where_strides_are_far_from_0(strides, wide):
    file = emitted(kernel(block_m=64, block_n=64, block_k=32, warps="1x2"))
    arrays = file.request.arrays((1, 100, 70, 50))
    arrays["a"] = dataclasses.replace(arrays["a"], strides=(0, *strides))
    _, arguments = file.load().launch_arguments(**arrays)
    assert arguments[-1] is wide
