"""Floating-point instructions and comparisons."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from layoutgen.cpu import UnsupportedInstructionError
from tests.cpu.conftest import run_snippet
from tests.cpu.test_rounding import _ties, check_fma

SPECIAL = np.array(
    [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x00000001,
     0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x40490FDB, 0xC2F60000, 0x3EAAAAAB],
    np.uint32,
)  # fmt: skip
A = np.repeat(SPECIAL, SPECIAL.size).view(np.float32)
B = np.tile(SPECIAL, SPECIAL.size).view(np.float32)
NAN = 0x7FFFFFFF


def same(got: Any, want: Any) -> None:
    """Equal as bits, every NaN being the GPU's."""
    want = np.asarray(want, got.dtype)
    unsigned = {2: np.uint16, 4: np.uint32}[got.dtype.itemsize]
    bits = np.where(np.isnan(want), unsigned((1 << 8 * got.dtype.itemsize - 1) - 1), want.view(unsigned))
    wrong = np.flatnonzero(got.view(unsigned) != bits)
    assert not wrong.size, f"element {wrong[0]}: {got[wrong[0]]!r}, not {want[wrong[0]]!r}"


def flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("suffix", [".f32", ".rn.f32", ".ftz.f32"])
def test_arithmetic(name: str, suffix: str) -> None:
    got = run_snippet(f"{name}{suffix} %o0, %i0, %i1;", [A, B], "f32")
    with np.errstate(all="ignore"):
        a, b = (flushed(A), flushed(B)) if "ftz" in suffix else (A, B)
        want = getattr(operator, name)(a, b)
        same(got, flushed(want) if "ftz" in suffix else want)


def test_saturation() -> None:
    got = run_snippet("add.sat.f32 %o0, %i0, %i1;", [A, B], "f32")
    with np.errstate(all="ignore"):
        total = A + B
    want = np.where(np.isnan(total), 0, np.clip(total, 0, 1)).astype(np.float32)
    assert (got == want).all()
    assert not np.signbit(got).any()


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_prefer_numbers_and_order_zeros(name: str) -> None:
    got = run_snippet(f"{name}.f32 %o0, %i0, %i1;", [A, B], "f32")
    for a, b, g in zip(A, B, got, strict=True):
        if np.isnan(a) or np.isnan(b):
            want = b if np.isnan(a) else a
        elif a == b:
            negative = (np.signbit(a) and np.signbit(b)) if name == "max" else (np.signbit(a) or np.signbit(b))
            want = -abs(a) if negative else abs(a)
        else:
            want = max(a, b) if name == "max" else min(a, b)
        same(np.array([g]), [want])


def test_extremes_that_keep_nan() -> None:
    got = run_snippet("max.NaN.f32 %o0, %i0, %i1;", [A, B], "f32")
    assert (np.isnan(got) == (np.isnan(A) | np.isnan(B))).all()


def test_fma_rounds_once() -> None:
    a, b, c = _ties(np.random.default_rng(8), 500)
    got = run_snippet("fma.rn.f32 %o0, %i0, %i1, %i2;", [a, b, c], "f32")
    for x, y, z, g in zip(a, b, c, got, strict=True):
        check_fma(x, y, z, g)


def test_fma_ftz() -> None:
    tiny = np.array([1e-20, 1e-40, 1.0], np.float32)
    got = run_snippet("fma.rn.ftz.f32 %o0, %i0, %i0, %i1;", [tiny, np.array([0, 1, -1e-40], np.float32)], "f32")
    assert got.tolist() == [0, 1, 1]


def _halves(rng: Any, n: int) -> Any:
    return rng.integers(0, 1 << 16, n).astype(np.uint16).view(np.float16)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min"])
def test_half(name: str) -> None:
    rng = np.random.default_rng(2)
    a, b = _halves(rng, 512), _halves(rng, 512)
    function = {"max": np.fmax, "min": np.fmin}.get(name) or getattr(operator, name)
    got = run_snippet(f"{name}.f16 %o0, %i0, %i1;", [a, b], "f16")
    with np.errstate(all="ignore"):
        want = function(a, b)
    same(got, want)
    packed = run_snippet(f"mov.b32 %x0, {{%i0, %i1}}; mov.b32 %x1, {{%i1, %i0}}; {name}.f16x2 %o0, %x0, %x1;", [a, b])
    same((packed & 0xFFFF).astype(np.uint16).view(np.float16), want)
    with np.errstate(all="ignore"):
        same((packed >> 16).astype(np.uint16).view(np.float16), function(b, a))


