"""What the host function of an emitted file says about a launch: its grid, and what it passes to the kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from layoutgen.readback.accesses import Walk
from layoutgen.readback.arithmetic import Arithmetic
from layoutgen.readback.indices import Formula, Symbols
from layoutgen.readback.polynomial import Polynomial

TRUE = Formula.true()


@dataclass(frozen=True)
class Launch:
    """`grid` has None where it is not followed; `passed` the values of parameters; `flags` are constexpr conditions,
    each with what it says, or None where that is not followed. `exact` has the parameters that are a quotient."""

    grid: tuple[Polynomial | None, ...]
    passed: Mapping[str, Polynomial]
    flags: Mapping[str, Formula | None]
    exact: Mapping[str, tuple[str, str]]
    facts: Formula = TRUE
    """What else holds of the values that are passed."""


def read_launch(host: ast.FunctionDef, kernel: ast.FunctionDef, symbols: Symbols) -> Launch:
    """Read a host function that ends in `return grid, (arrays..., scalars...)`."""
    arithmetic = Arithmetic(symbols, to_zero=False)
    walk = Walk({}, (), arithmetic)
    names = Host()
    grid: tuple[Polynomial | None, ...] = ()
    facts = TRUE
    for node in host.body:
        if isinstance(node, ast.Return):
            break
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            for other in bound(node) - {name}:
                names[other] = None
            if name == "grid":
                elements = node.value.elts if isinstance(node.value, ast.Tuple) else []
                grid = tuple(arithmetic.plain(walk.value(element, names)) for element in elements)
            else:
                value = walk.value(node.value, names)
                names[name] = value if isinstance(value, Polynomial | Formula) else Polynomial.symbol(name)
        else:
            if not (isinstance(node, ast.Assign) and _shape_of(node.value)):
                for name in bound(node) & {*names, *symbols.sizes}:
                    names[name] = None  # on some way it is another
            for test in _refused(node):
                value = walk.value(test, names)
                facts &= ~value if isinstance(value, Formula) else TRUE
    constexpr = {a.arg for a in kernel.args.args if a.annotation is not None}
    values: dict[str, Polynomial] = {}
    flags: dict[str, Formula | None] = {}
    for name, given in passed(host, kernel).items():
        value = walk.value(given, names)
        words = ast.Compare | ast.BoolOp | ast.Constant | ast.Name
        is_condition = isinstance(value, Formula) or isinstance(given, words)
        if name in constexpr and is_condition:
            flags[name] = value if isinstance(value, Formula) else None
        elif isinstance(value, Polynomial):
            values[name] = value
    return Launch(grid, values, flags, divisors(host, kernel), facts)


def bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds, on any way through it."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}


def _refused(node: ast.stmt) -> Iterator[ast.Compare]:
    """Yield the comparisons of a name with a number of which each makes the host function raise."""
    if not isinstance(node, ast.If) or not isinstance(node.body[0], ast.Raise):
        return
    alone = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or)
    for test in node.test.values if isinstance(node.test, ast.BoolOp) and alone else [node.test]:
        match test:
            case ast.Compare(ast.Name(), [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], [ast.Constant(int())]):
                yield test


class Host(dict[str, object]):
    """The names of a host function: what is not computed is a symbol of its own."""

    def get(self, name: str, _default: object = None) -> object:
        return self[name] if name in self else Polynomial.symbol(name)


def passed(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return what the host passes for the kernel's last parameters: those after the strides."""
    for node in host.body:
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            arguments = node.value.elts[1]
            values = arguments.elts if isinstance(arguments, ast.Tuple) else []
            plain: list[ast.expr] = []
            for value in reversed(values):
                if isinstance(value, ast.Starred):
                    break
                plain.append(value)
            parameters = [argument.arg for argument in kernel.args.args]
            return dict(zip(reversed(parameters), plain, strict=False))
    return {}


def divisors(host: ast.FunctionDef, kernel: ast.FunctionDef) -> dict[str, tuple[str, str]]:
    """Return the parameters that are a quotient whole // part, where the host refuses a remainder."""
    exact = {
        (node.left.id, node.right.id)
        for test in (inner.test for inner in ast.walk(host) if isinstance(inner, ast.If))
        for node in ast.walk(test)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
        if isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name)
    }
    found = {}
    for name, value in passed(host, kernel).items():
        match value:
            case ast.BinOp(left=ast.Name(id=whole), op=ast.FloorDiv(), right=ast.Name(id=part)) if (
                whole,
                part,
            ) in exact:
                found[name] = (whole, part)
    return found


def shape_faults(
    host: ast.FunctionDef, dims: Mapping[str, tuple[tuple[str, str, str | int], ...]]
) -> Iterator[tuple[int, str]]:
    """Yield the lines where the host takes a size from a dim that has another, or checks an array against one."""
    lengths = {length for tensor in dims.values() for _, _, length in tensor if isinstance(length, str)}
    for node in ast.walk(host):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            tensor, elements = _shape_of(node.value), node.targets[0].elts
        elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[2], ast.Tuple):
            # ("k", k, (batch, kv_heads, ...)): an array and the shape that it must have
            tensor, elements = getattr(node.elts[1], "id", ""), node.elts[2].elts
            if not any(isinstance(element, ast.Name) for element in elements):
                continue  # the names of dtypes
            if len(elements) != len(dims.get(tensor, elements)):
                yield node.lineno, f"{tensor} is checked against a shape of {len(elements)} dims"
        else:
            continue
        if tensor not in dims:
            continue
        names = [getattr(element, "id", "") for element in elements]
        for name, (_, _, length) in zip(names, dims[tensor][-len(names) :], strict=False):
            if name in lengths and name != length:
                yield node.lineno, f"{name} stands for the dim of {tensor} that has {length}"


def _shape_of(node: ast.expr) -> str:
    """Return x of `x.shape` or `x.shape[-2:]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name):
        return node.value.id
    return ""
