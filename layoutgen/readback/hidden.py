"""Whether a tile's scores are hidden where its masks say so: the statements of `attend` that do it, as they stand.

What a mask is made of is followed elsewhere; here it is applied: each mask once, and nothing shows a score again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from layoutgen.kernels import FastAttentionRequest
from layoutgen.readback.places import Fault

HIDDEN = "scores = gl.where({}, scores, -float('inf'))"
LOADED = "attended = load_scores(mask, stride_mq, stride_mk, mask_row, first, keys_left, masked, wide)"
HANDED_ON = ("gl.load(pointer + offset", "tile.reshape(", "gl.convert_layout(tile.reshape(")
"""How the calls of `load_scores` begin that hand on what is loaded; how they reorder it is proved of the moves."""
BESIDE_BIAS = "scores = scores - reference[:, None]"
"""Leaves -inf what is -inf: the reference of a row is finite."""


def hidden_fault(functions: Mapping[str, ast.FunctionDef], request: FastAttentionRequest) -> Fault | None:
    """Return why scores are not hidden exactly where `visible`, and the mask of the request, are false.

    The mask of a request is loaded once and hides scores in every tile; `visible` does in the block that makes it.
    """
    attend = functions.get("attend")
    if attend is None:
        return Fault("the file", "has no function attend")
    statements = list(_assignments(attend.body))
    hides = {HIDDEN.format("visible"): "visible"}
    if request.mask:
        hides[HIDDEN.format("attended != 0")] = "attended"
        loads = [(line, text) for line, name, text, _ in statements if name == "attended"]
        if [text for _, text in loads] != [LOADED]:
            line, text = next(((line, text) for line, text in loads if text != LOADED), (attend.lineno, "nothing"))
            return Fault(f"line {line}", f"the mask is loaded by {text}; by {LOADED} it is that of this tile")
        fault = _changed(functions.get("load_scores"))
        if fault is not None:
            return fault
    of_scores = [statement for statement in statements if statement[1] == "scores"]
    for wanted, mask in hides.items():
        found = [line for line, _, text, _ in of_scores if text == wanted]
        if len(found) != 1:
            others = [(line, text) for line, _, text, _ in of_scores if mask in text and text != wanted]
            none = (attend.lineno, "no such statement")
            line, text = others[0] if others else (found[-1], f"{len(found)} times that") if found else none
            return Fault(f"line {line}", f"scores are to be hidden by {wanted}, once; there is {text}")
    first = min(number for number, statement in enumerate(of_scores) if statement[2] in hides)
    for line, _, text, _ in of_scores[first:]:
        if text not in hides and not (request.bias and text == BESIDE_BIAS):
            return Fault(f"line {line}", f"scores that are hidden are changed by {text}")
    blocks = {text: (line, block) for line, _, text, block in of_scores}
    for wanted, mask in hides.items():
        line, block = blocks[wanted]
        makers = [(at, inside) for at, name, _, inside in statements if name == mask]
        if not makers or any(at > line or inside is not block for at, inside in makers):
            return Fault(f"line {line}", f"{wanted} does not stand after what makes its mask, in the same block")
        if mask == "attended" and block is not attend.body:
            return Fault(f"line {line}", f"{wanted} does not stand in every tile")
        if _used_before(attend, line):
            return Fault(f"line {line}", f"{wanted} comes after a use of the scores")
    return None


def _used_before(attend: ast.FunctionDef, line: int) -> bool:
    """Whether something else is made of the scores before a line."""
    for node in ast.walk(attend):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and "scores" not in _names(node):
            read = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            if node.lineno < line and "scores" in read:
                return True
    return False


def _changed(load_scores: ast.FunctionDef | None) -> Fault | None:
    """Return the statement by which what is loaded for the scores becomes something else."""
    if load_scores is None:
        return Fault("the file", "has no function load_scores")
    for node in ast.walk(load_scores):
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
            continue
        if not isinstance(node, ast.Return) and "tile" not in _names(node):
            continue
        value = None if isinstance(node, ast.AugAssign) else node.value
        # What is loaded, under the mask of a tile or without; any other value is one call that hands it on.
        for call in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if not isinstance(call, ast.Call) or not ast.unparse(call).startswith(HANDED_ON):
                return Fault(f"line {node.lineno}", f"what is loaded for the scores is changed by {ast.unparse(node)}")
    return None


def _names(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[str]:
    """Return the names that a statement assigns to."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    nodes = (node for target in targets for node in ast.walk(target))
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _assignments(block: Sequence[ast.stmt]) -> Iterator[tuple[int, str, str, Sequence[ast.stmt]]]:
    """Yield line, name, text and block of each assignment to a name, in the order of the text."""
    for statement in block:
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for name in _names(statement):
                yield statement.lineno, name, ast.unparse(statement), block
        for field in ("body", "orelse"):
            yield from _assignments(getattr(statement, field, ()))
