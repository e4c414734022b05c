"""Claim 6 of emitted files: proved as emitted, refuted for every edited constant and bound."""

import re

import pytest

from layoutgen.emission import render
from layoutgen.kernels import AttentionRequest, MatmulRequest, Request
from layoutgen.readback.masks import prove_masks
from layoutgen.readback.polynomial import Polynomial

MATMUL = MatmulRequest(atom="m8n8k4", block_m=64, block_n=64, block_k=32, warps=(2, 2))
ATTENTION = AttentionRequest(head_dim=72, atom="m8n8k4", block_m=64, block_n=32, bias=True)
REQUESTS: list[Request] = [
    MATMUL,
    MatmulRequest(atom="m8n8k4", block_m=128, block_n=64, block_k=16, warps=(4, 1), b_order="nk"),
    ATTENTION,
    *(AttentionRequest(head_dim=d, atom="m8n8k4", block_m=64, block_n=32) for d in (16, 40, 80, 96, 128, 250)),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: f"{r.family}{getattr(r, 'head_dim', '')}")
def test_what_is_emitted_is_proved(request_: Request) -> None:
    verdicts = prove_masks(render(request_), request_)
    assert all(verdict.holds for verdict in verdicts), [str(v) for v in verdicts if not v.holds]
    assert {verdict.obligation.claim for verdict in verdicts} == {6}
    assert len(verdicts) == {"matmul": 3, "attention": 5}[request_.family] + getattr(request_, "bias", False)


def refuted(request: Request, old: str, new: str, count: int = 1) -> list[str]:
    """Edit the file and return what the refutations say."""
    source = render(request)
    assert old in source, f"{old} is not in the file"
    edited = source.replace(old, new, count)
    return [f"{v.basis}: {v.witness}" for v in prove_masks(edited, request) if not v.holds]


MATMUL_EDITS = [
    ("gl.program_id(0).to(gl.int64) * 64", "gl.program_id(0).to(gl.int64) * 32", "row 32.* cannot be followed"),
    ("gl.program_id(0).to(gl.int64) * 64", "gl.program_id(0).to(gl.int64) * 128", "m = 65, .*row 64, k 0. is missed"),
    ("gl.program_id(1)", "gl.program_id(0)", "n = 65: .*column 64. is missed"),
    ("range(0, k, 32)", "range(0, k, 64)", "k = 33, .*k 32. is missed"),
    ("range(0, k, 32)", "range(32, k, 32)", "k = 1, .*k 0. is missed"),
    ("range(0, k, 32)", "range(0, k - 31, 32)", "k = 1, .*k 0. is missed"),
    ("-(-m // 64)", "m // 64", "m = 1, .*row 0, k 0. is missed"),
    ("-(-m // 64)", "-(-m // 128)", "m = 65, .*row 64, k 0. is missed"),
    ("-(-m // 64), -(-n // 64)", "-(-n // 64), -(-m // 64)", "n = 65: .*column 64. is missed"),
    ("mask=(a_row < m) & ", "mask=", "m = 1, n = 1, 1 lies outside and is touched"),
    ("a_row < m", "a_row <= m", "m = 1, n = 1, 1 lies outside and is touched"),
    ("a_row < m", "a_row < n", "m = 1, n = 2, 1 lies outside and is touched"),
    ("first_k + a_k < k", "a_k < k", "k = 33, .* 33 lies outside and is touched"),
    ("(c_row < m) & (c_column < n)", "(c_row < m)", "n = 1, 1 lies outside and is touched"),
    ("a_row * stride_am", "a_row * stride_ak", "k = 1, m = 2, n = 1, 1 lies outside and is touched"),
    ("m, k = a.shape[-2:]", "k, m = a.shape[-2:]", "k stands for the dim of a that has m"),
]


@pytest.mark.parametrize(("old", "new", "message"), MATMUL_EDITS)
def test_every_edit_of_matmul_is_refuted(old: str, new: str, message: str) -> None:
    found = refuted(MATMUL, old, new)
    assert found
    assert re.search(message, "\n".join(found)), found


