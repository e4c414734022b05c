"""Warps that share rows and divide the head dim, and a head dim of V of its own."""

import re

import numpy as np
import pytest

import layoutgen as lg
from layoutgen.cpu import launch as execute
from layoutgen.cpu import parse_ptx
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch
from layoutgen.execution.inputs import place
from layoutgen.kernels import request_from_dict
from layoutgen.proofs import refutations
from layoutgen.readback.source import prove_source
from layoutgen.toolchain import build_kernel
from tests.kernels.fast import check_run, emitted, kernel

# ---- the request


@pytest.mark.parametrize(
    ("options", "warps", "parts", "value_parts", "shared"),
    [
        ({"head_dim": 256}, (4, 2), (256,), (256,), 98304),
        ({"head_dim": 512}, (2, 4), (512,), (512,), 98304),
        ({"head_dim": 576, "v_head_dim": 512}, (1, 4), (512, 64), (512,), 71680),
        ({"head_dim": 192, "v_head_dim": 128}, (4, 1), (128, 64), (128,), 69632),
        ({"head_dim": 64, "v_head_dim": 128}, (4, 1), (64,), (128,), 28672),
        ({"head_dim": 320}, (2, 4), (256, 64), (256, 64), 61440),
        ({"head_dim": 200}, (4, 2), (256,), (256,), 98304),  # not 128 + 128: the partial sums have no room there
        ({"head_dim": 128, "v_head_dim": 256}, (2, 2), (128,), (256,), 40960),  # fewer rows than with a wide K
    ],
)
def test_what_a_request_that_names_nothing_gets(options, warps, parts, value_parts, shared):
    made = lg.attention(design="fast", **options)
    request = made.request
    assert (request.warps, request.parts, request.value_parts) == (warps, parts, value_parts)
    assert made.plan.shared_bytes == shared
    assert refutations(made.proofs) == ()
    assert request_from_dict(request.as_dict()) == request


@pytest.mark.parametrize("bias", [False, True])
def test_every_head_dim_has_a_kernel(bias):
    for head_dim in (16, 24, 40, 136, 193, 200, 208, 224, 240, 255, 257, 448, 640):
        assert sum(lg.attention(head_dim=head_dim, design="fast", bias=bias).request.parts) >= head_dim


def test_no_instruction_is_issued_twice():
    """Both products take rows x keys x columns, however many warps divide the columns."""
    for warps in (1, 2, 4):
        made = kernel(128, column_warps=warps)
        assert made.plan.instructions * made.request.num_warps == 2 * 32 * 16 * 128 // 1024


def test_what_does_not_fit_is_refused_with_numbers():
    with pytest.raises(LayoutgenError, match=r"shared memory a block: 131072 \(.*\) > 98304"):
        lg.attention(head_dim=1024, design="fast")
    with pytest.raises(LayoutgenError, match=r"shared memory a block: 106496 \(.*\) > 98304; the nearest .*block_n 16"):
        lg.attention(head_dim=576, v_head_dim=512, design="fast", block_m=32, block_n=32)
    with pytest.raises(LayoutgenError, match=r"head dim 2000: must lie in 16\.\.1024"):
        lg.attention(head_dim=2000, design="fast")
    with pytest.raises(LayoutgenError, match="partial sums: 8192 bytes of 4 warps; K and V have room for 2048"):
        kernel(64, column_warps=4)
    with pytest.raises(LayoutgenError, match=r"part 16 is not a power of two in 32\.\.1024; head dim 144"):
        kernel(144, split=(128, 16), column_warps=2)
    with pytest.raises(LayoutgenError, match="column_warps = 3: must be a power of two"):
        kernel(64, column_warps=3)
    with pytest.raises(LayoutgenError, match="v_split: V has the parts of Q and K"):
        kernel(64, v_split=(64,))
    with pytest.raises(LayoutgenError, match="v_split 64 covers 64 of head dim 80"):
        kernel(64, v_head_dim=80, v_split=(64,))
    with pytest.raises(LayoutgenError, match="design simple: takes no v_head_dim; fast does"):
        lg.attention(head_dim=64, v_head_dim=32)


def test_a_v_head_dim_that_is_that_of_q_is_no_feature():
    assert kernel(64, v_head_dim=64) == kernel(64)
    assert "v_head_dim" not in kernel(64).source


# ---- the file

DIVIDED = {"head_dim": 128, "column_warps": 2, "block_m": 64}


def test_a_file_is_proved_as_it_stands():
    for options in (DIVIDED, {**DIVIDED, "block_m": 32, "bias": True}, {"head_dim": 48, "v_head_dim": 80}):
        made = kernel(**options)
        assert refutations(prove_source(emitted(made).path, made.source, made.request)) == ()


def mutated(source, name, index):
    """The file with one basis of one literal replaced by that of its neighbour; the last ones are warps."""
    head, tail = source.split(f"\n{name} = ", 1)
    end = tail.index("\n)\n")
    body = tail[:end]
    bases = list(re.finditer(r"\[\d+, \d+\]", body.split("shape=")[0]))
    old, new = bases[index], bases[index - 1]
    return f"{head}\n{name} = {body[: old.start()]}{new.group()}{body[old.end() :]}{tail[end:]}"


