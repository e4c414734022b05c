"""rounding: one rounding, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen.cpu.rounding import canonical, flush, fma32, fma64_to, sum_to_odd


def nearest(value: Fraction, kind: type[np.floating]) -> np.floating:
    """The float nearest to an exact rational, ties to even, by looking at the three candidates around a guess."""
    info = np.finfo(kind)
    limit = Fraction(float(info.max)) + Fraction(2) ** (info.maxexp - info.nmant - 2)
    if abs(value) >= limit:
        return kind(np.inf) if value > 0 else kind(-np.inf)
    with np.errstate(all="ignore"):
        guess = kind(float(value))
        guess = np.clip(guess, info.min, info.max)
        candidates = [guess, np.nextafter(guess, kind(-np.inf)), np.nextafter(guess, kind(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    unsigned = {2: np.uint16, 4: np.uint32}[info.bits // 8]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(unsigned)) & 1))


def check_fma(a: np.floating, b: np.floating, c: np.floating, got: np.floating) -> None:
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    want = nearest(exact, type(got))
    assert got == want, f"fma({a!r}, {b!r}, {c!r}) = {got!r}, exactly rounded {want!r}"


finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite16 = st.floats(width=16, allow_nan=False, allow_infinity=False)


@given(finite32, finite32, finite32)
def test_fma32(a: float, b: float, c: float) -> None:
    x, y, z = (np.array([v], np.float32) for v in (a, b, c))
    with np.errstate(all="ignore"):
        check_fma(x[0], y[0], z[0], fma32(x, y, z)[0])


@given(finite16, finite16, finite16)
def test_fma16(a: float, b: float, c: float) -> None:
    x, y, z = (np.array([v], np.float16) for v in (a, b, c))
    with np.errstate(all="ignore"):
        check_fma(x[0], y[0], z[0], fma64_to(x, y, z, np.float16)[0])


def _ties(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Products that end in a tie of float32, with an addend far below that decides it: where two roundings fail."""
    a = (1 + rng.integers(0, 2**12, count) * 2.0**-12).astype(np.float32)
    b = (1 + rng.integers(0, 2**12, count) * 2.0**-12).astype(np.float32)
    c = (rng.choice([-1, 1], count) * 2.0 ** rng.integers(-90, -30, count)).astype(np.float32)
    return [a, b, c]


def test_fma32_where_two_roundings_fail() -> None:
    a, b, c = _ties(np.random.default_rng(3), 4000)
    got = fma32(a, b, c)
    for x, y, z, g in zip(a, b, c, got, strict=True):
        check_fma(x, y, z, g)
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (twice != got).any(), "the cases do not tell one rounding from two"


def test_fma32_into_subnormals() -> None:
    rng = np.random.default_rng(4)
    a = (rng.standard_normal(2000) * 2.0**-70).astype(np.float32)
    b = (rng.standard_normal(2000) * 2.0 ** rng.integers(-80, -55, 2000)).astype(np.float32)
    c = (rng.integers(-8, 8, 2000) * 2.0**-149).astype(np.float32)
    for x, y, z, g in zip(a, b, c, fma32(a, b, c), strict=True):
        check_fma(x, y, z, g)


def test_fma32_specials() -> None:
    inf, nan, big = np.float32(np.inf), np.float32(np.nan), np.finfo(np.float32).max
    one = np.float32(1)
    with np.errstate(all="ignore"):
        got = fma32(
            np.array([inf, inf, big, nan, inf, -one], np.float32),
            np.array([one, 0, big, one, one, 0], np.float32),
            np.array([one, one, one, one, -inf, 0], np.float32),
        )
    assert got[0] == inf
    assert np.isnan(got[1])
    assert got[2] == inf
    assert np.isnan(got[3])
    assert np.isnan(got[4])
    assert got[5] == 0
    assert not np.signbit(got[5])  # -0 + 0 = +0


@given(st.lists(st.floats(-1e30, 1e30, allow_subnormal=False), min_size=1, max_size=9))
def test_sum_to_odd_rounds_like_the_exact_sum(values: list[float]) -> None:
    exact = sum((Fraction(v) for v in values), Fraction(0))
    got = sum_to_odd([np.array([v]) for v in values])
    for kind in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            assert got.astype(kind)[0] == nearest(exact, kind)


@pytest.mark.parametrize(
    "values",
    [[1e300, 1.0, -1e300], [2.0**60, 2.0**7, 2.0**-60], [1.0, 2.0**-24, 2.0**-90], [1.0, 2.0**-24, -(2.0**-90)]],
)
def test_sum_to_odd_hard_cases(values: list[float]) -> None:
    exact = sum((Fraction(v) for v in values), Fraction(0))
    assert sum_to_odd([np.array([v]) for v in values]).astype(np.float32)[0] == nearest(exact, np.float32)


def test_flush_and_canonical() -> None:
    tiny = np.array([1e-40, -1e-40, 1.0, 2.0**-126], np.float32)
    assert flush(tiny).view(np.uint32).tolist() == [0, 0x80000000, 0x3F800000, 0x00800000]
    nan = np.array([0xFFC00000, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert canonical(nan).view(np.uint32).tolist() == [0x7FFFFFFF, 0x7FFFFFFF, 0x3F800000]
