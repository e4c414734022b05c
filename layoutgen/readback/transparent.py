"""Functions of an emitted file that hand on their one argument, as their text says."""

from __future__ import annotations

import ast

COPY = {"asm": "'mov.b32 $0, $1;'", "constraints": "'=r,r'", "dtype": "gl.int32", "pack": "1"}
"""The machine code that copies one register for each element."""


def hands_on(function: ast.FunctionDef) -> bool:
    """Return whether a function returns its argument: a copy of it, or a multiple divided and multiplied again.

    That the argument is a multiple of the number the host function sees to: see prove_checks.

    >>> text = "def whole(number):\\n    return number // 8 * 8"
    >>> [hands_on(ast.parse(text.replace("* 8", times)).body[0]) for times in ("* 8", "* 4")]
    [True, False]
    """
    arguments = [argument.arg for argument in function.args.args]
    if len(arguments) != 1 or any(_binds(statement) for statement in function.body[:-1]):
        return False
    match function.body[-1]:
        case ast.Return(
            ast.BinOp(
                ast.BinOp(ast.Name(name), ast.FloorDiv(), ast.Constant(divisor)), ast.Mult(), ast.Constant(factor)
            )
        ):
            return [name] == arguments and divisor == factor
        case ast.Return(ast.Call(ast.Attribute(ast.Name("gl"), "inline_asm_elementwise"), [], keywords)):
            given = {keyword.arg: keyword.value for keyword in keywords}
            wanted = {**COPY, "args": f"[{arguments[0]}]"}
            return {name: ast.unparse(given[name]) for name in wanted if name in given} == wanted
    return False


def _binds(statement: ast.stmt) -> bool:
    """Whether a statement is more than a docstring."""
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
