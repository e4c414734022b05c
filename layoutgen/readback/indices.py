"""The symbols of a kernel's index arithmetic, and the inequalities that say what each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from layoutgen.proofs.integers import Alternatives, Linear
from layoutgen.readback.polynomial import Polynomial

ZERO, ONE = Polynomial.constant(0), Polynomial.constant(1)
Case = tuple[Polynomial, ...]


@dataclass(frozen=True)
class Formula:
    """A condition: in one of the cases no polynomial is negative. Without cases it is false."""

    cases: tuple[Case, ...]

    @classmethod
    def true(cls) -> Formula:
        return cls(((),))

    @classmethod
    def at_least_0(cls, *polynomials: Polynomial) -> Formula:
        """Return that none is negative, decided where all are numbers."""
        if any(p.value is not None and p.value < 0 for p in polynomials):
            return cls(())
        return cls((tuple(p for p in polynomials if p.value is None),))

    def __and__(self, other: Formula) -> Formula:
        return Formula(tuple(a + b for a in self.cases for b in other.cases))

    def __or__(self, other: Formula) -> Formula:
        return Formula(self.cases + other.cases)

    def __invert__(self) -> Formula:
        result = Formula.true()
        for case in self.cases:
            result &= Formula(tuple((-p - ONE,) for p in case))
        return result

    @property
    def value(self) -> bool | None:
        if not self.cases:
            return False
        return True if () in self.cases else None

    def put(self, values: Mapping[str, Polynomial]) -> Formula:
        return Formula(tuple(tuple(p.put(values) for p in case) for case in self.cases))

    @property
    def symbols(self) -> set[str]:
        return {name for case in self.cases for p in case for name in p.symbols}


@dataclass(frozen=True)
class Index:
    """Something that takes every integer from 0 on for which the conditions hold, whatever other indices are.

    `kind` is "program" for what tells blocks apart, "loop" or "lane" for what one block goes through.
    """

    kind: str
    conditions: tuple[Polynomial, ...]
    size: int | None = None
    instead: frozenset[str] = frozenset()
    """Other indices, of which this one is a permutation: an access may use it or them."""
    product: Polynomial | None = None
    """How many values it takes, when that is no linear expression."""


@dataclass(frozen=True)
class Quotient:
    """value // divisor: rounded to 0 as C does, or down."""

    dividend: Polynomial
    divisor: int
    to_zero: bool


@dataclass(frozen=True)
class Extreme:
    """The least or the greatest of two."""

    least: bool
    arguments: tuple[Polynomial, Polynomial]


@dataclass(frozen=True)
class Part:
    """Some bits of an index: index & mask."""

    whole: Polynomial
    mask: int


@dataclass(frozen=True)
class Bits:
    """Numbers that follow from a few indices of known size, one axis each: what bit operations result in.

    `part` are the numbers of which these keep the bits of a mask, and the mask.
    """

    indices: tuple[str, ...]
    values: np.ndarray
    part: tuple[Bits, int] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[tuple[str, ...], bytes]:
        return self.indices, self.values.tobytes()


Definition = Index | Quotient | Extreme | Part


