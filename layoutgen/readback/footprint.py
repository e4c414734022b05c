"""What a kernel's source touches in global memory: every load and store, as coordinates and masks.

The integer arithmetic of the kernel is followed symbolically through its syntax tree: nothing is executed. Values that
are not index arithmetic are opaque; an access whose address or mask is opaque cannot be followed, and is reported so.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layoutgen.proofs.coverage import Between, Tiles
from layoutgen.readback.polynomial import Polynomial


@dataclass(frozen=True)
class Pointer:
    tensor: str
    offset: Polynomial


@dataclass(frozen=True)
class Mask:
    """A conjunction: every polynomial must be greater than 0."""

    positive: tuple[Polynomial, ...]


@dataclass(frozen=True)
class Bounded:
    """An integer that is not followed, but lies in 0 .. limit."""

    limit: int


class Opaque:
    """A value that is not followed."""


OPAQUE = Opaque()
Value = Any
Extent = int | Tiles | Between | None
"""What an index ranges over, from 0 on; None if that is not followed."""


@dataclass(frozen=True)
class Access:
    """One load or store of global memory. `mask` is None without one; `address` or `mask` may be opaque."""

    kind: str
    line: int
    address: Value
    mask: Value


@dataclass
class Walk:
    """The walk through a kernel: what its symbols range over, which are numbers of tiles, and the accesses so far."""

    functions: Mapping[str, ast.FunctionDef]
    grid: Sequence[Tiles | None]
    extents: dict[str, Extent] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    counts: dict[str, Tiles] = field(default_factory=dict)
    divisors: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def fresh(self, extent: Extent) -> Polynomial:
        name = f"x{len(self.extents)}"
        self.extents[name] = extent
        return Polynomial.symbol(name)

    # ---- statements

    def block(self, body: Sequence[ast.stmt], names: dict[str, Value]) -> Value:
        """Follow statements; the value is that of the first return."""
        for statement in body:
            if isinstance(statement, ast.Return):
                return OPAQUE if statement.value is None else self.value(statement.value, names)
            if isinstance(statement, ast.Assign):
                value = self.value(statement.value, names)
                for target in statement.targets:
                    self._bind(target, value, names)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._bind(statement.target, self.value(statement.value, names), names)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                left = names.get(statement.target.id, OPAQUE)
                right = self.value(statement.value, names)
                names[statement.target.id] = self._operate(statement.op, left, right)
            elif isinstance(statement, ast.For):
                self._loop(statement, names)
            elif isinstance(statement, ast.If):
                self._branch(statement, names)
            elif isinstance(statement, ast.Expr):
                self.value(statement.value, names)
        return OPAQUE

    def _bind(self, target: ast.expr, value: Value, names: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple):
            parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else None
            for index, element in enumerate(target.elts):
                self._bind(element, parts[index] if parts else OPAQUE, names)

    def _loop(self, loop: ast.For, names: dict[str, Value]) -> None:
        """Follow the body once, for any iteration. What the body changes from iteration to iteration is opaque."""
        call = loop.iter
        arguments = [self.value(a, names) for a in call.args] if isinstance(call, ast.Call) else []
        if len(arguments) == 1:
            arguments.insert(0, Polynomial.constant(0))
        if len(arguments) == 2:
            arguments.append(Polynomial.constant(1))
        index: Value = OPAQUE
        if len(arguments) == 3 and all(isinstance(argument, Polynomial) for argument in arguments):
            start, stop, step = arguments
            index = start + self.fresh(self._iterations(stop - start, step.value)) * step
        for name in _assigned(loop.body):
            if isinstance(names.get(name), Polynomial | Pointer):
                names[name] = OPAQUE
        self._bind(loop.target, index, names)
        self.block(loop.body, names)

    def _iterations(self, span: Polynomial, step: int | None) -> Extent:
        if step is None or step < 1:
            return None
        if span.value is not None:
            return max(0, -(-span.value // step))
        terms = dict(span.terms)
        rest = terms.pop((), 0)
        ends = {factor: self.counts.get(monomial[0]) for monomial, factor in terms.items() if len(monomial) == 1}
        high, low = ends.get(1), ends.get(-1)
        if len(terms) == 2 and high and low and step == 1 and not rest:
            return Between(low, high)
        if len(terms) != 1:
            return None
        ((monomial, factor),) = terms.items()
        if len(monomial) != 1:
            return None
        tiles = self.counts.get(monomial[0])
        if tiles is None:
            return Tiles(monomial[0], step, -rest) if factor == 1 else None
        if factor != step or rest % step:
            return None
        return replace(tiles, offset=tiles.offset - rest // step * tiles.size)

    def count(self, length: Polynomial, size: int | None, whole: bool) -> Value:
        """Return the number of tiles in a length as a symbol."""
        terms = dict(length.terms)
        offset = -terms.pop((), 0)
        if size is None or size < 1 or len(terms) != 1 or offset > 0:
            return OPAQUE  # a length less some could be negative
        ((monomial, factor),) = terms.items()
        if factor != 1 or len(monomial) != 1 or monomial[0] in self.extents or monomial[0] in self.counts:
            return OPAQUE
        tiles = Tiles(monomial[0], size, offset, whole)
        self.counts[str(tiles)] = tiles
        return Polynomial.symbol(str(tiles))

    def _at_least_none(self, value: Polynomial, least: Value) -> Value:
        """A number of tiles less some, but not below 0: the tiles of a length that is shorter by those."""
        terms = dict(value.terms)
        less = -terms.pop((), 0)
        name = next(iter(terms), ("",))[0]
        tiles = self.counts.get(name)
        if tiles is None or value.by(name) != Polynomial.constant(1) or least != Polynomial.constant(0):
            return OPAQUE
        fewer = replace(tiles, offset=tiles.offset + less * tiles.size)
        self.counts[str(fewer)] = fewer
        return Polynomial.symbol(str(fewer))

    def _branch(self, branch: ast.If, names: dict[str, Value]) -> None:
        """Follow the way that a known condition takes, else both; names that they bind differently are then opaque."""
        test = self.value(branch.test, names)
        if isinstance(test, Mask) and len(test.positive) == 1 and test.positive[0].value is not None:
            test = test.positive[0].value > 0
        if isinstance(test, bool):
            self.block(branch.body if test else branch.orelse, names)
            return
        other = dict(names)
        self.block(branch.body, names)
        self.block(branch.orelse, other)
        for name in {*names, *other}:
            if names.get(name, OPAQUE) != other.get(name, OPAQUE):
                names[name] = OPAQUE

    # ---- expressions

    def value(self, node: ast.expr, names: dict[str, Value]) -> Value:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        if isinstance(node, ast.Constant):
            return Polynomial.constant(node.value) if isinstance(node.value, int) else OPAQUE
        if isinstance(node, ast.Name):
            return names.get(node.id, OPAQUE)
        if isinstance(node, ast.Tuple):
            return tuple(self.value(element, names) for element in node.elts)
        if isinstance(node, ast.BinOp):
            return self._operate(node.op, self.value(node.left, names), self.value(node.right, names))
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand, names)
            return -value if isinstance(node.op, ast.USub) and isinstance(value, Polynomial) else OPAQUE
        if isinstance(node, ast.Compare):
            return self._compare(node, names)
        if isinstance(node, ast.Subscript):
            # [:, None] and its kind add dims; anything else would pick elements.
            value = self.value(node.value, names)
            return value if all(_keeps(item) for item in _items(node.slice)) else OPAQUE
        if isinstance(node, ast.Call):
            return self._call(node, names)
        return OPAQUE

    def _operate(self, operator: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, Mask) and isinstance(right, Mask) and isinstance(operator, ast.BitAnd):
            return Mask(left.positive + right.positive)
        if isinstance(left, Pointer) and isinstance(right, Polynomial) and isinstance(operator, ast.Add | ast.Sub):
            moved = left.offset + right if isinstance(operator, ast.Add) else left.offset - right
            return Pointer(left.tensor, moved)
        limit = right.value if isinstance(right, Polynomial) else None
        if isinstance(operator, ast.BitAnd) and limit is not None and limit >= 0:
            return Bounded(limit)
        if isinstance(left, Bounded) and isinstance(operator, ast.Mult) and limit is not None and limit >= 0:
            return Bounded(left.limit * limit)
        if isinstance(left, Polynomial) and isinstance(right, Bounded) and isinstance(operator, ast.BitXor):
            return self._turned(left, right.limit)
        if not isinstance(left, Polynomial) or not isinstance(right, Polynomial):
            return OPAQUE
        if isinstance(operator, ast.Add):
            return left + right
        if isinstance(operator, ast.Sub):
            return left - right
        if isinstance(operator, ast.Mult):
            return left * right
        if isinstance(operator, ast.FloorDiv):
            return self._quotient(left, right)
        return OPAQUE

    def _turned(self, index: Polynomial, limit: int) -> Value:
        """An index of 2^n values, exclusive or something below 2^n, takes the same values in another order."""
        extent = self.extents.get(str(index))
        if isinstance(extent, int) and extent & (extent - 1) == 0 and limit < extent:
            return self.fresh(extent)
        return OPAQUE

    def _quotient(self, left: Polynomial, right: Polynomial) -> Value:
        """A program index over a parameter that the host computed as whole // part ranges over that part."""
        if left.value is not None and right.value:
            return Polynomial.constant(left.value // right.value)
        extent = self.extents.get(str(left))
        whole, part = self.divisors.get(str(right), ("", ""))
        if extent == Tiles(whole, 1):
            name = f"({left} / {right})"
            self.extents[name] = Tiles(part, 1)
            return Polynomial.symbol(name)
        return self.count(left, right.value, whole=True)

    def _compare(self, node: ast.Compare, names: dict[str, Value]) -> Value:
        values = [self.value(part, names) for part in (node.left, *node.comparators)]
        if len(values) != 2 or not all(isinstance(value, Polynomial) for value in values):
            return OPAQUE
        left, right = values
        one = Polynomial.constant(1)
        positive = {
            ast.Lt: right - left,
            ast.LtE: right - left + one,
            ast.Gt: left - right,
            ast.GtE: left - right + one,
        }.get(type(node.ops[0]))
        return OPAQUE if positive is None else Mask((positive,))

    def _call(self, node: ast.Call, names: dict[str, Value]) -> Value:
        keywords = {keyword.arg: self.value(keyword.value, names) for keyword in node.keywords}
        arguments = [self.value(argument, names) for argument in node.args]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of_gl = (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("gl", "tl")
        )
        if of_gl:
            return self._language(name, arguments, keywords, node.lineno)
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, names)
            return owner if name == "to" and isinstance(owner, Polynomial) else OPAQUE
        function = self.functions.get(name)
        if function is None:
            return OPAQUE
        inner = dict(zip((argument.arg for argument in function.args.args), arguments, strict=False))
        inner |= {key: value for key, value in keywords.items() if key is not None}
        return self.block(function.body, inner)

    def _language(self, name: str, arguments: list[Value], keywords: dict[str | None, Value], line: int) -> Value:
        if name == "program_id":
            axis = arguments[0].value
            symbol = f"program_id({axis})"
            self.extents[symbol] = self.grid[axis] if axis is not None and axis < len(self.grid) else None
            return Polynomial.symbol(symbol)
        if name == "arange" and all(isinstance(argument, Polynomial) for argument in arguments[:2]):
            start, stop = arguments[:2]
            count = (stop - start).value
            return start + self.fresh(count)
        if name == "cdiv" and all(isinstance(argument, Polynomial) for argument in arguments[:2]):
            return self.count(arguments[0], arguments[1].value, whole=False)
        if name == "maximum" and len(arguments) == 2 and isinstance(arguments[0], Polynomial):
            return self._at_least_none(arguments[0], arguments[1])
        if name in ("multiple_of", "max_contiguous", "max_constancy", "convert_layout", "to_tensor"):
            return arguments[0]
        if name in ("load", "store"):
            place = 1 if name == "load" else 2
            mask = keywords.get("mask", arguments[place] if len(arguments) > place else None)
            self.accesses.append(Access(name, line, arguments[0], mask))
        return OPAQUE


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _keeps(node: ast.expr) -> bool:
    whole = isinstance(node, ast.Slice) and node.lower is None and node.upper is None
    return whole or (isinstance(node, ast.Constant) and node.value is None)


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that some statement changes by way of their own old value."""
    changed = set()
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            changed.add(node.target.id)
        if isinstance(node, ast.Assign):
            read = {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
            written = {inner.id for target in node.targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
            changed |= read & written
    return changed
