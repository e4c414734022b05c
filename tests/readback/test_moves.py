"""The moves in the code: every literal of a reshape, permutation, slice or buffer counts."""

import re

import pytest

import layoutgen as lg
from layoutgen.emission import render
from layoutgen.kernels import AttentionRequest, MatmulRequest, Request
from layoutgen.readback.moves import lines, prove_checks, prove_moves

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
    assert len(list(lines(source))) > 20


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
    assert "permute([0, 1, 2])`; the plan has `a_tile = " in str(verdict)


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
TILE = lg.matmul(design="fast", accumulate="tile").request
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
    (SIMPLE, "def mma(accumulator, a, b)", "def mma(accumulator, b, a)"),
    (FAST, "    far = partner(near)\n", "    far = near if True else near\n"),
    (FAST, "    far = partner(near)\n", "    far = partner(near)\n    far: gl.tensor = near\n"),
    (FAST, "    row_sum += sums(weights)", "    sums(weights)"),
    (FAST, "row ^ ", "column ^ "),
    (FAST, "other=0.0", "other=1.0"),
    (FAST, "    batch = gl.program_id(2)", "    batch = gl.num_programs(2) - 1 - gl.program_id(2)"),
    (PRODUCT, "size // 8 * 8", "size // 16 * 16"),
    (PRODUCT, "    if vectors:", "    if True:"),
    (PRODUCT, "    x = gl.convert_layout(", "    row = row ^ 1\n    x = gl.convert_layout("),
    (TILE, "{$16, $18}, {$24, $26}", "{$24, $26}, {$16, $18}"),
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


HOST = [
    (FAST, "    strides = [array.stride(dim)", "    strides = [0 * array.stride(dim)"),
    (FAST, "    grid = (", "    t_k -= 1\n    grid = ("),
    (FAST, "    grid = (", "    for t_k in (t_k - 1,):\n        pass\n    grid = ("),
    (FAST, "    grid = (", "    print((t_k := t_k // 2))\n    grid = ("),
    (FAST, "        if tuple(array.shape) != shape:", "        continue\n        if tuple(array.shape) != shape:"),
    (FAST, "    if all(grid):", "    if grid[0] > 1:"),
    (FAST, "kernel[grid](", "kernel[grid[::-1]]("),
    (PRODUCT, "    whole = ", "    vectors |= True\n    whole = "),
    (PRODUCT, "((a, (-2, -1))", "((a, (-1, -2))"),
]


@pytest.mark.parametrize(("request_", "old", "new"), HOST)
def test_what_the_host_does_before_a_launch_counts(request_: Request, old: str, new: str) -> None:
    source = render(request_)
    assert old in source, f"{old} is not in the file"
    assert not prove_checks(source.replace(old, new, 1), source).holds


def test_a_check_counts_where_it_stands() -> None:
    source = render(FAST)
    check = "    if heads > 65535 or batch > 65535:\n"
    start = source.index(check)
    stop = source.index("\n", start + len(check)) + 1
    gone = source[:start] + source[stop:]
    end = gone.index("\n", gone.index("    return grid, (")) + 1
    late = gone[:end] + source[start:stop] + gone[end:]
    assert "it does not have: if heads > 65535" in str(prove_checks(gone, source))
    assert "it has in another order: " in str(prove_checks(late, source))
    more = source.replace("    grid = (", "    if t_q < 0:\n        raise ValueError(t_q)\n    grid = (", 1)
    assert prove_checks(more, source).holds


def test_a_statement_that_is_gone_or_new() -> None:
    kernel = "@gluon.jit\ndef f(x):\n    x = x.reshape([2, 2])\n"
    longer = kernel + "    return x.permute([1, 0])\n"
    assert "only the plan has `return x.permute([1, 0])`" in str(prove_moves(kernel, longer))
    assert "only the file has `return x.permute([1, 0])`" in str(prove_moves(longer, kernel))
    assert (
        "f has `x = x.reshape([2, 2])`; the plan has `x = x.reshape([2, 2])` in f, if"
        in str(
            prove_moves(
                kernel, kernel.replace("    x = x", "    if x:\n        x = x").replace("def f(x):\n", "def f(x):\n")
            )
        )
        or not prove_moves(kernel, longer).holds
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