ATTENTION_EDITS = [
    (
        "first_query = gl.program_id(0) * 64",
        "first_query = gl.program_id(0) * 32",
        "query 32, .* cannot be followed",
    ),
    ("queries = t_q - first_query", "queries = t_q", "t_q = 65, 65 lies outside and is touched"),
    ("keys = t_k - first_key", "keys = t_k - first_key + 1", "t_k = 1, t_q = 1, 1 lies outside and is touched"),
    ("range(0, t_k, 32)", "range(0, t_k, 64)", "t_k = 33, .*key 32.* is missed"),
    ("range(0, t_k, 32)", "range(0, t_q, 32)", "t_k = 33, t_q = 1, .*key 32.* is missed"),
    ("column < 72", "column < 80", "72 lies outside and is touched"),
    ("column < 72", "column < 64", "head dim 64. is missed"),
    ("inside = row < rows", "inside = row <= rows", "t_q = 1, 1 lies outside and is touched"),
    ("gl.program_id(1) // group", "gl.program_id(1)", "heads = 2, kv_heads = 1, .* 1 lies outside and is touched"),
    ("heads % kv_heads", "heads < kv_heads", "cannot be followed"),
    ("visible & (row[:, None] < queries)", "visible", "t_q = 1, 1 lies outside and is touched"),
    ("stride_kt, stride_kd, keys, 32, 0, 64", "stride_kt, stride_kd, keys, 32, 0, 32", "head dim 32. is missed"),
    ("mask=row < queries", "mask=row < t_q", "t_q = 65, 65 lies outside and is touched"),
    (
        "(-(-t_q // 64), heads, batch)",
        "(-(-t_q // 64), batch, heads)",
        "cannot be followed",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), ATTENTION_EDITS)
def test_every_edit_of_attention_is_refuted(old: str, new: str, message: str) -> None:
    found = refuted(ATTENTION, old, new)
    assert found
    assert re.search(message, "\n".join(found)), found


LOOP = "    for first_k in range(0, k, 32):\n"
BODY = """        a_tile = gl.load(a + first_k * stride_ak, mask=(a_row < m){mask_a}, other=0.0)
        b_tile = gl.load(b + first_k * stride_bk, mask=(b_column < n){mask_b}, other=0.0)
"""


def with_loads(*loops: tuple[str, bool]) -> str:
    """Return a matmul whose loads stand in these loops (or blocks), masked along k or not."""
    source = render(MATMUL)
    start = source.index(LOOP)
    stop = source.index("    matrix = to_matrix_c")
    text = ""
    for head, masked in loops:
        a, b = (" & (first_k + a_k < k)", " & (first_k + b_k < k)") if masked else ("", "")
        text += f"    {head}\n" + BODY.format(mask_a=a, mask_b=b)
    return source[:start] + text + source[stop:]


WHOLE_TILES = "for first_k in range(0, k // 32 * 32, 32):"
FIRST = "if k:\n        first_k = 0"
FEWER = "for t in range(0, gl.maximum(k // 32 - 1, 0)):\n        first_k = (t + 1) * 32"
REST = "for t in range(gl.maximum(k // 32 - 1, 0), gl.cdiv(k, 32)):\n        first_k = (t + 1) * 32"
PEELED = [
    ([(FIRST, True), (FEWER, False), (REST, True)], True),
    ([(FIRST, True), (FEWER, False), (REST, False)], False),
    ([(FIRST, True), (FEWER, False)], False),
    ([(FIRST, True), (FEWER.replace("- 1", ""), False), (REST, True)], False),
    ([(FIRST, True), (FEWER, False), (REST.replace("gl.cdiv(k, 32)", "k // 32"), True)], True),
    ([(FIRST, True), (FEWER, False), (REST.replace("gl.cdiv(k, 32)", "k // 64"), True)], False),
    (
        [(WHOLE_TILES, False), ("for first_k in range(k // 32 * 32, k, 32):", True)],
        True,
    ),
    ([(WHOLE_TILES, False), ("if k:\n        first_k = k // 32 * 32", True)], True),
    ([("if k:\n        first_k = 0", True), ("for first_k in range(32, k, 32):", True)], True),
    ([("for t in range(0, gl.cdiv(k, 32)):\n        first_k = t * 32", True)], True),
    (
        [
            ("for t in range(0, gl.cdiv(k, 32) - 1):\n        first_k = t * 32", False),
            ("if k:\n        first_k = gl.cdiv(k, 32) * 32 - 32", True),
        ],
        True,
    ),
    ([(WHOLE_TILES, False)], False),
    ([(WHOLE_TILES, False), ("if k:\n        first_k = k // 64 * 64", True)], False),
    ([("if k:\n        first_k = 0", True), ("for first_k in range(64, k, 32):", True)], False),
]


