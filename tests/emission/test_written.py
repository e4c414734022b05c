"""Emitted text of the fast designs: laid out as this repository's formatter would, with commands that a shell takes."""

import ast
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import layoutgen as lg
from layoutgen.emission.render import command

render = import_module("layoutgen.emission.render")  # the package has a function of that name
ROOT = Path(__file__).parents[2]

EVERYTHING = {"scale": True, "bias": True, "epilogue": "gelu_tanh", "rounded": True, "residual": True, "group_m": 3}
WORKSPACE = {"operand_dtype": "float32", "split_k": 2, "a_order": "km", "b_order": "nk", "out_dtype": "float16"}


ATTENTION = {
    "plain": {"head_dim": 64},
    "causal": {"head_dim": 96, "causal": True},
    "bias": {"head_dim": 128, "bias": True, "causal": True},
    "mask": {"head_dim": 72, "v_head_dim": 40, "mask": True},
    "window": {"head_dim": 16, "window": (17, 5), "alignment": "bottom-right", "sinks": True},
    "divided": {"head_dim": 200, "bias": True, "softcap": 20.0},
    "wide": {"head_dim": 576, "v_head_dim": 512},
    "all": {
        **{"head_dim": 80, "bias": True, "mask": True, "softcap": 20.0, "sinks": True, "window": (3, 0)},
        **{"alignment": "bottom-right", "out_dtype": "float32"},
    },
}
MATMUL = {"plain": {}, "all": EVERYTHING, "work": WORKSPACE, "both": EVERYTHING | WORKSPACE}
MADE = {
    **{f"matmul {name}": (lg.matmul, fields) for name, fields in MATMUL.items()},
    **{f"attention {name}": (lg.attention, fields) for name, fields in ATTENTION.items()},
}


@pytest.mark.parametrize("name", MADE)
def test_lines_fit_and_the_command_is_whole(name):
    emit, fields = MADE[name]
    made = emit(design="fast", **fields)
    assert max(map(len, made.source.splitlines())) <= 120
    docstring = ast.get_docstring(ast.parse(made.source))
    written = docstring.split("regenerate it with")[1].replace("\\\n", " ")
    assert shlex.split(written) == shlex.split(command(made.request))


def ruff(*arguments):
    """Run the formatter of the repository: what it says, and whether it is content."""
    done = subprocess.run([sys.executable, "-m", "ruff", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode == 0


@pytest.mark.parametrize("family", ["matmul", "attention"])
def test_the_formatter_changes_nothing(family, tmp_path):
    pytest.importorskip("ruff")
    for name, (emit, fields) in MADE.items():
        if name.startswith(family):
            (tmp_path / f"{name.replace(' ', '_')}.py").write_text(emit(design="fast", **fields).source)
    said, content = ruff("format", "--config", "pyproject.toml", "--diff", str(tmp_path))
    assert content, said
    # As in generated/: Triton wants both returns of a compile-time condition.
    said, content = ruff("check", "--config", "pyproject.toml", "--ignore", "RET505,ARG001", str(tmp_path))
    assert content, said


def test_the_formatter_fires(tmp_path):
    pytest.importorskip("ruff")
    source = lg.attention(head_dim=64, design="fast").source
    (tmp_path / "edited.py").write_text(source.replace("row < rows, other=0.0)", "row < rows, other = 0.0)"))
    assert not ruff("format", "--config", "pyproject.toml", "--diff", str(tmp_path))[1]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "no bias, grouped query heads"),
        ({"bias": True, "causal": True}, "an additive bias, causal, grouped query heads"),
        ({"causal": True}, "\ncausal, grouped query heads"),
    ],
)
def test_the_header_says_what_is_added(fields, says):
    assert says in ast.get_docstring(ast.parse(lg.attention(head_dim=64, design="fast", **fields).source))


def test_the_hash_changes_with_whatever_a_template_takes_in(tmp_path, monkeypatch):
    for name in ("a.jinja", "b.jinja", "c.jinja"):
        (tmp_path / name).write_text("")
    (tmp_path / "a.jinja").write_text('{% include "b.jinja" %}')
    (tmp_path / "b.jinja").write_text('{% import "c.jinja" as c with context %}{% include "a.jinja" %}')
    monkeypatch.setattr(render, "template_directory", lambda: tmp_path)
    before = render.template_hash.__wrapped__("a.jinja")
    (tmp_path / "c.jinja").write_text("changed")
    assert render.template_hash.__wrapped__("a.jinja") != before
    (tmp_path / "c.jinja").write_text("")
    assert render.template_hash.__wrapped__("a.jinja") == before