@pytest.mark.parametrize(
    "name", ["MATRIX_S", "PARTIAL_S", "HALF_S", "WEIGHTS", "FRAGMENT_Q", "FRAGMENT_K", "FRAGMENT_V128", "MATRIX_O128"]
)
@pytest.mark.parametrize("index", [-1, 1])
def test_a_wrong_basis_in_a_file_is_refuted(name, index):
    made = kernel(**DIVIDED)
    wrong = mutated(made.source, name, index)
    assert wrong != made.source
    assert refutations(prove_source(emitted(made).path, wrong, made.request))


def test_a_wrong_buffer_of_the_sums_is_refuted():
    made = kernel(**DIVIDED)
    wrong = mutated(made.source, "BUFFER_S_LOW", 3)
    names = [verdict.obligation.name for verdict in refutations(prove_source(emitted(made).path, wrong, made.request))]
    assert "BUFFER_S_LOW is a bijection" in names


def test_sums_that_leave_their_part_of_the_buffer_are_refuted():
    """Of a head dim of 512 the partial sums take half of K's buffer: the first rows must be its first places."""
    made = lg.attention(head_dim=512, design="fast", block_m=32)
    head, tail = made.source.split("\nBUFFER_S = ", 1)
    literal, rest = tail.split("\n)\n", 1)
    bases = re.findall(r"\[\d+, \d+\]", literal)
    literal = literal.replace(f"{bases[-2]}, {bases[-1]}", f"{bases[-1]}, {bases[-2]}")
    found = prove_source(emitted(made).path, f"{head}\nBUFFER_S = {literal}\n)\n{rest}", made.request)
    assert "PARTIAL_S in BUFFER_S fills its buffer" in [verdict.obligation.name for verdict in refutations(found)]


@pytest.mark.parametrize("line", ["scores_high += s_buffer_high.slice(64", "s_buffer_low = k_buffer.reinterpret("])
def test_a_move_that_is_not_planned_is_refuted(line):
    made = kernel(**DIVIDED)
    number = next(i for i, text in enumerate(made.source.splitlines()) if line in text)
    lines = made.source.splitlines(keepends=True)
    lines[number] = lines[number].replace("slice(64", "slice(0").replace("BUFFER_S_LOW)", "BUFFER_S_HIGH)")
    assert refutations(prove_source(emitted(made).path, "".join(lines), made.request))


# ---- execution


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"head_dim": 64, "column_warps": 2, "causal": True}, (1, 2, 1, 37, 70, 64)),
        ({"head_dim": 32, "v_head_dim": 48}, (2, 2, 1, 35, 21, 32, 48)),
    ],
)
def test_against_float64(options, shape):
    check_run(kernel(**options), Launch(shape, inputs="nan"))


def test_a_barrier_that_is_missing_is_found():
    """Each barrier around the exchange is needed: without it the executor sees a race."""
    made = kernel(64, column_warps=2)
    arrays = place(made.request, Launch((1, 1, 1, 32, 48, 64)), np.random.default_rng(0))
    build = build_kernel(emitted(made), "sm_70", {name: placed.array for name, placed in arrays.items()})
    lines = build.ptx.splitlines()
    barriers = [number for number, text in enumerate(lines) if "bar.sync" in text]
    assert len(barriers) >= 5
    racy = []
    for number in barriers:
        text = "\n".join(line for i, line in enumerate(lines) if i != number)
        tensors = {name: placed.tensor(name) for name, placed in arrays.items()}
        values = [tensors.get(name, value) for name, value in build.arguments]
        report = execute(parse_ptx(text), build.grid, build.num_warps, values, shared_bytes=build.shared_bytes)
        racy.append(report.races > 0)
    assert sum(racy) >= 4, racy


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"head_dim": 256, "block_m": 128, "block_n": 32}, (1, 2, 1, 150, 70, 256)),
        ({"head_dim": 256, "block_m": 64, "bias": True, "causal": True}, (1, 2, 1, 70, 41, 256)),
        ({"head_dim": 160, "block_m": 64, "column_warps": 2}, (1, 1, 1, 65, 33, 160)),
        ({"head_dim": 200, "block_m": 64, "column_warps": 2, "sinks": True}, (1, 1, 1, 65, 33, 200)),
        ({"head_dim": 512}, (1, 2, 1, 33, 40, 512)),
        ({"head_dim": 512, "causal": True, "alignment": "bottom-right"}, (1, 2, 1, 40, 50, 512)),
        ({"head_dim": 576, "v_head_dim": 512}, (1, 2, 1, 33, 40, 576, 512)),
        ({"head_dim": 192, "v_head_dim": 128, "block_m": 128, "block_n": 32}, (1, 2, 1, 150, 70, 192, 128)),
        ({"head_dim": 64, "v_head_dim": 128}, (1, 2, 2, 40, 50, 64, 128)),
        ({"head_dim": 72, "v_head_dim": 40, "bias": True}, (1, 2, 1, 40, 50, 72, 40)),
        ({"head_dim": 128, "column_warps": 4}, (1, 2, 1, 40, 50, 128)),
    ],
)
@pytest.mark.parametrize("inputs", ["nan", "integers"])
def test_every_division_against_float64(options, shape, inputs):
    check_run(kernel(**options), Launch(shape, inputs=inputs, strides="padded"))