def test_half_fma() -> None:
    rng = np.random.default_rng(2)
    a, b, c = ((rng.standard_normal(300) * 2.0 ** rng.integers(-9, 6, 300)).astype(np.float16) for _ in range(3))
    got = run_snippet("fma.rn.f16 %o0, %i0, %i1, %i2;", [a, b, c], "f16")
    for x, y, z, g in zip(a, b, c, got, strict=True):
        check_fma(x, y, z, g)
    both = run_snippet(
        "mov.b32 %x0, {%i0,%i0}; mov.b32 %x1, {%i1,%i1}; mov.b32 %x2, {%i2,%i2}; fma.rn.f16x2 %o0, %x0, %x1, %x2;",
        [a, b, c],
    )
    assert ((both & 0xFFFF) == got.view(np.uint16)).all()
    assert ((both >> 16) == got.view(np.uint16)).all()


def test_sign_operations() -> None:
    with np.errstate(all="ignore"):
        same(run_snippet("neg.f32 %o0, %i0;", [A], "f32"), -A)
        same(run_snippet("abs.f32 %o0, %i0;", [A], "f32"), np.abs(A))
    got = run_snippet("copysign.f32 %o0, %i0, %i1;", [A, B], "f32")
    same(got[~np.isnan(B)], np.copysign(B, A)[~np.isnan(B)])


@pytest.mark.parametrize("name", ["div.rn.f32", "div.full.f32"])
def test_division(name: str) -> None:
    rng = np.random.default_rng(1)
    a = (rng.standard_normal(400) * 2.0 ** rng.integers(-40, 40, 400)).astype(np.float32)
    b = (rng.standard_normal(400) * 2.0 ** rng.integers(-120, 120, 400)).astype(np.float32)
    b[:4] = [2.0**127, -(2.0**127.5), 2.0**-128, 1e-45]
    a[:4] = [2.0**100, 1, 2.0**-20, 1e-44]
    got = run_snippet(f"{name} %o0, %i0, %i1;", [a, b], "f32")
    with np.errstate(all="ignore"):
        want = a / b
        if name == "div.rn.f32":
            same(got, want)
            return
        error = np.abs(got.astype(np.float64) / (a.astype(np.float64) / b) - 1)
        sure = np.isfinite(want) & (np.abs(want) > 2.0**-126)
    assert (error[sure] < 2**-22).all()
    same(
        run_snippet(f"{name} %o0, %i0, %i1;", [np.float32([1, 0, -1]), np.float32([0, 0, 0])], "f32"),
        [np.inf, np.nan, -np.inf],
    )


APPROXIMATE = {
    "ex2.approx.f32": np.exp2, "ex2.approx.ftz.f32": np.exp2, "lg2.approx.f32": np.log2, "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos, "tanh.approx.f32": np.tanh, "rcp.approx.ftz.f32": np.reciprocal,
    "sqrt.approx.f32": np.sqrt, "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x), "rcp.rn.f32": np.reciprocal,
    "sqrt.rn.f32": np.sqrt,
}  # fmt: skip


@pytest.mark.parametrize("name", APPROXIMATE)
def test_functions(name: str) -> None:
    x = np.abs(np.random.default_rng(1).standard_normal(300)).astype(np.float32) + np.float32(0.01)
    got = run_snippet(f"{name} %o0, %i0;", [x], "f32")
    assert np.allclose(got, APPROXIMATE[name](x.astype(np.float64)), rtol=2**-23, atol=0)


def test_function_edges() -> None:
    x = np.float32([0, -0.0, np.inf, -np.inf, np.nan, -1, 200, -200, -130])
    inf = np.inf
    same(run_snippet("ex2.approx.f32 %o0, %i0;", [x], "f32"), [1, 1, inf, 0, np.nan, 0.5, inf, 0, 2.0**-130])
    same(run_snippet("ex2.approx.ftz.f32 %o0, %i0;", [x], "f32"), [1, 1, inf, 0, np.nan, 0.5, inf, 0, 0])
    same(run_snippet("lg2.approx.f32 %o0, %i0;", [x[:6]], "f32"), [-inf, -inf, inf, np.nan, np.nan, np.nan])
    same(run_snippet("rcp.approx.ftz.f32 %o0, %i0;", [x[:5]], "f32"), [inf, -inf, 0, -0.0, np.nan])


