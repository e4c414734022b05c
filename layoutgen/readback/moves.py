"""Claim 5 for the code of an emitted file: it cuts, orders and slices tiles as the proved stagings do."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from layoutgen.proofs import Certificate, Obligation, Refutation, Verdict

MOVES = (
    "reshape",
    "permute",
    "allocate_shared_memory",
    "store",
    "slice",
    "load",
    "static_range",
    "zeros",
    "convert_layout",
    "split",
    "join",
    "reinterpret",
    "_reinterpret",
    "inline_asm_elementwise",
    "SwizzledSharedLayout",
    "barrier",
)
"""Calls that say where a tile goes, and to which instruction. gl.load and gl.store are a matter of their masks."""


HAND_ON = (ast.Name, ast.Tuple, ast.Call)
"""Expressions that hand on values as they are, if a call among them is a move."""


@dataclass(frozen=True)
class Move:
    """One move, as text, and where it stands: its function, and the loops and branches within."""

    place: str
    line: int
    text: str


def moves(source: str) -> Iterator[Move]:
    """Yield the moves of a file, in the order of its text, with what they take and where it goes.

    Moves are the calls in MOVES, calls of functions of the file that have moves, what is bound to or returned from
    such a call, and names that are bound to other names. Of what a move takes arithmetic is left out: it has no place.
    """
    tree = ast.parse(source)
    moving = _moving({node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)})
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield from _within(statement.body, statement.name, moving, statement.name in moving)
        else:
            yield from _calls(statement, "the file", moving)


def _moving(functions: Mapping[str, ast.FunctionDef]) -> frozenset[str]:
    """Return the functions that have a move, or call one that has."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, function in functions.items()
            if any(isinstance(node, ast.Call) and _is_move(node, found) for node in ast.walk(function))
        }
        if more <= found:
            return frozenset(found)
        found |= more


def _within(body: Sequence[ast.stmt], place: str, moving: frozenset[str], handed: bool) -> Iterator[Move]:
    """Yield the moves of statements; `handed`: names that are bound to names or returned count."""
    for statement in body:
        blocks = [
            (f"{type(statement).__name__.lower()}{' else' * (part == 'orelse')}", getattr(statement, part))
            for part in ("body", "orelse")
            if getattr(statement, part, None)
        ]
        if blocks:
            for field in ("test", "iter"):
                if isinstance(head := getattr(statement, field, None), ast.expr):
                    yield from _calls(head, place, moving)
            for kind, inner in blocks:
                yield from _within(inner, f"{place}, {kind}", moving, handed)
            continue
        yield from _calls(statement, place, moving)
        value = getattr(statement, "value", None)
        if (
            not handed
            or not isinstance(value, HAND_ON)
            or (isinstance(value, ast.Call) and not _is_move(value, moving))
        ):
            continue
        if isinstance(statement, ast.Assign):
            targets = ", ".join(map(ast.unparse, statement.targets))
            yield Move(place, statement.lineno, f"{targets} = {_without_arithmetic(value)}")
        elif isinstance(statement, ast.Return):
            yield Move(place, statement.lineno, f"return {_without_arithmetic(value)}")


def _calls(node: ast.AST, place: str, moving: Collection[str]) -> Iterator[Move]:
    """Yield the calls that are moves, inner ones first."""
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and _is_move(call, moving)]
    for call in sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)):
        if isinstance(call.func, ast.Attribute):
            arguments = ", ".join(ast.unparse(argument) for argument in (*call.args, *call.keywords))
            yield Move(place, call.lineno, f"{_without_arithmetic(call.func)}({arguments})")
        else:
            yield Move(place, call.lineno, _without_arithmetic(call))


class _Arithmetic(ast.NodeTransformer):
    """Puts dots in the place of arithmetic."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp) and not negative:
            return ast.Name("...")
        return super().generic_visit(node)


def _without_arithmetic(node: ast.expr) -> str:
    return ast.unparse(_Arithmetic().visit(copy.deepcopy(node)))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_move(call: ast.Call, moving: Collection[str]) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in moving
    if _name(call) not in MOVES or not isinstance(call.func, ast.Attribute):
        return False
    of_gl = isinstance(call.func.value, ast.Name) and call.func.value.id == "gl"
    return not (of_gl and _name(call) in ("load", "store"))


def prove_moves(source: str, emitted: str) -> Verdict:
    """Compare the moves of a file with those of what its request emits, which rest on the proved plan."""
    obligation = Obligation(
        "the code moves its tiles as planned",
        5,
        "each reshape, permutation, slice and buffer is that of the plan, and each operand and result",
    )
    have, want = list(moves(source)), list(moves(emitted))
    for found, planned in zip(have, want, strict=False):
        if (found.place, found.text) != (planned.place, planned.text):
            elsewhere = "" if found.place == planned.place else f" in {planned.place}"
            witness = f"{found.place} has {found.text}; the plan has {planned.text}{elsewhere}"
            return Refutation(obligation, "exhaustive", f"line {found.line}", witness)
    if len(have) != len(want):
        longer, who = (have, "the file") if len(have) > len(want) else (want, "the plan")
        extra = longer[min(len(have), len(want))]
        return Refutation(obligation, "exhaustive", f"line {extra.line}", f"only {who} has {extra.text}")
    return Certificate(obligation, "exhaustive", (f"{len(have)} moves compared",))


def prove_checks(source: str, emitted: str) -> Verdict:
    """Compare what the host function of a file refuses with what that of its request refuses.

    The claims about loads and stores are about tensors that have their shapes: the host function sees to that.
    """
    obligation = Obligation(
        "the host function checks its arrays", 6, "it refuses dtypes, shapes and sizes that the kernel is not for"
    )
    have, want = list(_checks(source)), list(_checks(emitted))
    for check in want:
        if have.count(check) != want.count(check):
            return Refutation(obligation, "exhaustive", "launch_arguments", f"it does not have: {check}")
    return Certificate(obligation, "exhaustive", (f"{len(want)} checks compared",))


def _checks(source: str) -> Iterator[str]:
    """Yield the conditions on which the host function raises, with the loop that they stand in.

    Of several launches, whose arguments say what one kernel hands to the next, every statement counts.
    """
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name in ("launches", "workspace"):
            yield from (ast.unparse(node) for node in statement.body)
        if isinstance(statement, ast.FunctionDef) and statement.name == "launch_arguments":
            for node in statement.body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("sizes", "vectors"):
                    yield ast.unparse(node)  # multiples, which the kernel takes for granted
                inside = node.body if isinstance(node, ast.For) else [node]
                loop = (
                    f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}: " if isinstance(node, ast.For) else ""
                )
                for test in inside:
                    if isinstance(test, ast.If) and any(isinstance(inner, ast.Raise) for inner in test.body):
                        yield loop + ast.unparse(test.test)
