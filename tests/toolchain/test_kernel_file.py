"""Reading emitted files: what is no kernel file is refused in one line, and reading executes nothing."""

import os

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
    path.write_text(SOURCE + "\nEXECUTED = exit(3)\n")
    assert read_kernel(path).source.endswith("exit(3)\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no REQUEST, OPTIONS, KERNEL, SIGNATURE; name a file that `layoutgen emit` wrote"),
        ("x = (", "kernel.py: not a Python file: line 1: '\\(' was never closed; name"),
        (SOURCE.replace('KERNEL = "matmul_kernel"', "KERNEL = str(1)"), "KERNEL is not a literal"),
        (SOURCE.replace('"kernel": "matmul"', '"kernel": "other"'), r"kernel\.py: request: kernel 'other' is unknown"),
    ],
)
def test_refused(tmp_path, text, message):
    path = tmp_path / "kernel.py"
    path.write_text(text)
    with pytest.raises(LayoutgenError, match=message):
        _ = read_kernel(path).request


@pytest.mark.parametrize("name", ["finish_kernel", "launches"])
def test_a_file_that_lacks_what_its_request_launches(tmp_path, name):
    path = tmp_path / "kernel.py"
    source = lg.matmul(design="fast", block_m=64, block_n=64, block_k=32, split_k=2).source
    path.write_text(source.replace(f"def {name}(", "def other("))
    with pytest.raises(LayoutgenError, match=f"has no function {name}; emit the file again"):
        read_kernel(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(LayoutgenError, match="no such file or directory; name an emitted kernel file"):
        read_kernel(tmp_path / "missing.py")


@pytest.mark.parametrize(("line", "message"), [("X = 1 / 0", "division by zero"), ("X = exit(0)", "failed: 0")])
def test_a_file_that_fails_to_import(tmp_path, line, message):
    path = tmp_path / "kernel.py"
    path.write_text(f"{SOURCE}\n{line}\n")
    with pytest.raises(LayoutgenError, match=f"importing it failed.*{message}|importing it {message}"):
        read_kernel(path).load()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s + "\nKERNEL = 'matmul_kernel'\n", "KERNEL is bound a second time"),
        (lambda s: s.replace('KERNEL = "matmul_kernel"', 'KERNEL = "mma"'), "its request launches matmul_kernel"),
        (lambda s: s + "\nREQUEST['block_m'] = 128\n", "imports, constants and functions alone"),
        (lambda s: s + "\nMATRIX_C: object = None\n", "imports, constants and functions alone"),
        (lambda s: s + "\ndef mma(a):\n    return a\n", "mma is bound a second time"),
        (
            lambda s: s.replace('"num_warps": 4', '"num_warps": 8'),
            "its request runs with num_warps 4: emit the file again",
        ),
        (lambda s: s.replace('"num_warps": 4', '"num_warps": "4"'), "its request runs with num_warps 4"),
        (lambda s: s.replace("REQUEST = {", "REQUEST = 5\nOTHER = {"), "must be a mapping"),
        (lambda s: s.replace('    "block_m": 64,\n', ""), "request: is not what `layoutgen emit` writes"),
        (lambda s: s.replace('"block_m": 64', '"block_m": "64"'), "block_m = '64': is a str; it must be int"),
        (
            lambda s: s.replace('KERNEL = "matmul_kernel"', 'KERNEL = "other"'),
            "has no function other; emit the file again",
        ),
        (lambda s: s.replace("def launch_arguments", "def other"), "has no function launch_arguments"),
        (lambda s: "x = " + "(" * 1000 + s, "not a Python file"),
    ],
)
def test_what_an_edit_may_not_do(tmp_path, edit, message):
    path = tmp_path / "kernel.py"
    path.write_text(edit(SOURCE))
    assert path.read_text() != SOURCE
    with pytest.raises(LayoutgenError, match=message):
        _ = read_kernel(path).request


def test_a_byte_order_mark_is_no_hindrance(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_bytes(b"\xef\xbb\xbf" + SOURCE.encode())
    assert read_kernel(path).kernel == "matmul_kernel"


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LayoutgenError, match="is no file; name an emitted kernel file"):
        read_kernel(tmp_path / "pipe")
