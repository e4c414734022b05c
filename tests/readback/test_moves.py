"""The moves in the code: every literal of a reshape, permutation, slice or buffer counts."""

import re

import pytest

import layoutgen as lg
from layoutgen.emission import render
from layoutgen.kernels import AttentionRequest, MatmulRequest, Request
from layoutgen.readback.moves import moves, prove_checks, prove_moves

REQUESTS = (
    MatmulRequest(atom="m8n8k4", block_m=64, block_n=64, block_k=32, warps=(2, 2)),
    AttentionRequest(head_dim=40, atom="m8n8k4", block_m=64, block_n=32),
)
LITERAL = re.compile(r"\.(?:reshape|permute|slice)\((.*?\d)[\])]|static_range\((\d+)\)|float16, \[(\d+), \d+\]")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.family)
def test_what_is_emitted_is_proved(request_: MatmulRequest | AttentionRequest) -> None:
    source = render(request_)
    verdict = prove_moves(source, source)
    assert verdict.holds
    assert verdict.obligation.claim == 5
    assert len(list(moves(source))) > 20


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.family)
def test_every_number_in_a_move_counts(request_: MatmulRequest | AttentionRequest) -> None:
    source = render(request_)
    start = source.index("@gluon.jit")
    stop = source.index("def launch_arguments")
    edits = 0
    # Every third: each edit parses the file twice.
    for match in list(LITERAL.finditer(source, start, stop))[::3]:
        group = next(i for i in (1, 2, 3) if match.group(i))
        last = list(re.finditer(r"\d+", source[match.start(group) : match.end(group)]))[-1]
        at = match.start(group) + last.start()
        end = match.start(group) + last.end()
        edited = source[:at] + str(int(source[at:end]) * 2 + 1) + source[end:]
        verdict = prove_moves(edited, source)
        assert not verdict.holds, source[match.start() : match.end()]
        edits += 1
    assert edits > 5


def test_the_witness_names_both_moves() -> None:
    source = render(REQUESTS[0])
    edited = source.replace("permute([1, 0, 2])", "permute([0, 1, 2])", 1)
    verdict = prove_moves(edited, source)
    assert "permute([0, 1, 2]); the plan has " in str(verdict)


@pytest.mark.parametrize(
    ("old", "new"), [("pack=8", "pack=4"), ("{$8, $9}", "{$9, $8}"), ("max_phase=1", "max_phase=4")]
)
def test_the_instruction_and_the_buffer_count(old: str, new: str) -> None:
    for request in REQUESTS:
        source = render(request)
        assert not prove_moves(source.replace(old, new, 1), source).holds


SIMPLE = AttentionRequest(head_dim=96, atom="m8n8k4", block_m=64, block_n=32)
FAST = lg.attention(head_dim=96, design="fast").request
PRODUCT = lg.matmul(design="fast").request
CHOICES = [
    (SIMPLE, "k_buffer0.slice", "v_buffer0.slice"),
    (SIMPLE, "k_buffer0.store(key0", "v_buffer0.store(key0"),
    (SIMPLE, "q_buffer1.slice", "q_buffer0.slice"),
    (FAST, "operand_p64(near)", "operand_p64(far)"),
    (FAST, "    output0 = mma_o(output0, operand_p64(far), operand_v64(fragment))\n", ""),
    (FAST, "k_buffer0.slice", "k_buffer1.slice"),
    (FAST, "operand_k(key_high)", "operand_k(key_low)"),
    (FAST, "operand_q(query_low), operand_k(key_low)", "operand_k(key_low), operand_q(query_low)"),
    (FAST, "return output0, output1", "return output1, output0"),
    (FAST, "row_max = new_max", "row_max = row_sum"),
    (FAST, "gl.barrier()", "pass"),
    (PRODUCT, "fetch_b(b_words1, 0", "fetch_b(b_words0, 0"),
    (PRODUCT, "fetch_a(a_words0, 1, 0)", "fetch_a(a_words0, 0, 0)"),
    (PRODUCT, "        product0 = multiply(product0, a0, a1, b0, b1)\n", ""),
    (PRODUCT, "a0, a1 = next_a0, next_a1", "a0, a1 = next_a1, next_a0"),
    (PRODUCT, "    if more % 2 == 1:\n        a_tile", "    if True:\n      if more % 2 == 1:\n        a_tile"),
]


@pytest.mark.parametrize(("request_", "old", "new"), CHOICES)
def test_what_is_taken_and_where_it_goes_counts(request_: Request, old: str, new: str) -> None:
    source = render(request_)
    assert old in source, f"{old} is not in the file"
    assert not prove_moves(source.replace(old, new, 1), source).holds


@pytest.mark.parametrize(
    ("request_", "old", "new"),
    [
        (SIMPLE, "query.to(gl.float32) * scale", "scale * query.to(gl.float32)"),
        (FAST, "gl.exp2(row_max - new_max)", "gl.exp2(-(new_max - row_max))"),
    ],
)
def test_arithmetic_is_no_move(request_: Request, old: str, new: str) -> None:
    source = render(request_)
    assert old in source, f"{old} is not in the file"
    assert prove_moves(source.replace(old, new, 1), source).holds


def test_a_move_that_is_gone_or_new() -> None:
    emitted = "def f(x):\n    return x.reshape([2, 2]).permute([1, 0])\n"
    shorter = "def f(x):\n    return x.reshape([2, 2])\n"
    assert "the plan has x.reshape([2, 2]).permute([1, 0])" in str(prove_moves(shorter, emitted))
    assert "f has x.reshape([2, 2]).permute([1, 0])" in str(prove_moves(emitted, shorter))
    longer = emitted + "def g(x):\n    return f(x)\n"
    assert "only the file has return f(x)" in str(
        prove_moves(longer, emitted.replace("f(x)", "f(x)", 1) + "def g(x):\n    f(x)\n")
    )


@pytest.mark.parametrize(
    ("request_", "old", "new"),
    [
        (REQUESTS[0], "k_b != k or ", ""),
        (REQUESTS[0], "!= (m, n)", "!= (n, m)"),
        (REQUESTS[0], "grid[1] > 65535", "grid[1] > 65536"),
        (REQUESTS[1], "tuple(array.shape) != shape", "len(array.shape) != len(shape)"),
        (REQUESTS[1], '("v", v, (batch, kv_heads, t_k, head_dim))', '("v", v, (batch, heads, t_k, head_dim))'),
        (REQUESTS[1], "heads % kv_heads", "heads < kv_heads"),
    ],
)
def test_every_check_of_the_host_function_counts(
    request_: MatmulRequest | AttentionRequest, old: str, new: str
) -> None:
    source = render(request_)
    verdict = prove_checks(source, source)
    assert verdict.holds
    assert verdict.obligation.claim == 6
    assert old in source
    wrong = prove_checks(source.replace(old, new), source)
    assert not wrong.holds
    assert "it does not have: " in str(wrong)
