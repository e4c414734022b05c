"""Rendering: the committed set, the header, and that nothing is emitted without its proofs."""

import ast
import dataclasses
import shlex
from pathlib import Path

import jinja2
import jinja2.meta
import pytest

import layoutgen as lg
from layoutgen import atoms
from layoutgen.emission import command, describe, drift, environment, file_name, render
from layoutgen.emission.context import context
from layoutgen.emission.render import template_directory, template_files
from layoutgen.errors import RefutedError
from layoutgen.proofs import Obligation, Refutation

GENERATED = Path(__file__).parents[2] / "generated"
KERNELS = lg.default_set()
NAMES = [file_name(kernel.request) for kernel in KERNELS]


def test_the_committed_set_has_not_drifted():
    assert drift(GENERATED, [kernel.request for kernel in KERNELS]) == {}


def test_the_committed_set_is_what_was_asked_for():
    kept = [k.request for k in KERNELS if k.request.family == "attention"]
    assert {r.head_dim for r in kept if r.design == "simple"} == {40, 64, 80, 96, 128}
    fast = {(r.head_dim, r.causal) for r in kept if r.design == "fast"}
    assert fast == {(d, causal) for d in lg.api.HEAD_DIMS for causal in (False, True)}
    assert {"matmul_64x64x32.py", "matmul_128x128x32.py"} <= set(NAMES)


def test_the_readme_shows_a_file_of_its_length():
    lines = len((GENERATED / "attention_d96_64x32.py").read_text().splitlines())
    assert f"attention_d96_64x32.py, {lines} lines" in (GENERATED.parent / "README.md").read_text()


@pytest.mark.parametrize("family", ["attention", "matmul"])
@pytest.mark.parametrize("design", ["simple", "fast"])
def test_every_value_is_used_by_a_template(family, design):
    """Undefined names are an error of the environment; this is the other direction."""
    made = lg.matmul(design=design) if family == "matmul" else lg.attention(head_dim=96, design=design)
    sources = [(template_directory() / name).read_text() for name in template_files(made.request.template)]
    named = set().union(*(jinja2.meta.find_undeclared_variables(environment().parse(text)) for text in sources))
    assert set(context(made.request)) - named == set()


@pytest.mark.parametrize("change", ["edited", "missing", "unexpected"])
def test_drift_fires(change, tmp_path):
    kernel = lg.matmul(block_m=64, block_n=64)
    path = kernel.write(tmp_path)
    assert drift(tmp_path, [kernel.request]) == {}
    if change == "edited":
        path.write_text(path.read_text().replace("gl.barrier()", "pass", 1))
    elif change == "missing":
        path.unlink()
    else:
        (tmp_path / "other.py").write_text("")
    found = drift(tmp_path, [kernel.request])
    assert list(found) == [path.name if change != "unexpected" else "other.py"]


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_what_is_emitted_parses_and_says_where_it_comes_from(kernel):
    source = kernel.source
    tree = ast.parse(source)
    header = ast.get_docstring(tree)
    written = header.split("regenerate it with")[1]  # a docstring joins the lines of a long command again
    assert shlex.split(written) == shlex.split(command(kernel.request))
    assert lg.__version__ in header
    assert describe(kernel.request)["template_hash"] in header
    assert max(map(len, source.splitlines())) <= 120
    assert source == render(kernel.request), "rendering is a function of the request"


def test_a_request_without_a_bias_emits_nothing_for_it():
    assert "bias" not in lg.attention(head_dim=64).source.replace("no bias", "").replace('"bias": False', "")
    assert "bias_tile" in lg.attention(head_dim=64, bias=True).source


def test_no_mask_of_the_head_dim_where_nothing_overhangs():
    assert "inside & (column <" not in lg.attention(head_dim=96).source
    assert "inside & (column < 80)" not in lg.attention(head_dim=80).source
    assert "inside & (column < 40)" in lg.attention(head_dim=40).source


def test_nothing_is_emitted_when_an_obligation_fails(monkeypatch):
    request = lg.matmul().request
    refuted = Refutation(Obligation("accumulator", 1, "is a bijection"), "rank", "register2", "register 4 holds (0, 0)")
    monkeypatch.setitem(request.__dict__, "proofs", (refuted,))
    monkeypatch.delitem(request.__dict__, "plan", raising=False)
    with pytest.raises(RefutedError, match="accumulator: is a bijection: refuted at basis register2: register 4 holds"):
        render(request)


def test_templates_may_not_use_what_they_were_not_given():
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ nothing }}").render()


def test_another_atom_table_emits_other_layouts(monkeypatch):
    """Exchange two rows of the atom's table, and the emitted literals change with it."""
    known = atoms.atom("m8n8k4")
    mirrored = dataclasses.replace(
        known,
        name="MIRRORED",
        alias="mirrored",
        a=dataclasses.replace(known.a, rows=(("m", "a1 a0 b"), ("k", "i0 i1"))),
        accumulator=dataclasses.replace(known.accumulator, rows=(("m", "a1 v1 b"), ("n", "v0 a0 v2"))),
        b=dataclasses.replace(known.b, rows=(("n", "a1 a0 b"), ("k", "i0 i1"))),
    )
    monkeypatch.setattr(atoms, "CATALOGUE", (*atoms.CATALOGUE, mirrored))
    plain, other = (lg.matmul(block_m=64, block_n=64, atom=name).source for name in ("m8n8k4", "mirrored"))
    assert "# a0: m0" in plain
    assert "# a1: m0" in other