@pytest.mark.parametrize(("loops", "whole"), PEELED)
def test_loads_in_several_loops_are_taken_together(loops: list[tuple[str, bool]], whole: bool) -> None:
    verdicts = {v.obligation.name: v for v in prove_masks(with_loads(*loops), MATMUL)}
    found = {verdict.holds for name, verdict in verdicts.items() if "of c" not in name}
    assert found == {whole}, [str(v) for v in verdicts.values()]


@pytest.mark.parametrize("place", ["    return grid", "    grid = ("])
def test_a_refusal_is_a_fact_where_it_stands_before_the_return(place: str) -> None:
    """Of no rows nothing can be touched: true behind a refusal of any, and not behind one that is never reached."""
    source = render(MATMUL).replace("mask=(c_row < m) & ", "mask=", 1)
    refusal = "    if m > 0:\n        raise ValueError\n"
    line = next(line for line in source.splitlines(keepends=True) if line.startswith(place))
    edited = source.replace(line, line + refusal if "return" in place else refusal + line)
    stored = next(v for v in prove_masks(edited, MATMUL) if v.obligation.name == "stores of c cover it")
    assert stored.holds == ("grid" in place and "return" not in place)


def test_what_is_passed_is_read_off_the_return_that_is_reached() -> None:
    source = render(MATMUL)
    line = next(line for line in source.splitlines(keepends=True) if line.startswith("    return grid, ("))
    wrong = line.replace("m, n, k", "n, m, k")
    assert wrong != line
    assert all(verdict.holds for verdict in prove_masks(source.replace(line, line + wrong), MATMUL))
    assert not all(verdict.holds for verdict in prove_masks(source.replace(line, wrong + line), MATMUL))


def test_a_load_that_is_gone_is_missed() -> None:
    source = render(MATMUL)
    edited = re.sub(r"gl\.store\(c, [^\n]*", "pass", source)
    found = [str(v) for v in prove_masks(edited, MATMUL) if not v.holds]
    assert len(found) == 1
    assert "at basis c: no load or store of it is found" in found[0]


def test_an_opaque_address_is_reported() -> None:
    found = refuted(MATMUL, "gl.load(a + offset * stride_ak", "gl.load(unknown(a)")
    assert any("the address of this unknown cannot be followed" in text for text in found)
    skipped = refuted(MATMUL, "gl.program_id(0).to(gl.int64) * 64", "gl.program_id(0).to(gl.int64) * 32")
    assert any(": not followed: whether " in text for text in skipped)
    assert refuted(MATMUL, "def matmul_kernel(", "def other_kernel(") == ["the file: has no function matmul_kernel"]


def test_what_a_loop_carries_is_not_taken_for_granted() -> None:
    """A pointer that the body moves has another value in each iteration; how far it moves must be known."""
    old, moves = "offset = first_k.to(gl.int64)", "offset = first_k.to(gl.int64); a += "
    assert any("m = 1, n = 1, 1 lies outside" in text for text in refuted(MATMUL, old, moves + "stride_am"))
    assert any("cannot be followed" in text for text in refuted(MATMUL, old, moves + "first_k * stride_am"))


@pytest.mark.parametrize(
    ("turn", "holds"), [("(((column >> 4) & 1) * 4)", True), ("(((column >> 4) & 1) * 32)", False), ("column", False)]
)
def test_rows_in_another_order_are_the_same_rows(turn: str, holds: bool) -> None:
    """Exclusive or with something that stays below the number of rows permutes them; otherwise it is not followed."""
    request = AttentionRequest(head_dim=64, atom="m8n8k4", block_m=64, block_n=32)
    source = render(request)
    old = "    inside = row < rows"
    assert old in source
    edited = source.replace(old, f"    row = row ^ {turn}\n{old}", 1)
    assert all(v.holds for v in prove_masks(edited, request)) == holds


# ---- polynomials


def test_polynomials_add_and_multiply() -> None:
    x, y, two = Polynomial.symbol("x"), Polynomial.symbol("y"), Polynomial.constant(2)
    assert (x + y) * (x - y) == x * x - y * y
    assert (x + two) * two == x + x + two + two
    assert (x - x) == Polynomial.constant(0)
    assert (x - x).value == 0
    assert (x + two).value is None
    assert (x * y * two + y).by("y") == two * x + Polynomial.constant(1)
    assert str(x * y * two + two) == "2 + 2 x y"
    assert str(x - x) == "0"
