"""What is written around the fast matmul: its header, and that templates use all of a view."""

import ast
import re
from dataclasses import fields

import pytest

import layoutgen as lg
from layoutgen.emission.matmul_around import SplitView
from layoutgen.emission.matmul_fast import OperandView
from layoutgen.emission.render import LINE, template_directory
from tests.kernels.launching import kernel

TEMPLATES = ("matmul_fast.py.jinja", "matmul_around.jinja")
LONG = {
    "operand_dtype": "float32",
    "accumulate": "tile",
    "split_k": 3,
    "scale": True,
    "bias": True,
    "epilogue": "where(x > 0.0, x, 0.125 * x)",
    "rounded": True,
    "residual": True,
}


def test_every_field_of_a_view_is_used_by_a_template():
    texts = [(template_directory() / name).read_text() for name in TEMPLATES]
    for view in (OperandView, SplitView):
        for field in fields(view):
            assert any(re.search(rf"\.{field.name}\b", text) for text in texts), f"{view.__name__}.{field.name}"


def test_the_header_says_what_is_computed():
    plain, long = (ast.get_docstring(ast.parse(made.source)) for made in (kernel(), kernel(**LONG)))
    assert "operands float16,\naccumulated in float32, C in float16; any strides, any sizes.\n\n" in plain
    assert "operands float32 as two float16 parts" in long
    assert "Every 16 k are summed from zero" in long
    assert "3 blocks share each sum over K" in long
    assert "C = epilogue(float32(alpha A B + beta bias)) + residual." in long
    assert "epilogue(x) = where(x > 0.0, x, 0.125 * x)." in long
    assert "C = silu(A B)." in kernel(epilogue="silu").source


def test_an_option_stays_with_its_value():
    source = kernel(**LONG).source
    lines = source.split("regenerate it with\n\n")[1].split('"""')[0].replace("\\\n", "\n").splitlines()
    assert len([line for line in lines if line.strip()]) > 2
    for line in lines:
        assert len(line) <= LINE
        words = re.findall(r"(?:'[^']*'|\S)+", line)
        assert not words or words[0] == "layoutgen" or words[0].startswith("--"), line


@pytest.mark.parametrize(
    ("order", "parameters"), [("mk", "pointer"), ("km", "pointer, index, left, whole: gl.constexpr")]
)
def test_functions_take_what_they_use(order, parameters):
    source = lg.matmul(design="fast", a_order=order, block_m=64, block_n=32, block_k=16, warps="1x1").source
    assert f"def load_a({parameters}):" in source
    assert "words = words\n" not in source
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith(
            ("load_", "fetch_", "store_", "multiply")
        ):
            used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            assert {argument.arg for argument in function.args.args} <= used, function.name
