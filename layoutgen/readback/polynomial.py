"""Integer polynomials over named symbols: index arithmetic as the source of a kernel writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]
"""The names of its factors, sorted."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials with integer coefficients; equal polynomials are equal values.

    >>> x, y = Polynomial.symbol("x"), Polynomial.symbol("y")
    >>> (x + y) * x - x * y == x * x
    True
    """

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, terms: Mapping[Monomial, int]) -> Polynomial:
        return cls(tuple(sorted((monomial, value) for monomial, value in terms.items() if value)))

    @classmethod
    def constant(cls, value: int) -> Polynomial:
        return cls.of({(): value})

    @classmethod
    def symbol(cls, name: str) -> Polynomial:
        return cls.of({(name,): 1})

    def __add__(self, other: Polynomial) -> Polynomial:
        result = dict(self.terms)
        for monomial, value in other.terms:
            result[monomial] = result.get(monomial, 0) + value
        return Polynomial.of(result)

    def __neg__(self) -> Polynomial:
        return Polynomial.of({monomial: -value for monomial, value in self.terms})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        result: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right))
                result[monomial] = result.get(monomial, 0) + a * b
        return Polynomial.of(result)

    @property
    def value(self) -> int | None:
        """The number that it is, or None when it has symbols."""
        if any(monomial for monomial, _ in self.terms):
            return None
        return dict(self.terms).get((), 0)

    @property
    def symbols(self) -> set[str]:
        """The names of all its symbols."""
        return {name for monomial, _ in self.terms for name in monomial}

    def put(self, values: Mapping[str, Polynomial]) -> Polynomial:
        """Return it with symbols replaced.

        >>> x, y = Polynomial.symbol("x"), Polynomial.symbol("y")
        >>> str((x * x).put({"x": y + Polynomial.constant(1)}))
        '1 + 2 y + y y'
        """
        if not self.symbols & set(values):
            return self
        result = Polynomial.constant(0)
        for monomial, factor in self.terms:
            term = Polynomial.constant(factor)
            for name in monomial:
                term *= values.get(name, Polynomial.symbol(name))
            result += term
        return result

    def by(self, name: str) -> Polynomial:
        """Return what a symbol is multiplied with.

        >>> str((Polynomial.symbol("x") + Polynomial.constant(2)).by("x"))
        '1'
        """
        result: dict[Monomial, int] = {}
        for monomial, value in self.terms:
            if name in monomial:
                rest = list(monomial)
                rest.remove(name)
                result[tuple(rest)] = value
        return Polynomial.of(result)

    def __str__(self) -> str:
        parts = []
        for monomial, value in self.terms:
            factors = [str(value)] if value != 1 or not monomial else []
            parts.append(" ".join([*factors, *monomial]))
        return " + ".join(parts) or "0"