# Comparison -----------------------------------------------------------------------------------------------

ORDERED = {"eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


@pytest.mark.parametrize(
    "name", ["eq", "ne", "lt", "le", "gt", "ge", "num", "nan", "equ", "neu", "ltu", "leu", "gtu", "geu"]
)
def test_float_comparison(name: str) -> None:
    got = run_snippet(f"setp.{name}.f32 %q0, %i0, %i1; selp.b32 %o0, 1, 0, %q0;", [A, B])
    for a, b, g in zip(A, B, got, strict=True):
        unordered = bool(np.isnan(a) or np.isnan(b))
        if name in ("num", "nan"):
            want = unordered == (name == "nan")
        elif name.rstrip("u") == "ne":
            want = (a != b and not unordered) or (unordered and name == "neu")
        else:
            want = unordered if unordered and name.endswith("u") else bool(ORDERED[name[:2]](a, b)) and not unordered
        assert bool(g) == want, f"{a} {name} {b}"


@pytest.mark.parametrize("kind", ["s32", "u32", "b32"])
def test_integer_comparison(kind: str) -> None:
    a, b = A.view(np.uint32), B.view(np.uint32)
    x, y = (a.view(np.int32), b.view(np.int32)) if kind == "s32" else (a, b)
    names = dict(ORDERED, ne=operator.ne)
    if kind == "u32":
        names |= {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
    for name, function in names.items():
        if kind == "b32" and name not in ("eq", "ne"):
            with pytest.raises(UnsupportedInstructionError):
                run_snippet(f"setp.{name}.b32 %q0, %i0, %i1;", [a, b])
            continue
        got = run_snippet(f"setp.{name}.{kind} %q0, %i0, %i1; selp.b32 %o0, 1, 0, %q0;", [a, b])
        assert (got.astype(bool) == function(x, y)).all(), name


def test_combined_and_double_comparison() -> None:
    a, b = np.int32([-1, 0, 1, 2]), np.int32([0, 0, 1, 1])
    text = (
        "setp.ne.s32 %q3, %i1, 0; setp.gt.{}.s32 %q0|%q1, %i0, 0, %q3; "
        "selp.b32 %x0, 1, 0, %q0; selp.b32 %x1, 2, 0, %q1; or.b32 %o0, %x0, %x1;"
    )
    p, q = a > 0, b != 0
    for name, function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        got = run_snippet(text.format(name), [a, b])
        assert got.tolist() == (function(p, q) + 2 * function(~p, q)).tolist()
    got = run_snippet("setp.ne.s32 %q3, %i1, 0; setp.gt.and.s32 %q0, %i0, 0, !%q3; selp.b32 %o0, 1, 0, %q0;", [a, b])
    assert got.tolist() == (p & ~q).astype(int).tolist()


def test_comparison_flushes() -> None:
    tiny = np.float32([1e-40])
    got = run_snippet("setp.gt.ftz.f32 %q0, %i0, 0f00000000; selp.b32 %o0, 1, 0, %q0;", [tiny])
    assert got.tolist() == [0]


def test_select_keeps_bits() -> None:
    got = run_snippet("setp.lt.f32 %q0, %i0, %i1; selp.f32 %o0, %i0, 0fFF800000, %q0;", [A, B])
    want = np.where(A < B, A.view(np.uint32), np.uint32(0xFF800000))
    assert (got == want).all()


@pytest.mark.parametrize(
    "text",
    ["add.rz.f32 %o0, %i0, %i0", "ex2.f32 %o0, %i0", "max.xorsign.abs.f32 %o0, %i0, %i0", "fma.f64 %o0, %i0, %i0, %i0",
     "setp.lo.f32 %q0, %i0, %i0", "add.bf16 %o0, %i0, %i0", "sqrt.f32 %o0, %i0", "add.f32 %o0, %i0, 1"],
)  # fmt: skip
def test_unknown_forms(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="unsupported"):
        run_snippet(f"{text};", [np.zeros(1, np.float32)])
