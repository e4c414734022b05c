"""The integer arithmetic of a kernel, or of its host function, on symbols."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from layoutgen.readback.indices import ONE, Bits, Formula, Index, Symbols
from layoutgen.readback.polynomial import Polynomial

OPAQUE = None
"""A value that is not followed."""
Value = Any


@dataclass(frozen=True)
class Pointer:
    tensor: str
    offset: Polynomial


BITS: Mapping[type[ast.operator], Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


@dataclass
class Arithmetic:
    """Integer arithmetic on symbols. Division is C's in a kernel, Python's in its host function."""

    symbols: Symbols
    to_zero: bool = True
    exact: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Parameters that are whole // part without remainder: their name, and those of the two."""

    def operate(self, kind: type[ast.operator], left: Value, right: Value) -> Value:
        if isinstance(left, Formula) and isinstance(right, Formula):
            return left & right if kind is ast.BitAnd else left | right if kind is ast.BitOr else OPAQUE
        if isinstance(left, Pointer):
            right = self.plain(right)
            if right is None or kind not in (ast.Add, ast.Sub):
                return OPAQUE
            return Pointer(left.tensor, left.offset + right if kind is ast.Add else left.offset - right)
        if isinstance(right, Pointer):
            return self.operate(kind, right, left) if kind is ast.Add else OPAQUE
        if kind in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift) or (
            isinstance(left, Bits) and isinstance(right, Bits)
        ):
            found = self._bits(kind, left, right)
            if found is OPAQUE and kind is ast.RShift:
                return self._shifted(left, right)
            return found
        if isinstance(left, Bits) and isinstance(right, Polynomial) and kind is ast.Mult and right.value is not None:
            return self._bits(kind, left, right)  # still a table: its values need not be those of an index
        left, right = self.plain(left), self.plain(right)
        if left is None or right is None:
            return OPAQUE
        if kind is ast.Add:
            return left + right
        if kind is ast.Sub:
            return self.symbols.mirrored(left, right) or left - right
        if kind is ast.Mult:
            return left * right
        if kind is ast.FloorDiv:
            return self.quotient(left, right)
        if kind is ast.Mod:
            return self.remainder(left, right)
        return OPAQUE

    def _shifted(self, left: Value, right: Value) -> Value:
        """Return a number of any size shifted to the right: divided by a power of two, downwards."""
        number, bits = self.plain(left), self.plain(right)
        if number is None or bits is None or bits.value is None or not 0 <= bits.value < 32:
            return OPAQUE
        return replace(self, to_zero=False).quotient(number, Polynomial.constant(1 << bits.value))

    def plain(self, value: Value) -> Polynomial | None:
        if isinstance(value, Bits):
            return self.symbols.from_bits(value)
        return value if isinstance(value, Polynomial) else None

    def _bits(self, kind: type[ast.operator], left: Value, right: Value) -> Value:
        a, b = self.symbols.as_bits(left), self.symbols.as_bits(right)
        if a is None or b is None or kind not in BITS:
            return OPAQUE
        names = tuple(dict.fromkeys(a.indices + b.indices))

        def spread(bits: Bits) -> np.ndarray:
            order = sorted(range(len(bits.indices)), key=lambda axis: names.index(bits.indices[axis]))
            shape = [1] * len(names)
            for axis in range(len(bits.indices)):
                shape[names.index(bits.indices[axis])] = bits.values.shape[axis]
            return bits.values.transpose(order).reshape(shape)

        values = BITS[kind](spread(a), spread(b))
        # An index on which nothing depends any more is left out.
        for axis in reversed(range(len(names))):
            first = np.take(values, [0], axis=axis)
            if (values == first).all():
                values = first.reshape([size for at, size in enumerate(first.shape) if at != axis])
                names = names[:axis] + names[axis + 1 :]
        part = None
        if kind is ast.BitAnd and names and not (a.indices and b.indices):
            part = (a, int(b.values)) if a.indices else (b, int(a.values))
        return Bits(names, values.copy(), part)

    def compare(self, kind: type[ast.cmpop], left: Value, right: Value) -> Value:
        a, b = self.plain(left), self.plain(right)
        if a is None or b is None:
            return OPAQUE
        below, above = b - a, a - b
        made = {
            ast.Lt: (below - ONE,),
            ast.LtE: (below,),
            ast.Gt: (above - ONE,),
            ast.GtE: (above,),
            ast.Eq: (above, below),
        }.get(kind)
        if kind is ast.NotEq:
            return Formula.at_least_0(above - ONE) | Formula.at_least_0(below - ONE)
        return OPAQUE if made is None else Formula.at_least_0(*made)

    def quotient(self, left: Polynomial, right: Polynomial) -> Value:
        if right.value is not None:
            return self.symbols.quotient(left, right.value, self.to_zero) if right.value > 0 else OPAQUE
        whole, part = self.exact.get(str(right), ("", ""))
        found = self.symbols.definitions.get(str(left))
        if whole and isinstance(found, Index) and found.conditions[1:] == (Polynomial.symbol(whole) - left - ONE,):
            # Of whole = part * right numbers, the quotients by `right` are all those below part.
            return self._once(f"{left} / {right}", found, Polynomial.symbol(part))
        split = self._split(left, right)
        return split[0] if split else OPAQUE

    def remainder(self, left: Polynomial, right: Polynomial) -> Value:
        if right.value is not None and right.value > 0:
            quotient = self.symbols.quotient(left, right.value, self.to_zero)
            return left - quotient * right
        split = self._split(left, right)
        return split[1] if split else OPAQUE

    def _once(self, name: str, like: Index, count: Polynomial) -> Polynomial:
        if name not in self.symbols.definitions:
            self.symbols.index(like.kind, count, name)
        return Polynomial.symbol(name)

    def _split(self, left: Polynomial, right: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """Split an index of rows * columns values, by rows or by so many rows of all columns.

        Below rows * columns, division by `rows` gives every pair of a quotient below columns and a remainder below
        rows once. Division by size * columns gives the bands of `size` rows, the last one perhaps lower: to each
        quotient q the remainders below min(rows - size q, size) * columns.
        """
        found = self.symbols.definitions.get(str(left))
        product = found.product if isinstance(found, Index) else None
        if not isinstance(found, Index) or product is None:
            return None
        names = (f"{left} / ({right})", f"{left} % ({right})")
        if len(right.terms) == 1 and len(right.terms[0][0]) == 1:
            ((column,), size) = right.terms[0]
            rows = product.by(column)
            if rows * Polynomial.symbol(column) == product and column not in rows.symbols and size > 0:
                if size == 1:
                    return self._once(names[0], found, rows), self._once(names[1], found, Polynomial.symbol(column))
                bands = self.symbols.quotient(rows + Polynomial.constant(size - 1), size, False)
                band = self._once(names[0], found, bands)
                height = self.symbols.extreme(True, rows - band * Polynomial.constant(size), Polynomial.constant(size))
                return band, self._once(names[1], found, height * Polynomial.symbol(column))
        return None
