"""`layoutgen prove`: tilings, files, and files that were edited."""

import json
import re
from pathlib import Path

from click.testing import CliRunner

from layoutgen.cli import main

GENERATED = Path(__file__).parents[2] / "generated"
DERIVE = ("derive", "--atom", "m8n8k4", "--block-m", 64, "--block-n", 32, "--warps", "4x1")


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def run_json(*words, code=0):
    return json.loads(run(*words, "--json", code=code).stdout)


def test_prove_a_tiling():
    assert "9 of 9 obligations proved" in run("prove", *DERIVE[1:]).stdout
    found = run_json("prove", *DERIVE[1:])
    assert found["proved"] is True
    assert {verdict["claim"] for verdict in found["verdicts"]} == {1, 2, 3, 4}


def test_proofs_as_latex_have_powers():
    for words in (DERIVE[1:], (GENERATED / "matmul_64x64x32.py",)):
        text = run("prove", *words, "--latex").stdout
        assert re.search(r"has \\\(2\^\{\d\}\\\) owners\.", text)
        assert r"R = F \(L^{-1}\) reads" in text
        assert r"\oplus" not in text


def test_prove_a_file_and_its_mutant(tmp_path):
    path = GENERATED / "attention_d96_64x32.py"
    assert "obligations proved" in run("prove", path).stdout
    edited = tmp_path / "edited.py"
    edited.write_text(path.read_text().replace("[0, 2],  # v1: k1", "[0, 1],  # v1: k1", 1))
    result = run("prove", edited, code=1)
    assert "REFUTED" in result.stdout
    assert "register 2 holds (0, 1); " in result.stdout.replace("lane 0, ", "")
    assert run_json("prove", edited, code=1)["proved"] is False


def test_a_file_with_a_wrong_request_is_named(tmp_path):
    edited = tmp_path / "edited.py"
    source = (GENERATED / "matmul_64x64x32.py").read_text()
    for old, new, said in (
        ('"block_m": 64', '"block_m": 48', "block_m = 48: must be a power of two"),
        ("def matmul(a", "def matmul((a", f"not a Python file: line {line_of(source, 'def matmul(a')}: "),
    ):
        edited.write_text(source.replace(old, new))
        assert run("prove", edited, code=2).stderr.startswith(f"layoutgen: {edited}: {said}")


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


def test_prove_says_when_the_code_was_edited(tmp_path):
    edited = tmp_path / "edited.py"
    edited.write_text((GENERATED / "matmul_64x64x32.py").read_text().replace("gl.barrier()", "gl.barrier() "))
    line = edited.read_text()[: edited.read_text().index("gl.barrier()")].count("\n") + 1
    said = run("prove", edited).stdout
    assert f"note: the file is not what its request emits: line {line} is 'gl.barrier() " in said
    assert said.endswith(f"execute it with: layoutgen run {edited}\n")
    edited.write_text((GENERATED / "matmul_64x64x32.py").read_text() + "# more\n")
    assert " is '# more', not no such line\n" in run("prove", edited).stdout
    assert run_json("prove", edited)["edited"] is True
