"""Integer and logic instructions against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from layoutgen.cpu import UnsupportedInstructionError
from tests.cpu.conftest import run_snippet

EDGES = [0, 1, 2, 3, 5, 7, 31, 32, 33, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
A, B = (list(x) for x in zip(*[(a, b) for a in EDGES for b in EDGES], strict=True))
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def check(body: str, function: Callable[[int, int], int], out: str = "b32", skip_zero: bool = False) -> None:
    pairs = [(a, b) for a, b in zip(A, B, strict=True) if b or not skip_zero]
    got = run_snippet(body, [np.array([p[i] for p in pairs], np.uint32) for i in range(2)], out)
    mask = (1 << int(out[1:])) - 1
    for (a, b), g in zip(pairs, got, strict=True):
        assert int(g) == function(a, b) & mask, f"{body} of {a:#x}, {b:#x}: {int(g):#x}"


BINARY: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.lo.u32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.s32": lambda a, b: max(signed(a), signed(b)),
    "min.u32": min,
    "max.u32": max,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "shl.b32": lambda a, b: a << min(b, 32),
    "shr.u32": lambda a, b: a >> min(b, 32),
    "shr.b32": lambda a, b: a >> min(b, 32),
    "shr.s32": lambda a, b: signed(a) >> min(b, 31),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    check(f"{name} %o0, %i0, %i1;", BINARY[name])


DIVISION: dict[str, Callable[[int, int], int]] = {
    "div.u32": lambda a, b: a // b,
    "rem.u32": lambda a, b: a % b,
    "div.s32": lambda a, b: quotient(signed(a), signed(b)),
    "rem.s32": lambda a, b: signed(a) - signed(b) * quotient(signed(a), signed(b)),
}


@pytest.mark.parametrize("name", DIVISION)
def test_division_rounds_toward_zero(name: str) -> None:
    check(f"{name} %o0, %i0, %i1;", DIVISION[name], skip_zero=True)


def test_wide_products() -> None:
    check("mul.wide.u32 %o0, %i0, %i1;", lambda a, b: a * b, "b64")
    check("mul.wide.s32 %o0, %i0, %i1;", lambda a, b: signed(a) * signed(b), "b64")
    check("mov.b64 %w0, -5; mad.wide.s32 %o0, %i0, %i1, %w0;", lambda a, b: signed(a) * signed(b) - 5, "b64")
    check("mad.lo.s32 %o0, %i0, %i1, %i1;", lambda a, b: a * b + b)
    check("mad.hi.u32 %o0, %i0, %i1, %i0;", lambda a, b: (a * b >> 32) + a)


WIDE = [0, 1, 3, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, M64, 0x123456789ABCDEF0]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add.s64", lambda a, b: a + b),
        ("sub.s64", lambda a, b: a - b),
        ("mul.lo.s64", lambda a, b: a * b),
        ("mul.hi.u64", lambda a, b: a * b >> 64),
        ("mul.hi.s64", lambda a, b: signed(a, 64) * signed(b, 64) >> 64),
        ("max.s64", lambda a, b: max(signed(a, 64), signed(b, 64))),
        ("min.u64", min),
        ("xor.b64", lambda a, b: a ^ b),
    ],
)
def test_64_bits(name: str, function: Callable[[int, int], int]) -> None:
    pairs = [(a, b) for a in WIDE for b in WIDE]
    got = run_snippet(f"{name} %o0, %i0, %i1;", [np.array([p[i] for p in pairs], np.uint64) for i in (0, 1)], "b64")
    for (a, b), g in zip(pairs, got, strict=True):
        assert int(g) == function(a, b) & M64, f"{name} of {a:#x}, {b:#x}"


def test_16_bits() -> None:
    pairs = [(a, b) for a in (0, 1, 3, 0x7FFF, 0x8000, 0xFFFF) for b in (1, 2, 0x7FFF, 0xFFFF)]
    inputs = [np.array([p[i] for p in pairs], np.uint16) for i in (0, 1)]
    got = run_snippet("mul.wide.s16 %o0, %i0, %i1;", inputs)
    assert [int(g) for g in got] == [signed(a, 16) * signed(b, 16) & M32 for a, b in pairs]
    got = run_snippet("add.s16 %o0, %i0, %i1;", inputs, "b16")
    assert [int(g) for g in got] == [a + b & 0xFFFF for a, b in pairs]


UNARY: dict[str, Callable[[int], int]] = {
    "not.b32": lambda a: ~a,
    "cnot.b32": lambda a: int(a == 0),
    "neg.s32": lambda a: -a,
    "abs.s32": lambda a: abs(signed(a)),
    "clz.b32": lambda a: 32 - a.bit_length(),
    "popc.b32": lambda a: bin(a).count("1"),
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    got = run_snippet(f"{name} %o0, %i0;", [np.array(EDGES, np.uint32)])
    assert [int(g) for g in got] == [UNARY[name](a) & M32 for a in EDGES]


def _fields() -> list[tuple[int, int, int]]:
    return [
        (a, p, n) for a in (0x12345678, 0xDEADBEEF, 0x80000001) for p in (0, 4, 31, 32, 40) for n in (0, 1, 5, 32, 40)
    ]


def test_bit_field_extract() -> None:
    cases = _fields()
    inputs = [np.array([c[i] for c in cases], np.uint32) for i in range(3)]
    got = run_snippet("bfe.u32 %o0, %i0, %i1, %i2;", inputs)
    for (a, p, n), g in zip(cases, got, strict=True):
        assert int(g) == (a >> p) & ((1 << n) - 1) & M32, (a, p, n)
    got = run_snippet("bfe.s32 %o0, %i0, %i1, %i2;", inputs)
    for (a, p, n), g in zip(cases, got, strict=True):
        sign = 0 if n == 0 else a >> min(p + n - 1, 31) & 1  # the ISA's pseudo-code, bit by bit
        bits = sum((a >> p + i & 1 if i < n and p + i < 32 else sign) << i for i in range(32))
        assert int(g) == bits, (a, p, n)


def test_bit_field_insert() -> None:
    cases = _fields()
    inputs = [np.array([c[i] for c in cases], np.uint32) for i in range(3)]
    got = run_snippet("mov.b32 %x0, 0x0F0F3355; bfi.b32 %o0, %i0, %x0, %i1, %i2;", inputs)
    for (a, p, n), g in zip(cases, got, strict=True):
        want = 0x0F0F3355
        for i in range(n):
            if p + i < 32:
                want = want & ~(1 << p + i) | (a >> i & 1 if i < 32 else 0) << p + i
        assert int(g) == want, (a, p, n)


@pytest.mark.parametrize("selector", [0x3210, 0x7654, 0x5410, 0x7632, 0x0123, 0x4567, 0x2222, 0xF8A1, 0x9BDF])
def test_permute(selector: int) -> None:
    a, b = 0x80123456, 0x89ABFEDC
    data = [(b << 32 | a) >> 8 * i & 0xFF for i in range(8)]
    want = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = data[nibble & 7]
        want |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * i
    inputs = [np.array([v], np.uint32) for v in (a, b, selector)]
    assert int(run_snippet(f"prmt.b32 %o0, %i0, %i1, {selector};", inputs[:2])[0]) == want
    assert int(run_snippet("prmt.b32 %o0, %i0, %i1, %i2;", inputs)[0]) == want


@pytest.mark.parametrize("table", [0x00, 0xFF, 0xE8, 0x96, 0xCA, 0x80, 0xFE])
def test_lop3(table: int) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    got = run_snippet(f"lop3.b32 %o0, %i0, %i1, %i2, {table};", [a, b, c])
    for x, y, z, g in zip(a, b, c, got, strict=True):
        want = sum(
            (table >> ((int(x) >> i & 1) * 4 + (int(y) >> i & 1) * 2 + (int(z) >> i & 1)) & 1) << i for i in range(32)
        )
        assert int(g) == want


@pytest.mark.parametrize("amount", [0, 1, 17, 31, 32, 40])
def test_funnel_shift(amount: int) -> None:
    low, high = 0x89ABCDEF, 0x12345678
    inputs = [np.array([v], np.uint32) for v in (low, high)]
    both = high << 32 | low
    for mode, n in (("wrap", amount & 31), ("clamp", min(amount, 32))):
        left = run_snippet(f"shf.l.{mode}.b32 %o0, %i0, %i1, {amount};", inputs)
        right = run_snippet(f"shf.r.{mode}.b32 %o0, %i0, %i1, {amount};", inputs)
        assert int(left[0]) == both << n >> 32 & M32
        assert int(right[0]) == both >> n & M32


def test_predicate_logic() -> None:
    a, b = np.array([0, 0, 1, 1], np.uint32), np.array([0, 1, 0, 1], np.uint32)
    setup = "setp.ne.b32 %q0, %i0, 0; setp.ne.b32 %q1, %i1, 0;"
    for name, want in (("and", [0, 0, 0, 1]), ("or", [0, 1, 1, 1]), ("xor", [0, 1, 1, 0])):
        got = run_snippet(f"{setup} {name}.pred %q2, %q0, %q1; selp.b32 %o0, 1, 0, %q2;", [a, b])
        assert got.tolist() == want
    got = run_snippet(f"{setup} not.pred %q2, %q0; and.pred %q2, %q2, !%q1; selp.b32 %o0, 1, 0, %q2;", [a, b])
    assert got.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    ["add.sat.s32 %o0, %i0, %i0", "add.cc.u32 %o0, %i0, %i0", "mul.s32 %o0, %i0, %i0", "sad.u32 %o0, %i0, %i0, %i0",
     "add.s32 %o0, %i0", "dp4a.u32.u32 %o0, %i0, %i0, %i0", "mul24.lo.s32 %o0, %i0, %i0", "add.s64 %o0, %i0, %i0"],
)  # fmt: skip
def test_unknown_forms_name_themselves(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError) as caught:
        run_snippet(f"{text};", [np.zeros(1, np.uint32)])
    assert str(caught.value).startswith(f"unsupported: {text}")
