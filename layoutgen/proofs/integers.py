"""Linear inequalities over the integers: whether some integers fulfil them all, decided exactly.

The method is Pugh's Omega test (Communications of the ACM 35(8), 1992): variables are eliminated one after the other.
Where one of two bounds has the coefficient 1 nothing is lost; otherwise the "dark shadow" and the "splinters" decide.
Statements with alternatives are decided by cases. So "for all lengths" needs no sample: its negation has no solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from layoutgen.errors import LayoutgenError

Model = dict[str, int]
LIMIT = 20_000
"""Eliminations of one question; beyond them it counts as undecided."""
REMEMBERED = 2_000
"""Answers to parts of a question that are kept while it is decided by cases."""


class UndecidedError(LayoutgenError):
    """The question is too large to be decided in a reasonable time."""


@dataclass(frozen=True)
class Linear:
    """A sum of integer multiples of variables and a constant; as a constraint it must not be negative.

    >>> str(Linear.of({"x": 2, "y": -1}, 3))
    '2 x - y + 3'
    """

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    @classmethod
    def of(cls, terms: Mapping[str, int], constant: int = 0) -> Linear:
        return cls(tuple(sorted((name, value) for name, value in terms.items() if value)), constant)

    @classmethod
    def variable(cls, name: str) -> Linear:
        return cls(((name, 1),))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        result = dict(self.terms)
        for name, value in other.terms:
            result[name] = result.get(name, 0) + value
        return Linear.of(result, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        return Linear.of({name: value * factor for name, value in self.terms}, self.constant * factor)

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | int) -> Linear:
        return self + -other

    def by(self, name: str) -> int:
        for other, value in self.terms:
            if other == name:
                return value
        return 0

    def at(self, model: Mapping[str, int]) -> int:
        return self.constant + sum(value * model.get(name, 0) for name, value in self.terms)

    def put(self, name: str, value: Linear) -> Linear:
        """Return it with a variable replaced."""
        factor = self.by(name)
        return self if not factor else self - Linear(((name, factor),)) + value * factor

    def tightened(self) -> Linear:
        """Return the strongest constraint that the same integers fulfil."""
        divisor = math.gcd(*(value for _, value in self.terms)) if self.terms else 0
        if divisor < 2:
            return self
        return Linear(tuple((name, value // divisor) for name, value in self.terms), self.constant // divisor)

    def __str__(self) -> str:
        text = ""
        for name, value in self.terms:
            sign = "-" if value < 0 else "+"
            factor = "" if abs(value) == 1 else f"{abs(value)} "
            text += f" {sign} {factor}{name}"
        if self.constant or not text:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text.removeprefix(" + ").strip()


Alternatives = tuple[tuple[Linear, ...], ...]
"""Of several conjunctions one must hold."""


def solve(constraints: Iterable[Linear], alternatives: Sequence[Alternatives] = ()) -> Model | None:
    """Return integers that fulfil all constraints, and one of each alternatives; None if there are none.

    Raises UndecidedError when the question is too large.

    >>> x, y = Linear.variable("x"), Linear.variable("y")
    >>> solve([x * 2 - y * 4 - 1, y * 4 - x * 2 + 1]) is None  # 2 x = 4 y + 1
    True
    >>> solve([x - 3, -x + 5], [((x - 7,), (x - 5,))])
    {'x': 5}
    """
    found = _solved(frozenset(constraints), tuple(alternatives))
    return None if found is None else dict(found)


@lru_cache(maxsize=8192)
def _solved(constraints: frozenset[Linear], alternatives: tuple[Alternatives, ...]) -> Model | None:
    """Solve, or remember: of one file many questions are asked twice, and of a file that was edited most are known."""
    ordered = sorted(constraints, key=lambda line: (line.terms, line.constant))
    return _cases(ordered, list(alternatives), {}, [LIMIT])


Known = dict[frozenset[Linear], Model | None]


def _cases(
    constraints: list[Linear], alternatives: list[Alternatives], known: Known, budget: list[int]
) -> Model | None:
    model = _conjunction(constraints, known, budget)
    if model is None:
        return None
    failing = [choice for choice in alternatives if not _chosen(choice, model)]
    if not failing:
        for name in {name for choice in alternatives for case in choice for line in case for name, _ in line.terms}:
            model.setdefault(name, 0)
        return model
    # Cases that contradict the constraints are none. Without cases there is no solution; one alone is a constraint.
    kept = [choice for choice in alternatives if choice not in failing]
    for choice in sorted(failing, key=len):
        left = tuple(c for c in choice if _conjunction([*constraints, *c], known, budget) is not None)
        if not left:
            return None
        kept.append(left)
        if len(left) == 1:
            others = [*(c for c in alternatives if c is not choice)]
            return _cases([*constraints, *left[0]], others, known, budget)
    chosen = min((c for c in kept if not _chosen(c, model)), key=len)
    others = [c for c in kept if c is not chosen]
    for case in chosen:
        found = _cases([*constraints, *case], others, known, budget)
        if found is not None:
            return found
    return None


def _chosen(choice: Alternatives, model: Model) -> bool:
    return any(all(line.at(model) >= 0 for line in case) for case in choice)


def _conjunction(constraints: Iterable[Linear], known: Known, budget: list[int]) -> Model | None:
    model: Model = {}
    for part in _apart(constraints):
        found = known[part] if part in known else _omega(part, budget)
        if len(known) < REMEMBERED:
            known[part] = found
        if found is None:
            return None
        model |= found
    return model


def _apart(constraints: Iterable[Linear]) -> list[frozenset[Linear]]:
    """Return the constraints in groups that share no variable: each can be solved by itself."""
    group: dict[str, str] = {}

    def root(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    lines = list(constraints)
    for line in lines:
        for name, _ in line.terms[1:]:
            group[root(name)] = root(line.terms[0][0])
    parts: dict[str, set[Linear]] = {}
    for line in lines:
        parts.setdefault(root(line.terms[0][0]) if line.terms else "", set()).add(line)
    return sorted((frozenset(part) for part in parts.values()), key=len)


def _omega(constraints: Iterable[Linear], budget: list[int]) -> Model | None:
    budget[0] -= 1
    if budget[0] < 0:
        raise UndecidedError("inequalities: too many to be decided")
    bounds: dict[tuple[tuple[str, int], ...], int] = {}
    for constraint in constraints:
        tight = constraint.tightened()
        if not tight.terms:
            if tight.constant < 0:
                return None
            continue
        bounds[tight.terms] = min(bounds.get(tight.terms, tight.constant), tight.constant)
    for terms, constant in bounds.items():
        opposite = tuple((name, -value) for name, value in terms)
        other = bounds.get(opposite)
        if other is None:
            continue
        if constant + other < 0:
            return None
        if constant + other == 0:
            return _equality(Linear(terms, constant), [Linear(t, c) for t, c in bounds.items()], budget)
    system = [Linear(terms, constant) for terms, constant in bounds.items()]
    if not system:
        return {}
    return _eliminate(system, budget)


def _equality(equation: Linear, system: list[Linear], budget: list[int]) -> Model | None:
    """Solve with equation = 0 put in. Its coefficients have no common divisor: the constraint was tightened."""
    unit = next((name for name, value in equation.terms if abs(value) == 1), None)
    if unit is not None:
        value = (equation - Linear(((unit, equation.by(unit)),))) * -equation.by(unit)
        model = _omega([line.put(unit, value) for line in system], budget)
        if model is not None:
            for name, _ in value.terms:
                model.setdefault(name, 0)
            model[unit] = value.at(model)
        return model
    # Pugh's substitution: with m = |a| + 1, a the least coefficient, a new variable takes its place at a smaller one.
    name, least = min(equation.terms, key=lambda term: (abs(term[1]), term[0]))
    modulus, sign = abs(least) + 1, 1 if least > 0 else -1
    fresh = f"~{budget[0]}"

    def centred(value: int) -> int:
        return value - modulus * ((2 * value + modulus) // (2 * modulus))

    terms = {other: sign * centred(value) for other, value in equation.terms if other != name}
    value = Linear.of({**terms, fresh: -sign * modulus}, sign * centred(equation.constant))
    model = _omega([line.put(name, value) for line in (equation, -equation, *system)], budget)
    if model is not None:
        for other, _ in value.terms:
            model.setdefault(other, 0)
        model[name] = value.at(model)
    return model


def _eliminate(system: list[Linear], budget: list[int]) -> Model | None:
    """Eliminate the variable that costs least: exactly if there is one."""
    factors: dict[str, tuple[list[int], list[int]]] = {}
    for line in system:
        for name, value in line.terms:
            factors.setdefault(name, ([], []))[value < 0].append(abs(value))
    best: tuple[bool, int, str] | None = None
    for name, (lower, upper) in factors.items():
        exact = not lower or not upper or max(lower) == 1 or max(upper) == 1
        cost = (not exact, len(lower) * len(upper) - len(lower) - len(upper), name)
        best = cost if best is None else min(best, cost)
    assert best is not None
    inexact, _, name = best
    lower_lines = [line for line in system if line.by(name) > 0]
    upper_lines = [line for line in system if line.by(name) < 0]
    rest = [line for line in system if not line.by(name)]
    pairs = [(low, up) for low in lower_lines for up in upper_lines]
    dark = list(rest)
    for low, up in pairs:
        a, b = low.by(name), -up.by(name)
        dark.append(low * b + up * a - (a - 1) * (b - 1))
    model = _omega(dark, budget)
    if model is not None:
        return _between(name, lower_lines, upper_lines, model)
    if not inexact:
        return None
    real = [*rest, *(low * -up.by(name) + up * low.by(name) for low, up in pairs)]
    if _omega(real, budget) is None:
        return None
    most = max(-line.by(name) for line in upper_lines)
    for low in lower_lines:
        a = low.by(name)
        for gap in range((most * a - most - a) // most + 1):
            model = _omega([*system, low - gap, -low + gap], budget)
            if model is not None:
                return model
    return None


def _between(name: str, lower: list[Linear], upper: list[Linear], model: Model) -> Model:
    """Complete a model of the shadow."""
    for line in (*lower, *upper):
        for other, _ in line.terms:
            if other != name:
                model.setdefault(other, 0)
    model.pop(name, None)
    ends = [(-(line.at(model) // line.by(name)), True) for line in lower]
    ends += [(line.at(model) // -line.by(name), False) for line in upper]
    lows = [value for value, is_lower in ends if is_lower]
    highs = [value for value, is_lower in ends if not is_lower]
    value = max(lows) if lows else min(highs)
    assert not highs or value <= min(highs), (name, lows, highs)
    model[name] = value
    return model
