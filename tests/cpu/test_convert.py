"""cvt and mov."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layoutgen.cpu import UnsupportedInstructionError
from tests.cpu.conftest import run_snippet
from tests.cpu.test_rounding import nearest

FLOATS = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 65504, 65519, 65520, 1e6, -1e6, 3e9, -3e9, 5e9, 6e-8, 3e-8,
     2.9e-8, -3.1e-8, 6.1e-5, 1e-40, np.inf, -np.inf, np.nan, 2147483500.0, 1e19, 2.0**63, 255.7, -128.9,
     1.0009766, 2049],
    np.float32,
)  # fmt: skip


def test_f32_to_f16_nearest() -> None:
    got = run_snippet("cvt.rn.f16.f32 %o0, %i0;", [FLOATS], "f16")
    for x, g in zip(FLOATS, got, strict=True):
        if np.isnan(x):
            assert int(g.view(np.uint16)) == 0x7FFF
        elif np.isinf(x):
            assert g == np.float16(x)
        else:
            assert g == nearest(Fraction(float(x)), np.float16)
            assert np.signbit(g) == np.signbit(x)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_f32_to_f16_directed(mode: str) -> None:
    finite = FLOATS[np.isfinite(FLOATS)]
    got = run_snippet(f"cvt.{mode}.f16.f32 %o0, %i0;", [finite], "f16")
    grid = np.sort(
        np.arange(1 << 16, dtype=np.uint16).view(np.float16)[
            np.isfinite(np.arange(1 << 16, dtype=np.uint16).view(np.float16))
        ]
    )
    for x, g in zip(finite, got, strict=True):
        down = mode == "rm" or (mode == "rz" and x >= 0)
        inside = grid[grid.astype(np.float64) <= float(x)] if down else grid[grid.astype(np.float64) >= float(x)]
        want = (inside[-1] if down else inside[0]) if inside.size else np.float16(-np.inf if down else np.inf)
        assert g == want, f"{x} by {mode}"


def test_widening_is_exact() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)[::7].copy()
    got = run_snippet("cvt.f32.f16 %o0, %i0;", [halves], "f32")
    with np.errstate(all="ignore"):
        want = halves.view(np.float16).astype(np.float32)
    nan = np.isnan(want)
    assert (got[~nan] == want[~nan]).all()
    assert (got[nan].view(np.uint32) == 0x7FFFFFFF).all()
    got = run_snippet("cvt.f64.f32 %o0, %i0;", [FLOATS], "f64")
    assert np.array_equal(got, FLOATS.astype(np.float64), equal_nan=True)


ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_float_to_integer_clamps(mode: str, kind: str) -> None:
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    got = run_snippet(f"cvt.{mode}.{kind}.f32 %o0, %i0;", [FLOATS], f"b{bits}")
    for x, g in zip(FLOATS, got, strict=True):
        if np.isnan(x):
            want = 0
        elif np.isinf(x):
            want = high if x > 0 else low
        else:
            want = min(max(ROUND[mode](float(x)), low), high)
        assert int(g) == want & ((1 << bits) - 1), f"{x}"


@pytest.mark.parametrize("mode", ROUND)
def test_float_to_whole_float(mode: str) -> None:
    finite = FLOATS[np.isfinite(FLOATS)]
    got = run_snippet(f"cvt.{mode}.f32.f32 %o0, %i0;", [finite], "f32")
    assert [float(g) for g in got] == [float(ROUND[mode](float(x))) for x in finite]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_integer_to_float_rounds_once(kind: str) -> None:
    bits = int(kind[1:])
    values = [0, 1, 16777217, 16777219, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    if bits == 64:
        values += [(1 << 62) + (1 << 38) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 54) + (1 << 30) + 1]
    got = run_snippet(f"cvt.rn.f32.{kind} %o0, %i0;", [np.array(values, f"u{bits // 8}")], "f32")
    for v, g in zip(values, got, strict=True):
        exact = v - (1 << bits) if kind[0] == "s" and v >> (bits - 1) else v
        assert g == nearest(Fraction(exact), np.float32)


def test_integer_widths() -> None:
    words = np.array([0, 1, 0x7F, 0x80, 0xFF, 0x8000, 0xFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678], np.uint32)
    signed = words.view(np.int32)

    def check(text: str, want: Any, out: str = "b32") -> None:
        got = run_snippet(text, [words], out)
        assert got.tolist() == np.asarray(want).astype(got.dtype).tolist(), text

    check("cvt.s64.s32 %o0, %i0;", signed.astype(np.int64).view(np.uint64), "b64")
    check("cvt.u64.u32 %o0, %i0;", words.astype(np.uint64), "b64")
    check("cvt.u16.u32 %o0, %i0;", words.astype(np.uint16), "b16")
    check("cvt.u32.u16 %o0, %i0;", words & 0xFFFF)
    check("cvt.s32.s16 %o0, %i0;", words.astype(np.int16).astype(np.int32).view(np.uint32))
    check("cvt.s32.s8 %o0, %i0;", words.astype(np.int8).astype(np.int32).view(np.uint32))
    check("cvt.sat.s8.s32 %o0, %i0;", np.clip(signed, -128, 127).astype(np.int32).view(np.uint32))
    check("cvt.sat.u8.s32 %o0, %i0;", np.clip(signed, 0, 255))


def test_saturating_and_flushing() -> None:
    got = run_snippet("cvt.sat.f32.f32 %o0, %i0;", [FLOATS], "f32")
    assert (got == np.where(np.isnan(FLOATS), 0, np.clip(FLOATS, 0, 1))).all()
    assert run_snippet("cvt.ftz.f32.f32 %o0, %i0;", [np.float32([1e-40, -1e-40, 2])], "f32").tolist() == [0, 0, 2]


def test_pairs_and_bf16() -> None:
    high, low = np.float32([1.5, -2, 1e6]), np.float32([3, 1e-9, np.nan])
    got = run_snippet("cvt.rn.f16x2.f32 %o0, %i0, %i1;", [high, low])
    assert got.tolist() == [0x3E004200, 0xC0000000, 0x7C007FFF]
    got = run_snippet("cvt.rn.bf16.f32 %o0, %i0;", [np.float32([1, 1.00390625, 1.01171875, np.nan, 3.4e38])], "b16")
    assert got.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x7FFF, 0x7F80]
    assert run_snippet("cvt.f32.bf16 %o0, %i0;", [np.uint16([0x3F80, 0xC040])], "f32").tolist() == [1, -3]


@pytest.mark.parametrize(
    "text",
    ["cvt.f16.f32 %h0, %i0", "cvt.rn.f32.f16 %o0, %i0", "cvt.s32.f32 %o0, %i0", "cvt.rni.rn.s32.f32 %o0, %i0",
     "cvt.rn.e4m3x2.f32 %h0, %i0, %i0", "cvt.rz.f32.s32 %o0, %i0", "cvt.rn.relu.f16.f32 %h0, %i0"],
)  # fmt: skip
def test_unknown_conversions(text: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="unsupported"):
        run_snippet(f"{text};", [np.zeros(1, np.float32)])


# mov --------------------------------------------------------------------------------------------------------


def test_packing_puts_the_first_item_low() -> None:
    a, b = np.uint16([0x1234, 0xFFFF]), np.uint16([0xABCD, 0])
    assert run_snippet("mov.b32 %o0, {%i0, %i1};", [a, b]).tolist() == [0xABCD1234, 0xFFFF]
    words = np.uint32([0x89ABCDEF, 0x01234567])
    assert run_snippet("mov.b32 {%h0, %h1}, %i0; mov.b32 %o0, {%h1, %h0};", [words]).tolist() == [
        0xCDEF89AB,
        0x45670123,
    ]
    assert run_snippet("mov.b64 %o0, {%i0, 7};", [words], "b64").tolist() == [7 << 32 | int(w) for w in words]
    got = run_snippet("mov.b64 %w0, {%i0, %i1}; mov.b64 {_, %o0}, %w0;", [words, words[::-1].copy()])
    assert got.tolist() == words[::-1].tolist()


def test_special_registers() -> None:
    n = 32 * 7 * 3  # three blocks of seven warps
    text = "mov.u32 %x0, %{}; mov.b32 %o0, %x0;"
    thread = np.arange(n) % 224
    assert (run_snippet(text.format("tid.x"), [], threads=n) == thread).all()
    assert (run_snippet(text.format("ctaid.x"), [], threads=n) == np.arange(n) // 224).all()
    assert (run_snippet(text.format("laneid"), [], threads=n) == thread % 32).all()
    assert (run_snippet(text.format("warpid"), [], threads=n) == thread // 32).all()
    assert (run_snippet(text.format("ntid.x"), [], threads=n) == 224).all()
    assert (run_snippet(text.format("nctaid.x"), [], threads=n) == 3).all()
    assert (run_snippet(text.format("nctaid.y"), [], threads=n) == 1).all()
    assert (run_snippet(text.format("tid.y"), [], threads=n) == 0).all()
    with pytest.raises(UnsupportedInstructionError, match="%clock"):
        run_snippet(text.format("clock"), [], threads=32)


def test_scopes_of_inline_assembly() -> None:
    text = "{ .reg .b32 t; add.u32 t, %i0, 1; { .reg .b32 t; mov.b32 t, 9; } mov.b32 %o0, t; }"
    assert run_snippet(text, [np.uint32([4, 5])]).tolist() == [5, 6]
