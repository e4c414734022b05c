"""The executor shares nothing with what it checks: no atoms, no tiling, no compiler."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import layoutgen.cpu

FOLDER = Path(layoutgen.cpu.__file__).parent
ALLOWED = ("layoutgen.cpu", "layoutgen.errors")


def test_imports() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                names = [node.module or ""]
            for name in names:
                if name.split(".")[0] == "layoutgen":
                    assert name.startswith(ALLOWED), f"{path.name} imports {name}"
                else:
                    assert name.split(".")[0] in {*sys.stdlib_module_names, "numpy"}, f"{path.name} imports {name}"


def test_what_the_instruction_sets_share_knows_neither() -> None:
    shared = ("access", "approximations", "counters", "fragments", "machine", "memory", "rounding", "tensor_core")
    for name in (*shared, "warp_ops", "watch"):
        text = (FOLDER / f"{name}.py").read_text()
        assert "layoutgen.cpu.ptx" not in text, name
        assert "layoutgen.cpu.sass" not in text, name


def test_the_instruction_sets_share_no_semantics() -> None:
    for path in FOLDER.glob("sass_*.py"):
        text = path.read_text().replace("layoutgen.cpu.ptx_types", "")  # sizes of parameters
        assert "layoutgen.cpu.ptx" not in text, path
    for path in FOLDER.glob("ptx_*.py"):
        assert "layoutgen.cpu.sass" not in path.read_text(), path


def test_loads_neither_triton_nor_torch() -> None:
    code = "import sys, layoutgen.cpu; print([m for m in ('triton', 'torch', 'sympy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
