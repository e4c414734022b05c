"""Linear inequalities over the integers, against every assignment in a small box."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutgen.proofs import integers
from layoutgen.proofs.integers import Linear, UndecidedError, solve

NAMES = "xyz"
EDGE = 4
BOX = [line for name in NAMES for line in (Linear.variable(name) + EDGE, -Linear.variable(name) + EDGE)]


def lines(size: int) -> st.SearchStrategy[Linear]:
    factors = st.tuples(*[st.integers(-size, size)] * len(NAMES))
    return st.builds(lambda f, c: Linear.of(dict(zip(NAMES, f, strict=True)), c), factors, st.integers(-8, 8))


CHOICES = st.lists(st.lists(lines(3), min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)


def holds(model: dict[str, int], constraints: list[Linear], alternatives: list[tuple[tuple[Linear, ...], ...]]) -> bool:
    chosen = (any(all(line.at(model) >= 0 for line in case) for case in choice) for choice in alternatives)
    return all(line.at(model) >= 0 for line in constraints) and all(chosen)


@settings(max_examples=500)
@given(
    st.lists(lines(7), min_size=1, max_size=4),
    st.lists(lines(7), max_size=1),
    st.lists(CHOICES, max_size=2),
)
def test_a_solution_is_found_exactly_if_there_is_one(
    inequalities: list[Linear], equations: list[Linear], alternatives: list[tuple[tuple[Linear, ...], ...]]
) -> None:
    constraints = [*BOX, *inequalities, *(line for e in equations for line in (e, -e))]
    model = solve(constraints, alternatives)
    if model is not None:
        assert holds(model, constraints, alternatives)
    else:
        for point in product(range(-EDGE, EDGE + 1), repeat=len(NAMES)):
            assert not holds(dict(zip(NAMES, point, strict=True)), constraints, alternatives)


def test_what_fractions_fulfil_integers_need_not() -> None:
    """Between 1/3 and 2/3; and 27 <= 11 x + 13 y <= 45, -10 <= 7 x - 9 y <= 4, the example of the Omega test."""
    x, y = Linear.variable("x"), Linear.variable("y")
    assert solve([x * 3 - 1, -x * 3 + 2]) is None
    skew = [x * 11 + y * 13 - 27, -(x * 11 + y * 13) + 45, x * 7 - y * 9 + 10, -(x * 7 - y * 9) + 4]
    assert solve(skew) is None
    assert solve([*skew[:3], -(x * 7 - y * 9) + 5]) is not None


def test_lengths_are_not_bounded() -> None:
    """The last of ceil(t / 64) tiles ends at or behind t, and begins before it, however great t is."""
    t, tiles = Linear.variable("t"), Linear.variable("tiles")
    rounded = [t + 63 - tiles * 64, tiles * 64 - t]
    assert solve([*rounded, t - tiles * 64 - 1]) is None
    assert solve([*rounded, t - 1, (tiles - 1) * 64 - t]) is None
    assert solve([*rounded, t - 10**9, tiles * 64 - t - 63]) is not None


def test_a_question_that_is_too_large_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "LIMIT", 3)
    integers._solved.cache_clear()
    x, y, z = (Linear.variable(name) for name in NAMES)
    with pytest.raises(UndecidedError):
        solve([x * 3 + y * 5 - z * 7, z * 4 - x * 3 - 1, y * 2 - z, -y + 40, x - 1])
