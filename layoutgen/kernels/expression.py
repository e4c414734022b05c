"""Small expressions in x: what an epilogue does to each element of the accumulator.

The same text is checked before anything is emitted, written into the kernel, and evaluated in float64 as the reference.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.errors import LayoutgenError

EPILOGUES = {
    "none": "x",
    "relu": "maximum(x, 0.0)",
    "silu": "x / (1.0 + exp(-x))",
    "gelu": "0.5 * x * (1.0 + erf(0.7071067811865476 * x))",
    "gelu_tanh": "x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))",
}
"""Epilogues by name. 0.5 (1 + tanh(u)) is 1 / (1 + exp(-2 u)), which needs no tanh; 1.59... is 2 sqrt(2 / pi)."""

FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "exp": (1, np.exp),
    "exp2": (1, np.exp2),
    "log": (1, np.log),
    "sqrt": (1, np.sqrt),
    "abs": (1, np.abs),
    "erf": (1, np.vectorize(math.erf, otypes=[np.float64])),
    "maximum": (2, np.maximum),
    "minimum": (2, np.minimum),
    "where": (3, np.where),
}
"""Functions that an expression may call: how many arguments they take, and numpy's version."""
NAN_KEEPING = {"maximum": ">", "minimum": "<"}
"""Functions that emitted files define, with the comparison that prefers the first argument: Triton's drop NaN."""
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
MAX_LENGTH = 200
CHARACTERS = r"[A-Za-z0-9_ .,+*/<>=()-]*"
"""What an expression is written in: no quotes, comments or ends of lines, which would end those of an emitted file."""


@dataclass(frozen=True)
class Expression:
    """An expression in x, by name or written out. Raises LayoutgenError on what is none.

    NaN goes through all of them, as it does in numpy. What has no x in it must be finite, and what fp32 holds.

    >>> Expression("relu").gluon
    'maximum(x, 0.0)'
    >>> Expression("where(x > 0, x, 0.1 * x)").evaluate(np.array([-1.0, 2.0])).tolist()
    [-0.1, 2.0]
    """

    text: str

    def __post_init__(self) -> None:
        _ = self.gluon
        if not re.fullmatch(CHARACTERS, self.text):
            raise LayoutgenError(
                f"epilogue {self.text!r}: is written in letters, digits, blanks and any of _ . , + - * / < > = ( ), "
                "since it is quoted in the emitted file"
            )
        for node in ast.walk(self._tree):
            self._check_constant(node)
        for call in (self._tree, *(node for node in ast.walk(self._tree) if isinstance(node, ast.Call))):
            if not any(isinstance(node, ast.Name) and node.id == "x" for node in ast.walk(call)):
                raise LayoutgenError(f"epilogue {self.text!r}: {ast.unparse(call)!r} does not depend on x")

    def _check_constant(self, node: ast.AST) -> None:
        """Refuse a number, or what is reckoned from numbers alone, that fp32 makes infinite, NaN or 0."""
        if not isinstance(node, ast.Constant | ast.BinOp) or any(isinstance(part, ast.Name) for part in ast.walk(node)):
            return
        with np.errstate(all="ignore"):
            value = self._value(node, np.zeros(()))
            rounded = np.float32(value)
        if not np.isfinite(rounded) or (rounded == 0) != (value == 0):
            raise LayoutgenError(
                f"epilogue {self.text!r}: {ast.unparse(node)!r} is {value} and {rounded} in float32; "
                f"numbers are 0, or from {np.finfo(np.float32).smallest_subnormal} to {np.finfo(np.float32).max}"
            )

    @property
    def helpers(self) -> dict[str, str]:
        """The functions that an emitted file defines for it, with their comparisons."""
        names = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        return {name: comparison for name, comparison in NAN_KEEPING.items() if name in names}

    @cached_property
    def _tree(self) -> ast.expr:
        written = EPILOGUES.get(self.text, self.text)
        if len(written) > MAX_LENGTH:
            raise LayoutgenError(f"epilogue: {len(written)} characters; at most {MAX_LENGTH} are allowed")
        try:
            return ast.parse(written, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise LayoutgenError(
                f"epilogue {self.text!r}: is neither one of {', '.join(EPILOGUES)} nor an expression in x, for example "
                "'maximum(x, 0.0)'"
            ) from error

    @cached_property
    def gluon(self) -> str:
        """The expression as Gluon writes it."""
        return self._write(self._tree, False)

    def _write(self, node: ast.expr, inner: bool) -> str:
        match node:
            case ast.Name(id="x"):
                return "x"
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as value) if math.isfinite(value):
                return repr(float(value))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._write(operand, True)}"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                text = f"{self._write(left, True)} {OPERATORS[type(op)]} {self._write(right, True)}"
                return f"({text})" if inner else text
            case ast.Call(
                func=ast.Name(id="where"),
                args=[ast.Compare(left=left, ops=[op], comparators=[right]), first, second],
                keywords=[],
            ) if type(op) in COMPARISONS:
                condition = f"{self._write(left, True)} {COMPARISONS[type(op)]} {self._write(right, True)}"
                return f"gl.where({condition}, {self._write(first, False)}, {self._write(second, False)})"
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
                name != "where" and name in FUNCTIONS and len(args) == FUNCTIONS[name][0]
            ):
                written = ", ".join(self._write(argument, False) for argument in args)
                return f"{'' if name in NAN_KEEPING else 'gl.'}{name}({written})"
        raise LayoutgenError(
            f"epilogue {self.text!r}: {ast.unparse(node)!r} is not allowed; name one of {', '.join(EPILOGUES)}, "
            f"or write an expression of x, numbers, + - * /, "
            f"{', '.join(FUNCTIONS)}, and one comparison as the first argument of where"
        )

    def evaluate(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expression's value in float64."""
        with np.errstate(all="ignore"):
            return np.asarray(self._value(self._tree, x), dtype=np.float64)

    def _value(self, node: ast.expr, x: NDArray[np.float64]) -> Any:
        match node:
            case ast.Constant(value=value):
                return np.float64(value)  # type: ignore[arg-type]
            case ast.UnaryOp(operand=operand):
                return -self._value(operand, x)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._value(left, x), self._value(right, x)
                return {
                    ast.Add: np.add,
                    ast.Sub: np.subtract,
                    ast.Mult: np.multiply,
                    ast.Div: np.divide,
                }[type(op)](first, second)  # fmt: skip
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                first, second = self._value(left, x), self._value(right, x)
                return {
                    ast.Lt: np.less,
                    ast.LtE: np.less_equal,
                    ast.Gt: np.greater,
                    ast.GtE: np.greater_equal,
                }[type(op)](first, second)  # fmt: skip
            case ast.Call(func=ast.Name(id=name), args=args):
                return FUNCTIONS[name][1](*(self._value(argument, x) for argument in args))
        return x
