"""Claim 5 for the code of an emitted file: statement by statement it moves what the plan moves, from and to where."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layoutgen.proofs import Certificate, Obligation, Refutation, Verdict
from layoutgen.readback.transparent import hands_on

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr)
"""Operators of arithmetic and of masks. An exclusive or, and the shifts in it, turn rows: that is a move."""
PLACES = ("slice", "store_part")
"""Functions whose arguments say from or to which place of a buffer, or of C, a tile goes: compared as they stand."""
LITERALS = ("DistributedLinearLayout", "BlockedLayout")
"""Layouts that are proved as they stand; all others are compared."""


@dataclass(frozen=True)
class Line:
    """A statement without its arithmetic, and where it stands: its function, and the loops and branches within."""

    place: str
    number: int
    text: str


def lines(source: str) -> Iterator[Line]:
    """Yield the statements of a file's kernels and its constants, with dots in the place of arithmetic.

    Left out are docstrings, the layouts that are proved themselves, and the functions of the host. Of functions that
    hand on their argument, which claim 6 takes at their word, nothing is left out.
    """
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef):
            if _is_kernel(statement):
                yield Line(statement.name, statement.lineno, f"def {statement.name}({ast.unparse(statement.args)})")
                if hands_on(statement):
                    yield Line(statement.name, statement.body[-1].lineno, ast.unparse(statement.body[-1]))
                else:
                    yield from _within(statement.body, statement.name)
        elif isinstance(statement, ast.Assign | ast.Import | ast.ImportFrom):
            calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
            proved = any(isinstance(call, ast.Attribute) and call.attr in LITERALS for call in calls)
            names = [ast.unparse(target) for target in getattr(statement, "targets", [])]
            if not proved and names != ["REQUEST"]:
                yield Line("the file", statement.lineno, ast.unparse(statement))


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _within(body: Sequence[ast.stmt], place: str) -> Iterator[Line]:
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        kind = type(statement).__name__.lower()
        inner = {part: getattr(statement, part) for part in ("body", "orelse") if getattr(statement, part, None)}
        if not inner:
            yield Line(place, statement.lineno, _without_arithmetic(statement))
            continue
        heads = [getattr(statement, field, None) for field in ("target", "iter", "test")]
        words = " ".join(_without_arithmetic(head) for head in heads if head is not None)
        yield Line(place, statement.lineno, f"{kind} {words}")
        for part, statements in inner.items():
            yield from _within(statements, f"{place}, {kind}{' else' * (part == 'orelse')}")


class _Arithmetic(ast.NodeTransformer):
    """Leaves of arithmetic and comparisons the names and calls in them: `...(a, f(b))`."""

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name)) if name in PLACES:
                return node
            case ast.UnaryOp(operand=ast.Constant()):
                return node
            case ast.BinOp(op=op) if not isinstance(op, ARITHMETIC):
                return node
            case ast.BinOp() | ast.BoolOp() | ast.Compare() | ast.UnaryOp():
                found = {ast.unparse(self.visit(leaf)) for leaf in _leaves(node)}
                return ast.Call(ast.Name("..."), [ast.Name(text) for text in sorted(found)], [])
        return self.generic_visit(node)


def _leaves(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what arithmetic is done with, constants left out."""
    inner = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp)
    for child in ast.iter_child_nodes(node):
        turned = isinstance(child, ast.BinOp) and not isinstance(child.op, ARITHMETIC)
        if isinstance(child, inner) and not turned:
            yield from _leaves(child)
        elif isinstance(child, ast.expr) and not isinstance(child, ast.Constant):
            yield child


def _without_arithmetic(node: ast.AST) -> str:
    return ast.unparse(_Arithmetic().visit(copy.deepcopy(node)))


def prove_moves(source: str, emitted: str) -> Verdict:
    """Compare the code of a file's kernels with what its request emits, which rests on the proved plan."""
    obligation = Obligation(
        "the code moves its tiles as planned",
        5,
        "but for arithmetic each statement is that of the plan: what is moved, from where, to where, in which order",
    )
    have, want = list(lines(source)), list(lines(emitted))
    for found, planned in zip(have, want, strict=False):
        if (found.place, found.text) != (planned.place, planned.text):
            elsewhere = "" if found.place == planned.place else f" in {planned.place}"
            witness = f"{found.place} has `{found.text}`; the plan has `{planned.text}`{elsewhere}"
            return Refutation(obligation, "exhaustive", f"line {found.number}", witness)
    if len(have) != len(want):
        longer, who = (have, "the file") if len(have) > len(want) else (want, "the plan")
        extra = longer[min(len(have), len(want))]
        return Refutation(obligation, "exhaustive", f"line {extra.number}", f"only {who} has `{extra.text}`")
    return Certificate(obligation, "exhaustive", (f"{len(have)} statements compared",))


def prove_checks(source: str, emitted: str) -> Verdict:
    """Compare what the host functions of a file do with what those of its request do.

    The claims about loads and stores are about tensors that have their shapes: the host sees to that, and may check
    more. Its grid, and whether tiles are whole, are read by claim 6 itself.
    """
    obligation = Obligation(
        "the host function checks its arrays", 6, "it refuses dtypes, shapes and sizes that the kernel is not for"
    )
    have, want = list(_checks(source)), [text for text, _ in _checks(emitted)]
    planned = [text for text, _ in have if text in want]
    for text in want:
        if planned.count(text) < want.count(text):
            return Refutation(obligation, "exhaustive", "the host function", f"it does not have: {text}")
    more = next((text for text, only_checks in have if text not in want and not only_checks), None)
    if more is not None:
        return Refutation(obligation, "exhaustive", "the host function", f"it also has: {more}")
    if planned != want:
        moved = next(text for text, other in zip(planned, want, strict=False) if text != other)
        return Refutation(obligation, "exhaustive", "the host function", f"it has in another order: {moved}")
    return Certificate(obligation, "exhaustive", (f"{len(want)} statements compared",))


DECIDED = ("grid", "whole")
"""What the host decides of a launch, as claim 6 reads it."""


def _checks(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the statements of the functions that are no kernels, messages left out, and whether each only refuses.

    What is decided for a launch alone is left out too. Of several launches, whose arguments say what one kernel hands
    to the next, every statement counts.
    """
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef) or _is_kernel(function):
            continue
        yield f"def {function.name}({ast.unparse(function.args)})", False
        for node in function.body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            decided = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in DECIDED
            if not docstring and not (decided and function.name == "launch_arguments"):
                text = ast.unparse(_Messages().visit(copy.deepcopy(node)))
                yield text, _only_refuses(node)


def _only_refuses(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.body[0], ast.Raise)
        and not node.orelse
        and not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node))
    )


class _Messages(ast.NodeTransformer):
    """Leaves out what an error says."""

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(kind, None)
