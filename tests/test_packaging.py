"""The wheel: templates and profiles travel in it, and a kernel can be emitted where nothing else is installed."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pip(python, *words):
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory):
    """An environment with the wheel and what emission needs; Triton, which it does not need, is left out."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("layoutgen-*.whl")
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env" / "bin" / "python")
    pip(python, "install", "--quiet", "--no-deps", str(wheel))
    pip(python, "install", "--quiet", "numpy", "jinja2", "click", "pyyaml")
    return folder


def layoutgen(environment, *words):
    command = [str(environment / "env" / "bin" / "layoutgen"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=environment)


def test_emits_from_the_wheel(empty_environment):
    done = layoutgen(
        empty_environment, "emit", "attention", "--profile", "volta", "--head-dim", "96", "-o", "kernel.py"
    )
    assert done.returncode == 0, done.stderr
    emitted = (empty_environment / "kernel.py").read_text()
    assert emitted == (ROOT / "generated" / "attention_d96_64x32.py").read_text()


def test_proves_from_the_wheel(empty_environment):
    done = layoutgen(empty_environment, "prove", "--block-m", "64", "--block-n", "32", "--warps", "4x1")
    assert done.returncode == 0, done.stderr


def test_compiling_without_triton_is_one_clear_line(empty_environment):
    layoutgen(empty_environment, "emit", "matmul", "-o", "matmul.py")
    done = layoutgen(empty_environment, "compile", "matmul.py")
    assert done.returncode == 2
    assert "Triton is not installed" in done.stderr
    assert "Traceback" not in done.stderr
