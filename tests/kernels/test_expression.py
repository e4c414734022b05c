"""Expressions of epilogues: what is written, what it is worth, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.expression import EPILOGUES, Expression

POINTS = np.linspace(-6.0, 6.0, 49)
EXACT = {
    "none": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_names_against_their_definitions(name):
    assert Expression(name).evaluate(POINTS) == pytest.approx([EXACT[name](x) for x in POINTS], rel=1e-12, abs=1e-15)


@st.composite
def texts(draw, depth=3):
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(("x", "1.5", "2", "-x", "0.25")))
    first, second = draw(texts(depth - 1)), draw(texts(depth - 1))
    kind = draw(st.sampled_from(("+", "-", "*", "maximum", "abs", "where")))
    if kind in "+-*":
        return f"({first}) {kind} ({second})"
    return {
        "maximum": f"maximum({first}, {second})",
        "abs": f"abs({first})",
        "where": f"where({first} < {second}, {first}, x)",
    }[kind]


class Gluon:
    """The functions that an emitted expression calls, in numpy."""

    abs, where = staticmethod(np.abs), staticmethod(np.where)


@given(texts())
def test_what_is_written_has_the_value_of_what_was_asked_for(text):
    """The oracle is Python itself, which evaluates both texts."""
    try:
        expression = Expression(text)
    except LayoutgenError:
        assume(False)
    asked = eval(text, {"x": POINTS, "maximum": np.maximum, "abs": np.abs, "where": np.where})
    written = eval(expression.gluon, {"x": POINTS, "maximum": np.maximum, "gl": Gluon})
    for value in (written, expression.evaluate(POINTS)):
        assert np.array_equal(np.broadcast_to(value, POINTS.shape), np.broadcast_to(asked, POINTS.shape))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is neither one of none, relu, silu, gelu, gelu_tanh nor an expression in x"),
        ("x +", "nor an expression in x"),
        ("y", "'y' is not allowed"),
        ("x ** 2", r"'x \*\* 2' is not allowed"),
        ("__import__('os')", "is not allowed"),
        ("x.to(1)", "is not allowed"),
        ("exp(x, x)", "is not allowed"),
        ("exp(x, y=1)", "is not allowed"),
        ("maximum(x > 0, 1)", "'x > 0' is not allowed"),
        ("where(x, 1, 2)", r"'where\(x, 1, 2\)' is not allowed"),
        ("x > 0", "'x > 0' is not allowed"),
        ("1.0", "'1.0' does not depend on x"),
        ("x + exp(1.0)", r"'exp\(1.0\)' does not depend on x"),
        ("True", "'True' is not allowed"),
        ("1e999 * x", "'1e309' is not allowed"),
        ("x" + " + x" * 60, "characters; at most 200"),
        ("0 < x < 1", "is not allowed"),
        ("x # it", "quoted in the emitted file"),
        ('x #"; import os; """', "quoted in the emitted file"),
        ("(x\n+ 1.0)", "quoted in the emitted file"),
        ("x + 1.0\n", "quoted in the emitted file"),
        ("1 / 0 * x", "'1 / 0' is inf and inf in float32"),
        ("x + 0 / 0", "'0 / 0' is nan"),
        ("minimum(x, 1e39)", r"'1e\+39' is 1e\+39 and inf in float32; numbers are 0, or from 1.4"),
        ("1e30 * 1e30 * x", r"'1e\+30 \* 1e\+30' is 1.0+1e\+60 and inf"),
        ("x * 1e-46", "'1e-46' is 1e-46 and 0.0 in float32"),
    ],
)
def test_refused(text, message):
    with pytest.raises(LayoutgenError, match=message):
        Expression(text)
