"""Emitted text of the fast matmul: lines that fit, and commands that a shell takes when they do not."""

import ast
import shlex

import pytest

import layoutgen as lg
from layoutgen.emission.render import command

EVERYTHING = {"scale": True, "bias": True, "epilogue": "gelu_tanh", "rounded": True, "residual": True, "group_m": 3}
WORKSPACE = {"operand_dtype": "float32", "split_k": 2, "a_order": "km", "b_order": "nk", "out_dtype": "float16"}


@pytest.mark.parametrize(
    "fields", [{}, EVERYTHING, WORKSPACE, EVERYTHING | WORKSPACE], ids=["plain", "all", "work", "both"]
)
def test_lines_fit_and_the_command_is_whole(fields):
    made = lg.matmul(design="fast", **fields)
    assert max(map(len, made.source.splitlines())) <= 120
    docstring = ast.get_docstring(ast.parse(made.source))
    written = docstring.split("regenerate it with")[1].replace("\\\n", " ")
    assert shlex.split(written) == shlex.split(command(made.request))
