"""The rooms and their one-way doors; and that all but the toolchain run without Triton, torch or a GPU."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "layoutgen"

MAY_IMPORT = {
    "errors": set(),
    "algebra": {"errors"},
    "atoms": {"errors", "algebra"},
    "tiling": {"errors", "algebra", "atoms"},
    "proofs": {"errors", "algebra", "tiling"},
    "plan": {"errors", "algebra", "atoms", "proofs"},
    "kernels": {"errors", "algebra", "atoms", "tiling", "proofs", "plan"},
    "emission": {"errors", "algebra", "atoms", "tiling", "plan", "kernels"},
    "readback": {"errors", "algebra", "tiling", "proofs", "plan", "kernels", "emission"},
    "profiles": {"errors", "atoms", "kernels"},
    "toolchain": {"errors", "kernels"},
    "cpu": {"errors"},
    "sass": {"errors", "kernels", "profiles", "toolchain", "cpu"},
    "execution": {"errors", "kernels", "toolchain", "cpu", "sass"},
    "api": {"errors", "atoms", "tiling", "proofs", "plan", "kernels", "emission", "profiles", "toolchain"},
    "tuning": {"errors", "atoms", "kernels", "emission", "profiles", "toolchain", "sass", "api"},
    "probing": {"errors", "atoms", "tiling", "kernels", "profiles", "toolchain", "sass", "api"},
}
"""Room -> what its modules import of the package, all of which stands before it. cli stands last and has all."""

FREE_OF_TRITON = ("algebra", "atoms", "tiling", "proofs", "plan", "kernels", "emission", "readback", "profiles", "cpu")


def modules(room):
    folder = PACKAGE / room
    return sorted(folder.glob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module
            if node.module == "layoutgen":
                yield from (f"layoutgen.{alias.name}" for alias in node.names)


def test_every_room_has_its_doors_listed():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms | {"errors", "api"} == {*MAY_IMPORT, "cli"}
    before = set()
    for room, doors in MAY_IMPORT.items():
        assert doors <= before, f"{room} stands before {doors - before}"
        before.add(room)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_the_doors_of_a_room_are_those_listed(room):
    found = {}
    for path in modules(room):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "layoutgen" and len(parts) > 1 and parts[1] != room:
                found.setdefault(parts[1], f"{path.relative_to(ROOT)} imports {name}")
    assert {door: found[door] for door in set(found) - MAY_IMPORT[room]} == {}
    assert set(found) == MAY_IMPORT[room], "a door that nothing goes through"


@pytest.mark.parametrize("room", FREE_OF_TRITON)
def test_no_module_mentions_triton_or_torch(room):
    for path in modules(room):
        assert not {name.split(".")[0] for name in imported(path)} & {"triton", "torch"}, path


@pytest.mark.parametrize("room", ["tiling", "proofs", "plan", "kernels", "emission", "readback"])
def test_only_the_atom_table_and_the_profile_know_the_instruction(room):
    for path in modules(room):
        tree = ast.parse(path.read_text())
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert "m8n8" not in node.value.lower(), f"{path.relative_to(ROOT)}: {node.value!r}"
    for path in (ROOT / "templates").glob("*.jinja"):
        assert "m8n8" not in path.read_text().lower()


def test_emission_runs_without_triton_and_torch(tmp_path):
    script = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("triton", "torch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import layoutgen as lg
kernel = lg.attention(head_dim=96)
assert all(verdict.holds for verdict in kernel.proofs)
kernel.write({str(tmp_path / "kernel.py")!r})
assert not any(name.split(".")[0] in ("triton", "torch", "sympy", "networkx") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
    assert (tmp_path / "kernel.py").read_text() == (ROOT / "generated" / "attention_d96_64x32.py").read_text()


def test_the_command_line_loads_nothing_heavy_for_its_help():
    heavy = ("numpy", "sympy", "triton", "jinja2", "yaml")
    script = f"import sys, layoutgen.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
