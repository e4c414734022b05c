"""Claim 5 for the code of an emitted file: it cuts, orders and slices tiles as the proved stagings do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
)
"""Calls that say where a tile goes, and to which instruction. gl.load and gl.store are a matter of their masks."""


@dataclass(frozen=True)
class Move:
    function: str
    line: int
    text: str


def moves(source: str) -> Iterator[Move]:
    """Yield the moves of a file's functions and its shared layouts, in the order of the text, with their arguments."""
    for statement in ast.parse(source).body:
        place = statement.name if isinstance(statement, ast.FunctionDef) else "the file"
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and _is_move(node)]
        for call in sorted(calls, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)):
            arguments = [ast.unparse(argument) for argument in (*call.args, *call.keywords)]
            yield Move(place, call.lineno, f"{_name(call)}({', '.join(arguments)})")


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_move(call: ast.Call) -> bool:
    if _name(call) not in MOVES or not isinstance(call.func, ast.Attribute):
        return False
    of_gl = isinstance(call.func.value, ast.Name) and call.func.value.id == "gl"
    return not (of_gl and _name(call) in ("load", "store"))


def prove_moves(source: str, emitted: str) -> Verdict:
    """Compare the moves of a file with those of what its request emits, which rest on the proved plan."""
    obligation = Obligation(
        "the code moves its tiles as planned", 5, "each reshape, permutation, slice and buffer is that of the plan"
    )
    have, want = list(moves(source)), list(moves(emitted))
    for found, planned in zip(have, want, strict=False):
        if (found.function, found.text) != (planned.function, planned.text):
            witness = f"{found.function} has {found.text}; the plan has {planned.text}"
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
