"""tensor_core: the published V100 results, near misses that must fail, and cases of our own against the recipe in
rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutgen.cpu.tensor_core import V100, Operand, Recipe, exact, v100
from tests.cpu.conftest import v100_data
from tests.cpu.test_rounding import nearest

# The published results -----------------------------------------------------------------------------------


def _words(path: Path, base: int) -> Any:
    rows = [[int(word, base) for word in line.split()] for line in path.read_text().splitlines() if line.strip()]
    return np.array(rows, np.uint32)


def _half(words: Any) -> Any:
    half = words.view(np.float32).astype(np.float16)
    assert (half.astype(np.float32) == words.view(np.float32)).all()
    return half.view(np.uint16)


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    folder = v100_data()
    a, b = (_half(_words(folder / f"{n}_V100_fp16.txt", 16)) for n in "ab")
    c, d, d16 = (_words(folder / f"{n}.txt", 2)[:, 0] for n in ("c_V100_fp32", "d_V100_fp32", "d_V100_fp16"))
    assert a.shape == b.shape == (5000, 4)
    return {"a": a, "b": b, "c": c, "d": d, "d16": d16}


def _shaped(data: dict[str, Any]) -> tuple[Any, Any]:
    return data["a"].T[None, None], data["b"].T[None, :, None]


def _agreeing(data: dict[str, Any], recipe: Recipe) -> int:
    a, b = _shaped(data)
    d = v100(Operand(a), Operand(b), data["c"][None, None, None], "f32", recipe)
    return int((d.ravel() == data["d"]).sum())


def test_all_published_results_with_f32_accumulator(published: dict[str, Any]) -> None:
    assert _agreeing(published, V100) == 5000


def test_all_published_results_with_f16_accumulator(published: dict[str, Any]) -> None:
    a, b = _shaped(published)
    c = published["c"].view(np.float32).astype(np.float16).view(np.uint16)
    d = v100(Operand(a), Operand(b), c[None, None, None], "f16")
    wide = d.ravel().view(np.float16).astype(np.float32).view(np.uint32)
    assert int((wide == published["d16"]).sum()) == 5000


@pytest.mark.parametrize(
    ("recipe", "agreeing"),
    [
        (Recipe(alignment_bits=22), 2765),
        (Recipe(alignment_bits=24), 3800),
        (Recipe(renormalise=True), 4207),
        (Recipe(floor=True), 4143),
        (Recipe(final_nearest=True), 4351),
    ],
    ids=str,
)
def test_near_misses_do_not_reproduce_them(published: dict[str, Any], recipe: Recipe, agreeing: int) -> None:
    assert _agreeing(published, recipe) == agreeing


def test_the_exact_sum_does_not_reproduce_them(published: dict[str, Any]) -> None:
    a, b = _shaped(published)
    d = exact(a, b, published["c"][None, None, None])
    assert int((d.ravel() == published["d"]).sum()) == 3115


# The recipe in rational arithmetic, an oracle of its own -----------------------------------------------------


def _exponent(value: Fraction, least: int) -> int:
    e = 0
    size = abs(value)
    while size >= 2:
        size /= 2
        e += 1
    while size < 1:
        size *= 2
        e -= 1
    return max(e, least)


def _cut(value: Fraction, quantum: Fraction) -> Fraction:
    whole = abs(value) // quantum * quantum
    return whole if value >= 0 else -whole


def recipe_by_hand(a: Any, b: Any, c: Any, accumulator: str) -> int:
    """One output of docs/facts.md, "How a V100 rounds"; a, b: four float16 each; c: float32 or float16. Result bits."""
    with np.errstate(all="ignore"):
        plain = sum((float(x) * float(y) for x, y in zip(a, b, strict=True)), 0.0) + float(c)
    nan, infinity = (0x7FFFFFFF, 0x7F800000) if accumulator == "f32" else (0x7FFF, 0x7C00)
    sign = 0x80000000 if accumulator == "f32" else 0x8000
    if np.isnan(plain):
        return nan
    if np.isinf(plain):
        return infinity | (sign if plain < 0 else 0)
    terms = []
    for x, y in zip(a, b, strict=True):
        if x != 0 and y != 0:
            fx, fy = Fraction(float(x)), Fraction(float(y))
            terms.append((fx * fy, _exponent(fx, -14) + _exponent(fy, -14)))
    if c != 0:
        terms.append((Fraction(float(c)), _exponent(Fraction(float(c)), -126 if accumulator == "f32" else -14)))
    if not terms:
        return 0
    quantum = Fraction(2) ** (max(e for _, e in terms) - 23)
    total = sum((_cut(value, quantum) for value, _ in terms), Fraction(0))
    if total == 0:
        return 0
    if accumulator == "f16":
        return int(nearest(total, np.float16).view(np.uint16))
    lowest = max(_exponent(total, -126) - 23, -149)
    total = _cut(total, Fraction(2) ** lowest)
    if abs(total) >= Fraction(2) ** 128:
        return infinity | (sign if total < 0 else 0)
    return int(np.float32(float(total)).view(np.uint32))


def _compare(a: Any, b: Any, c: Any, accumulator: str) -> None:
    bits = np.uint32 if accumulator == "f32" else np.uint16
    with np.errstate(all="ignore"):
        got = v100(
            Operand(a.T.view(np.uint16)[None, None]),
            Operand(b.T.view(np.uint16)[None, :, None]),
            c.view(bits)[None, None, None],
            accumulator,
        ).ravel()
    for i in range(c.size):
        want = recipe_by_hand(a[i], b[i], c[i], accumulator)
        assert int(got[i]) == want, f"{a[i]} . {b[i]} + {c[i]}: {int(got[i]):#x}, by hand {want:#x}"


def _any_half(rng: np.random.Generator, shape: Any) -> Any:
    return rng.integers(0, 1 << 16, shape).astype(np.uint16).view(np.float16)


@pytest.mark.parametrize("accumulator", ["f32", "f16"])
def test_random_bit_patterns(accumulator: str) -> None:
    rng = np.random.default_rng(11)
    n = 400
    if accumulator == "f32":
        c = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
        c[::2] = rng.standard_normal(n // 2).astype(np.float32) * np.exp2(rng.integers(-30, 30, n // 2)).astype("f4")
    else:
        c = _any_half(rng, n)
    _compare(_any_half(rng, (n, 4)), _any_half(rng, (n, 4)), c, accumulator)


def _finite(rng: np.random.Generator, shape: Any, low: int, high: int) -> Any:
    return (rng.standard_normal(shape) * np.exp2(rng.integers(low, high, shape))).astype(np.float16)


@pytest.mark.parametrize("accumulator", ["f32", "f16"])
@pytest.mark.parametrize("case", ["subnormal", "cancellation", "large", "zeros"])
def test_ranges(accumulator: str, case: str) -> None:
    rng = np.random.default_rng(12)
    n = 200
    kind = np.float32 if accumulator == "f32" else np.float16
    with np.errstate(all="ignore"):
        if case == "subnormal":
            a, b = _finite(rng, (n, 4), -24, -13), _finite(rng, (n, 4), -24, -8)
            c = (rng.standard_normal(n) * np.exp2(rng.integers(-149, -20, n))).astype(kind)
        elif case == "cancellation":
            a, b = _finite(rng, (n, 4), -3, 3), _finite(rng, (n, 4), -3, 3)
            a[:, 1], b[:, 1] = -a[:, 0], b[:, 0]
            c = (-(a[:, 2].astype(np.float64) * b[:, 2]) * (1 + rng.integers(-2, 3, n) * 2.0**-20)).astype(kind)
        elif case == "large":
            a, b = _finite(rng, (n, 4), 10, 15), _finite(rng, (n, 4), 10, 15)
            a, b = np.nan_to_num(a, posinf=65504, neginf=-65504), np.nan_to_num(b, posinf=65504, neginf=-65504)
            c = (rng.choice([-1, 1], n) * rng.uniform(0.5, 1, n) * float(np.finfo(kind).max)).astype(kind)
        else:
            a, b = _finite(rng, (n, 4), -2, 2), _finite(rng, (n, 4), -2, 2)
            a[rng.random((n, 4)) < 0.6] = -0.0
            b[rng.random((n, 4)) < 0.3] = 0.0
            c = np.where(rng.random(n) < 0.5, -0.0, rng.standard_normal(n)).astype(kind)
    _compare(a, b, c, accumulator)


ONE, INF, NAN = 1.0, np.inf, np.nan


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        ([INF, 0, 0, 0], [ONE, 0, 0, 0], 0.0, 0x7F800000),
        ([INF, 0, 0, 0], [0.0, 0, 0, 0], 0.0, 0x7FFFFFFF),
        ([INF, -INF, 0, 0], [ONE, ONE, 0, 0], 0.0, 0x7FFFFFFF),
        ([ONE, 0, 0, 0], [ONE, 0, 0, 0], -INF, 0xFF800000),
        ([NAN, 0, 0, 0], [0, 0, 0, 0], 0.0, 0x7FFFFFFF),
        ([-0.0, 0, 0, 0], [ONE, 0, 0, 0], -0.0, 0),
        ([65504] * 4, [65504] * 4, 3.4028234e38, 0x7F7FFFFF),  # products are cut away below the sum's last bit
        ([2.0**-24, 0, 0, 0], [2.0**-24, 0, 0, 0], 0.0, 0x27800000),  # 2^-48: subnormals are kept
        ([1.0, 0, 0, 0], [1.0, 0, 0, 0], 2.0**-24, 0x3F800000),
        ([1.0, 0, 0, 0], [1.0, 0, 0, 0], -(2.0**-24), 0x3F800000),  # cut toward zero before adding
    ],
)
def test_named_cases(a: list[float], b: list[float], c: float, want: int) -> None:
    x, y = (np.array(v, np.float16).view(np.uint16) for v in (a, b))
    z = np.array([c], np.float32).view(np.uint32)
    with np.errstate(all="ignore"):
        got = v100(Operand(x[None, None, :, None]), Operand(y[None, :, None, None]), z[None, None, None])
    assert int(got.ravel()[0]) == want


# Exact -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "k", "accumulator"),
    [("f16", 4, "f32"), ("f16", 4, "f16"), ("f16", 16, "f32"), ("f16", 16, "f16"), ("bf16", 16, "f32")],
)
def test_exact_rounds_once(operand: str, k: int, accumulator: str) -> None:
    rng = np.random.default_rng(13)
    n = 150
    a, b = (rng.integers(0, 1 << 16, (n, k)).astype(np.uint16) for _ in range(2))
    if operand == "f16":
        a, b = (np.where((v >> 10 & 31) == 31, v & 0x83FF, v).astype(np.uint16) for v in (a, b))
        af, bf = a.view(np.float16).astype(np.float64), b.view(np.float16).astype(np.float64)
    else:
        a, b = ((v & 0x8FFF) | 0x3000 for v in (a, b))
        a, b = a.astype(np.uint16), b.astype(np.uint16)
        af, bf = ((v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for v in (a, b))
    kind = np.float32 if accumulator == "f32" else np.float16
    c = (rng.standard_normal(n) * np.exp2(rng.integers(-20, 15, n))).astype(kind)
    bits = np.uint32 if accumulator == "f32" else np.uint16
    with np.errstate(all="ignore"):
        got = exact(a.T[None, None], b.T[None, :, None], c.view(bits)[None, None, None], accumulator, operand).ravel()
    for i in range(n):
        total = sum((Fraction(x) * Fraction(y) for x, y in zip(af[i], bf[i], strict=True)), Fraction(float(c[i])))
        assert int(got[i]) == int(nearest(total, kind).view(bits))


def test_exact_specials() -> None:
    a = np.array([[INF, 0, 0, 0], [INF, 0, 0, 0], [ONE, 0, 0, 0], [NAN, 0, 0, 0], [-0.0, 0, 0, 0]], np.float16)
    b = np.array([[ONE, 0, 0, 0], [0, 0, 0, 0], [ONE, 0, 0, 0], [0, 0, 0, 0], [ONE, 0, 0, 0]], np.float16)
    c = np.array([0, 0, -INF, 0, -0.0], np.float32)
    with np.errstate(all="ignore"):
        got = exact(
            a.T.view(np.uint16)[None, None], b.T.view(np.uint16)[None, :, None], c.view(np.uint32)[None, None, None]
        )
    assert got.ravel().tolist() == [0x7F800000, 0x7FFFFFFF, 0xFF800000, 0x7FFFFFFF, 0]
