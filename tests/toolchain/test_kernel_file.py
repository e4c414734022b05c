"""Reading emitted files: what is no kernel file is refused in one line, and reading executes nothing."""

import pytest

import layoutgen as lg
from layoutgen.errors import LayoutgenError
from layoutgen.toolchain import read_kernel

SOURCE = lg.matmul(block_m=64, block_n=64).source


def test_reads_the_module_data(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE)
    kernel = read_kernel(path)
    assert kernel.request == lg.matmul(block_m=64, block_n=64).request
    assert kernel.kernel == "matmul_kernel"
    assert kernel.options["num_warps"] == 4


def test_reading_executes_nothing(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE + "\nraise SystemExit('executed')\n")
    assert read_kernel(path).source.endswith("executed')\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no REQUEST, OPTIONS, KERNEL, SIGNATURE; name a file that `layoutgen emit` wrote"),
        ("x = (", "not a Python file"),
        (SOURCE.replace('KERNEL = "matmul_kernel"', "KERNEL = str(1)"), "KERNEL is not a literal"),
        (SOURCE.replace('"kernel": "matmul"', '"kernel": "other"'), "kernel 'other' is unknown"),
    ],
)
def test_refused(tmp_path, text, message):
    path = tmp_path / "kernel.py"
    path.write_text(text)
    with pytest.raises(LayoutgenError, match=message):
        _ = read_kernel(path).request


def test_a_missing_file(tmp_path):
    with pytest.raises(LayoutgenError, match="no such file or directory; name an emitted kernel file"):
        read_kernel(tmp_path / "missing.py")


def test_a_file_that_fails_to_import(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE + "\n1 / 0\n")
    with pytest.raises(LayoutgenError, match="importing it failed: division by zero"):
        read_kernel(path).load()
