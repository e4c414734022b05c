"""Every load and store of a kernel, as an address and the condition under which it happens.

The kernel's integer arithmetic is followed through its syntax tree with its parameters as symbols: nothing is executed
and no length is sampled. Loops are followed for any iteration, conditions both ways. What is no index arithmetic is
opaque; an access whose address or condition is opaque cannot be followed, and says so.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from layoutgen.readback.arithmetic import OPAQUE, Arithmetic, Pointer, Value
from layoutgen.readback.indices import ONE, ZERO, Formula, Symbols
from layoutgen.readback.polynomial import Polynomial
from layoutgen.readback.transparent import hands_on


@dataclass(frozen=True)
class Access:
    """One load or store. `address` or `condition` is OPAQUE when it cannot be followed."""

    kind: str
    line: int
    address: Pointer | None
    condition: Formula | None
    share: tuple[int, ...] = ()
    """Which one it is of the programs that share a place of the grid."""


SAME = ("multiple_of", "max_contiguous", "max_constancy", "convert_layout", "to_tensor", "assume")
"""Functions of the language that return their first argument."""


@dataclass(frozen=True)
class Call:
    """A call of a watched function: the condition under which it happens, its names at its end, its loads so far."""

    line: int
    condition: Formula | None
    names: Mapping[str, Value]
    accesses: tuple[Access, ...]


@dataclass
class Walk:
    """The walk through a kernel. `grid` is how many programs there are along each axis."""

    functions: Mapping[str, ast.FunctionDef]
    grid: Sequence[Polynomial | None]
    arithmetic: Arithmetic
    accesses: list[Access] = field(default_factory=list)
    path: list[Formula | None] = field(default_factory=list)
    watched: frozenset[str] = frozenset()
    calls: list[Call] = field(default_factory=list)
    shares: dict[int, int] = field(default_factory=dict)
    """Of an axis with a multiple of so many programs: which of so many neighbours this one is."""

    @property
    def symbols(self) -> Symbols:
        return self.arithmetic.symbols

    def everything(self, kernel: ast.FunctionDef, names: Mapping[str, Value]) -> None:
        """Follow a kernel: once for each of the programs that share a place on an axis of several programs a place."""
        waiting: list[dict[int, int]] = [{}]
        while waiting:
            self.shares = waiting.pop()
            given = dict(self.shares)
            calls, accesses = list(self.calls), list(self.accesses)
            self.block(kernel.body, dict(names))
            fresh = [axis for axis in self.shares if axis not in given]
            if fresh:
                self.calls, self.accesses = calls, accesses
                axis = fresh[0]
                waiting += [{**given, axis: number} for number in range(self._content(axis))]

    def _content(self, axis: int) -> int:
        """Return the greatest number that the programs along an axis are a multiple of."""
        count = self.grid[axis] if axis < len(self.grid) else None
        return math.gcd(*(factor for _, factor in count.terms)) if count is not None and count.terms else 1

    # ---- statements

    def block(self, body: Sequence[ast.stmt], names: dict[str, Value]) -> tuple[Value, bool]:
        """Follow statements. Return what they return, and whether they do so on every way."""
        depth = len(self.path)
        try:
            for statement in body:
                if isinstance(statement, ast.Return):
                    return OPAQUE if statement.value is None else self.value(statement.value, names), True
                if isinstance(statement, ast.If):
                    result, done = self._branch(statement, names)
                    if done:
                        return result, True
                else:
                    self._statement(statement, names)
            return OPAQUE, False
        finally:
            del self.path[depth:]

    def _statement(self, statement: ast.stmt, names: dict[str, Value]) -> None:
        if isinstance(statement, ast.Assign):
            value = self.value(statement.value, names)
            for target in statement.targets:
                self._bind(target, value, names)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._bind(statement.target, self.value(statement.value, names), names)
        elif isinstance(statement, ast.AugAssign):
            right = self.value(statement.value, names)
            if isinstance(statement.target, ast.Name):
                left = names.get(statement.target.id, OPAQUE)
                names[statement.target.id] = self.arithmetic.operate(type(statement.op), left, right)
        elif isinstance(statement, ast.For):
            self._loop(statement, names)
        elif isinstance(statement, ast.Expr):
            self.value(statement.value, names)
        elif isinstance(statement, ast.Pass | ast.Assert):
            pass
        else:
            # Anything else may run any number of times: what stands in it is not followed.
            self.path.append(OPAQUE)
            for inner in (node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement):
                if not isinstance(inner, ast.Return | ast.If):
                    self._statement(inner, names)
            self.path.pop()
            for name in _written(statement):
                names[name] = OPAQUE

    def _bind(self, target: ast.expr, value: Value, names: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple):
            parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else None
            for index, element in enumerate(target.elts):
                self._bind(element, parts[index] if parts else OPAQUE, names)

    def _branch(self, branch: ast.If, names: dict[str, Value]) -> tuple[Value, bool]:
        """Follow the way that a known condition takes, else both; names that they bind differently are then opaque."""
        known, condition = self._test(branch.test, names)
        if known is not None:
            return self.block(branch.body if known else branch.orelse, names)
        negation = ~condition if condition is not None else OPAQUE
        other = dict(names)
        self.path.append(condition)
        first, returns = self.block(branch.body, names)
        self.path[-1] = negation
        second, other_returns = self.block(branch.orelse, other)
        self.path.pop()
        if returns and other_returns:
            return first if first == second else OPAQUE, True
        if returns or other_returns:
            # What follows happens on the other way alone.
            self.path.append(negation if returns else condition)
            if returns:
                names.clear()
                names.update(other)
            return OPAQUE, False
        for name in {*names, *other}:
            if names.get(name, OPAQUE) != other.get(name, OPAQUE):
                names[name] = OPAQUE
        return OPAQUE, False

    def _test(self, node: ast.expr, names: dict[str, Value]) -> tuple[bool | None, Formula | None]:
        """Return whether a condition holds, if that is known, and the condition. A number is one: that it is not 0."""
        value = self.value(node, names)
        if isinstance(value, Polynomial):
            value = self.arithmetic.compare(ast.NotEq, value, ZERO)
        if isinstance(value, bool):
            return value, OPAQUE
        return (value.value, value) if isinstance(value, Formula) else (None, OPAQUE)

    def _loop(self, loop: ast.For, names: dict[str, Value]) -> None:
        """Follow the body for any iteration.

        A pointer or a number that every iteration moves by the same amount is known in each; whatever else the body
        changes by way of its old value is opaque.
        """
        call = loop.iter
        arguments = [self.arithmetic.plain(self.value(a, names)) for a in getattr(call, "args", [])]
        if len(arguments) == 1:
            arguments.insert(0, ZERO)
        start, stop, step = [*arguments, ONE][:3] if len(arguments) in (2, 3) else (None, None, None)
        known = start is not None and stop is not None and step is not None and (step.value or 0) > 0
        number = count = None
        if known and start is not None and stop is not None and step is not None and step.value is not None:
            span = stop - start + Polynomial.constant(step.value - 1)
            count = self.symbols.extreme(False, ZERO, self.symbols.quotient(span, step.value, False))
            number = self.symbols.index("loop", count)
            self._bind(loop.target, start + number * step, names)
        else:
            self._bind(loop.target, OPAQUE, names)
        carried = [name for name in _written(*loop.body) if isinstance(names.get(name), Polynomial | Pointer)]
        moved = self._increments(loop.body, names, carried)
        for name in carried:
            delta = moved.get(name)
            names[name] = self._at(names[name], delta, number)
        before = {name: names[name] for name in carried}
        runs = OPAQUE
        if number is not None and count is not None:
            runs = Formula.at_least_0(number, count - number - ONE)
        self.path.append(runs)
        self.block(loop.body, names)
        self.path.pop()
        for name in _written(*loop.body):
            names[name] = OPAQUE
        for name in carried:
            delta = moved.get(name)
            start_value = self._at(before[name], -delta if delta is not None else None, number)
            names[name] = self._at(start_value, delta, count)

    def _at(self, value: Value, delta: Polynomial | None, times: Polynomial | None) -> Value:
        if delta is None or times is None or value is OPAQUE:
            return value if delta == ZERO else OPAQUE
        moved = delta * times
        return Pointer(value.tensor, value.offset + moved) if isinstance(value, Pointer) else value + moved

    def _increments(self, body: Sequence[ast.stmt], names: dict[str, Value], carried: list[str]) -> dict[str, Any]:
        """Return by how much an iteration moves each of the carried names, where that is the same for all of them."""
        trial, known = dict(names), set(self.symbols.definitions)
        accesses, calls = list(self.accesses), list(self.calls)
        for name in carried:
            place = Polynomial.symbol(f"before {name}")
            value = names[name]
            trial[name] = Pointer(value.tensor, place) if isinstance(value, Pointer) else place
        self.path.append(OPAQUE)
        self.block(body, trial)
        self.path.pop()
        self.accesses[:], self.calls[:] = accesses, calls
        found = {}
        for name in carried:
            value, place = trial.get(name), Polynomial.symbol(f"before {name}")
            after = value.offset if isinstance(value, Pointer) else value
            if isinstance(after, Polynomial) and type(value) is type(names[name]):
                delta = after - place
                inner = {s for s in delta.symbols if s.startswith("before ") or s.startswith("loop")}
                if not inner and not (delta.symbols & (set(self.symbols.definitions) - known)):
                    found[name] = delta
        return found

    # ---- expressions

    def value(self, node: ast.expr, names: dict[str, Value]) -> Value:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return Formula.true() if node.value else Formula(())
            return Polynomial.constant(node.value) if isinstance(node.value, int) else OPAQUE
        if isinstance(node, ast.Name):
            return names.get(node.id, OPAQUE)
        if isinstance(node, ast.Tuple):
            return tuple(self.value(element, names) for element in node.elts)
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, names), self.value(node.right, names)
            return self.arithmetic.operate(type(node.op), left, right)
        if isinstance(node, ast.UnaryOp):
            value = self.value(node.operand, names)
            if isinstance(node.op, ast.USub):
                value = self.arithmetic.plain(value)
                return -value if value is not None else OPAQUE
            negates = isinstance(node.op, ast.Not | ast.Invert) and isinstance(value, Formula)
            return ~value if negates else OPAQUE
        if isinstance(node, ast.BoolOp):
            parts = [self.value(part, names) for part in node.values]
            result = parts[0]
            for part in parts[1:]:
                result = self.arithmetic.operate(
                    ast.BitAnd if isinstance(node.op, ast.And) else ast.BitOr, result, part
                )
            return result
        if isinstance(node, ast.Compare):
            values = [self.value(part, names) for part in (node.left, *node.comparators)]
            return self.arithmetic.compare(type(node.ops[0]), *values) if len(values) == 2 else OPAQUE
        if isinstance(node, ast.Subscript):
            # [:, None] and its kind add dims; anything else would pick elements.
            value = self.value(node.value, names)
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return value if all(_keeps(item) for item in items) else OPAQUE
        if isinstance(node, ast.Call):
            return self._call(node, names)
        if isinstance(node, ast.IfExp):
            return self._choice(node, names)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.expr):
                self.value(inner, names)
        return OPAQUE

    def _choice(self, node: ast.IfExp, names: dict[str, Value]) -> Value:
        """Follow `a if test else b`: the way that a known condition takes, else both, each under its condition."""
        known, condition = self._test(node.test, names)
        if known is not None:
            return self.value(node.body if known else node.orelse, names)
        self.path.append(condition)
        first = self.value(node.body, names)
        self.path[-1] = ~condition if condition is not None else OPAQUE
        second = self.value(node.orelse, names)
        self.path.pop()
        return first if first == second else OPAQUE

    def _call(self, node: ast.Call, names: dict[str, Value]) -> Value:
        keywords = {keyword.arg: self.value(keyword.value, names) for keyword in node.keywords}
        arguments = [self.value(argument, names) for argument in node.args]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner: Value = OPAQUE
        if isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name) and node.func.value.id in ("gl", "tl"):
                return self._language(name, arguments, keywords, node.lineno)
            owner = self.value(node.func.value, names)
            if name == "to" and not isinstance(owner, Pointer):
                return owner
        elif name in self.functions and hands_on(self.functions[name]):
            return arguments[0]
        elif name in self.functions:
            return self._inlined(self.functions[name], arguments, keywords, node.lineno)
        if any(isinstance(value, Pointer) for value in (owner, *arguments, *keywords.values())):
            self.accesses.append(Access(name, node.lineno, OPAQUE, OPAQUE))
        return OPAQUE

    def _inlined(
        self, function: ast.FunctionDef, arguments: list[Value], keywords: dict[str | None, Value], line: int
    ) -> Value:
        parameters = [argument.arg for argument in function.args.args]
        inner = dict(zip(parameters, arguments, strict=False))
        inner |= {key: value for key, value in keywords.items() if key is not None}
        before = len(self.accesses)
        result, _ = self.block(function.body, inner)
        if function.name in self.watched:
            self.calls.append(Call(line, self._happens(Formula.true()), inner, tuple(self.accesses[before:])))
        return result

    def _language(self, name: str, arguments: list[Value], keywords: dict[str | None, Value], line: int) -> Value:
        plain = [self.arithmetic.plain(argument) for argument in arguments]
        if name == "program_id" and plain and plain[0] is not None and plain[0].value is not None:
            axis = plain[0].value
            count = self.grid[axis] if axis < len(self.grid) else None
            symbol = f"program_id({axis})"
            if count is None:
                return OPAQUE
            several = self._content(axis)
            if several > 1:
                count = Polynomial.of({monomial: factor // several for monomial, factor in count.terms})
            if symbol not in self.symbols.definitions:
                self.symbols.index("program", count, symbol)
            number = Polynomial.constant(self.shares.setdefault(axis, 0)) if several > 1 else ZERO
            return Polynomial.symbol(symbol) * Polynomial.constant(several) + number
        if name == "num_programs" and plain and plain[0] is not None and plain[0].value is not None:
            return self.grid[plain[0].value] if plain[0].value < len(self.grid) else OPAQUE
        if name == "arange" and plain[0] is not None and plain[1] is not None:
            count = plain[1] - plain[0]
            return OPAQUE if count.value is None or count.value < 1 else plain[0] + self.symbols.index("lane", count)
        if name == "cdiv" and plain[0] is not None and plain[1] is not None:
            return self.arithmetic.quotient(plain[0] + plain[1] - ONE, plain[1])
        if name in ("minimum", "maximum") and plain[0] is not None and plain[1] is not None:
            return self.symbols.extreme(name == "minimum", plain[0], plain[1])
        if name in SAME:
            return arguments[0]
        if name in ("load", "store"):
            place = 1 if name == "load" else 2
            mask = keywords.get("mask", arguments[place] if len(arguments) > place else Formula.true())
            self._touch(name, line, arguments[0], mask)
        elif any(isinstance(value, Pointer) for value in (*arguments, *keywords.values())):
            self.accesses.append(Access(name, line, OPAQUE, OPAQUE))
        return OPAQUE

    def _touch(self, kind: str, line: int, address: Value, mask: Value) -> None:
        condition = self._happens(mask if isinstance(mask, Formula) else OPAQUE)
        share = tuple(number for _, number in sorted(self.shares.items()))
        self.accesses.append(Access(kind, line, address if isinstance(address, Pointer) else OPAQUE, condition, share))

    def _happens(self, condition: Formula | None) -> Formula | None:
        """Return a condition together with those of the way here."""
        for part in self.path:
            condition = condition & part if condition is not None and part is not None else OPAQUE
        return condition


def _keeps(node: ast.expr) -> bool:
    whole = isinstance(node, ast.Slice) and node.lower is None and node.upper is None
    return whole or (isinstance(node, ast.Constant) and node.value is None)


def _written(*statements: ast.stmt) -> list[str]:
    """Return the names that some statement binds, in order."""
    found: dict[str, None] = {}
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
    return list(found)