@dataclass
class Symbols:
    """Every symbol that stands for more than a parameter; parameters in `sizes` are not negative.

    With `even` what is divided without a remainder comes out of quotients. Stretches of a split K need it; without it
    the tile that a block begins with stays one symbol, from which the digits of an element can be counted.
    """

    sizes: frozenset[str] = frozenset()
    definitions: dict[str, Definition] = field(default_factory=dict)
    permuted: dict[tuple[tuple[str, ...], bytes], Polynomial] = field(default_factory=dict)
    even: bool = False

    # ---- making symbols

    def index(self, kind: str, count: Polynomial, name: str = "") -> Polynomial:
        """Return an index from 0 to count - 1."""
        name = name or f"{kind}{len(self.definitions)}"
        symbol = Polynomial.symbol(name)
        linear = all(len(monomial) < 2 for monomial, _ in count.terms)
        conditions = (symbol, count - symbol - ONE) if linear else (symbol,)
        self.definitions[name] = Index(kind, conditions, count.value, product=None if linear else count)
        return symbol

    def mirrored(self, last: Polynomial, index: Polynomial) -> Polynomial | None:
        """Return last - index as its own index, if `index` tells blocks apart and `last` is its greatest value."""
        found = self.definitions.get(str(index))
        if not isinstance(found, Index) or found.kind != "program" or found.conditions[1:] != (last - index,):
            return None
        name = f"{index} from the last on"
        symbol = Polynomial.symbol(name)
        self.definitions[name] = Index("program", (symbol, last - symbol), instead=frozenset({str(index)}))
        return symbol

    def quotient(self, dividend: Polynomial, divisor: int, to_zero: bool) -> Polynomial:
        if dividend.value is not None:
            size = abs(dividend.value) // divisor if to_zero else dividend.value // divisor
            return Polynomial.constant(-size if to_zero and dividend.value < 0 else size)
        if divisor == 1:
            return dividend
        to_zero = to_zero and not self.not_negative(dividend)
        even = Polynomial.of({m: f // divisor for m, f in dividend.terms if m and f % divisor == 0})
        if self.even and even.terms and not to_zero:
            return even + self.quotient(dividend - even * Polynomial.constant(divisor), divisor, False)
        if not to_zero and self.not_negative(-dividend):
            # -(-length // size), as Python rounds up, is what (length + size - 1) // size is.
            return -self.quotient(-dividend + Polynomial.constant(divisor - 1), divisor, False)
        return self._define(f"({dividend}) {'/' if to_zero else '//'} {divisor}", Quotient(dividend, divisor, to_zero))

    def extreme(self, least: bool, a: Polynomial, b: Polynomial) -> Polynomial:
        gap = (a - b).value
        if gap is not None:
            return a if (gap <= 0) == least else b
        if not least and ZERO in (a, b) and self.not_negative(a if b == ZERO else b):
            return a if b == ZERO else b
        return self._define(f"{'min' if least else 'max'}({a}, {b})", Extreme(least, (a, b)))

    def part(self, whole: Polynomial, mask: int, size: int) -> Polynomial:
        """Return whole & mask for an index below size, a power of two: what two complements add up to is the index."""
        rest = size - 1 & ~mask
        if mask > rest:
            return whole - self.part(whole, rest, size)
        return self._define(f"({whole}) & {mask}", Part(whole, mask)) if mask else ZERO

    def _define(self, name: str, definition: Definition) -> Polynomial:
        self.definitions[name] = definition
        return Polynomial.symbol(name)

    def not_negative(self, value: Polynomial) -> bool:
        """Whether that is plain from the signs of its terms."""
        return all(c >= 0 and all(self._positive(name) for name in monomial) for monomial, c in value.terms)

    def _positive(self, name: str) -> bool:
        found = self.definitions.get(name)
        if isinstance(found, Quotient):
            return self.not_negative(found.dividend)
        if isinstance(found, Extreme):
            signs = [self.not_negative(argument) for argument in found.arguments]
            return all(signs) if found.least else any(signs)
        return isinstance(found, Index | Part) or name in self.sizes

    # ---- bits

    def as_bits(self, value: object) -> Bits | None:
        """Return a polynomial over a few small indices as the table of its values."""
        if isinstance(value, Bits) or not isinstance(value, Polynomial):
            return value if isinstance(value, Bits) else None
        names = sorted(value.symbols)
        sizes = []
        for name in names:
            found = self.definitions.get(name)
            if not isinstance(found, Index) or found.size is None:
                return None
            sizes.append(found.size)
        if np.prod(sizes, dtype=object) > 1 << 16:
            return None
        grid = dict(zip(names, np.meshgrid(*map(np.arange, sizes), indexing="ij"), strict=True))
        values = np.zeros(sizes, dtype=np.int64)
        for monomial, factor in value.terms:
            term = np.full(sizes, factor, dtype=np.int64)
            for name in monomial:
                term = term * grid[name]
            values = values + term
        return Bits(tuple(names), values)

    def from_bits(self, bits: Bits) -> Polynomial | None:
        """Return a table as an index of its own, if it permutes one of its indices whatever the others are."""
        if bits.key in self.permuted:
            return self.permuted[bits.key]
        if not bits.values.ndim:
            return Polynomial.constant(int(bits.values))
        if bits.values.ndim == 1 and (bits.values == np.arange(len(bits.values))).all():
            return Polynomial.symbol(bits.indices[0])
        for axis, name in enumerate(bits.indices):
            size = bits.values.shape[axis]
            order = np.sort(bits.values, axis=axis)
            if (np.moveaxis(order, axis, -1) == np.arange(size)).all():
                found = self.definitions[name]
                assert isinstance(found, Index)
                symbol = self.index(found.kind, Polynomial.constant(size))
                made = self.definitions[str(symbol)]
                assert isinstance(made, Index)
                self.definitions[str(symbol)] = Index(
                    made.kind, made.conditions, size, instead=frozenset({name}) | found.instead
                )
                self.permuted[bits.key] = symbol
                return symbol
        if bits.part is not None:
            whole = self.from_bits(bits.part[0])
            index = self.definitions.get(str(whole))
            if whole is not None and isinstance(index, Index) and index.size and not index.size & index.size - 1:
                return self.part(whole, bits.part[1] & index.size - 1, index.size)
        return None

    # ---- what is known of symbols

    def facts(self, names: Iterable[str]) -> tuple[list[Linear], list[Alternatives]]:
        """Return what holds of these symbols, and of those that they rest on."""
        lines: list[Linear] = []
        choices: list[Alternatives] = []
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            definition, own = self.definitions.get(name), Polynomial.symbol(name)
            if name in self.sizes:
                lines.append(linear(own))
            if isinstance(definition, Index):
                found = [linear(condition) for condition in definition.conditions]
                lines += found
                waiting += [other for line in found for other, _ in line.terms]
            elif isinstance(definition, Quotient):
                rest = linear(definition.dividend - own * Polynomial.constant(definition.divisor))
                down = (rest, -rest + (definition.divisor - 1))
                if definition.to_zero:
                    dividend = linear(definition.dividend)
                    up = (-dividend - 1, -rest, rest + (definition.divisor - 1))
                    choices.append(((dividend, *down), up))
                else:
                    lines += down
                waiting += definition.dividend.symbols
            elif isinstance(definition, Part):
                lines += [linear(own), linear(definition.whole - own), -linear(own) + definition.mask]
                waiting += definition.whole.symbols
            elif isinstance(definition, Extreme):
                gaps = [linear(argument - own) for argument in definition.arguments]
                if not definition.least:
                    gaps = [-gap for gap in gaps]
                lines += gaps
                choices.append(tuple((-gap,) for gap in gaps))
                waiting += [other for argument in definition.arguments for other in argument.symbols]
        return lines, choices


class NotLinearError(ValueError):
    """A product of symbols stands where a linear expression is needed."""


def linear(polynomial: Polynomial) -> Linear:
    terms: dict[str, int] = {}
    constant = 0
    for monomial, factor in polynomial.terms:
        if len(monomial) > 1:
            raise NotLinearError(str(polynomial))
        if monomial:
            terms[monomial[0]] = factor
        else:
            constant = factor
    return Linear.of(terms, constant)
