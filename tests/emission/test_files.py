"""Writing: whole or not at all."""

import os

import pytest

import layoutgen as lg
from layoutgen.emission import check_writable, drift, file_name, write_atomically
from layoutgen.errors import LayoutgenError


def test_different_requests_have_different_names():
    kernels = [
        lg.attention(head_dim=96),
        lg.attention(head_dim=96, bias=True),
        lg.attention(head_dim=96, split=(64, 64)),
        lg.attention(head_dim=96, arrangement="m2,n2"),
        lg.attention(head_dim=96, block_n=64),
        lg.matmul(),
        lg.matmul(warps="4x1"),
        lg.matmul(b_order="nk"),
        lg.matmul(out_dtype="float32"),
        lg.matmul(arrangement="m2,n2"),
        lg.matmul(design="fast"),
        lg.matmul(design="fast", warps="1x4"),
        lg.matmul(design="fast", arrangement="m2,n2"),
        lg.matmul(design="fast", a_order="km"),
        lg.matmul(design="fast", operand_dtype="float32"),
        lg.matmul(design="fast", out_dtype="float32"),
        lg.matmul(design="fast", split_k=2),
        lg.matmul(design="fast", split_k=3),
    ]
    names = [file_name(kernel.request) for kernel in kernels]
    assert len(set(names)) == len(names), names


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "kernel.py"
    write_atomically(path, "one\n")
    write_atomically(path, "two\n")
    assert path.read_text() == "two\n"
    assert os.listdir(tmp_path) == ["kernel.py"]


def test_the_file_has_the_usual_mode(tmp_path):
    path = tmp_path / "kernel.py"
    (tmp_path / "plain").write_text("")
    write_atomically(path, "one\n")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failing", ["replace", "fdopen"])
def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch, failing):
    path = tmp_path / "kernel.py"
    path.write_text("before\n")

    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(LayoutgenError, match="no space left on device; name another file"):
        write_atomically(path, "after\n")
    assert path.read_text() == "before\n"
    assert os.listdir(tmp_path) == ["kernel.py"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "kernel.py"
    path.write_text("before\n")

    def interrupt(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "after\n")
    assert path.read_text() == "before\n"
    assert os.listdir(tmp_path) == ["kernel.py"]


def test_paths_that_cannot_be_written_to(tmp_path):
    with pytest.raises(LayoutgenError, match="it is a folder; name a file in it"):
        check_writable(tmp_path)
    with pytest.raises(LayoutgenError, match="there is no folder"):
        check_writable(tmp_path / "missing" / "kernel.py")


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(LayoutgenError, match="cannot be written to"):
        check_writable(tmp_path / "kernel.py")


def test_devices_pipes_and_links(tmp_path):
    """A pipe is refused and stays one; a link stays a link, and what it points to is written."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LayoutgenError, match="it is a device or a pipe"):
        write_atomically(tmp_path / "pipe", "x")
    assert not (tmp_path / "pipe").is_file()
    target, link = tmp_path / "target.py", tmp_path / "link.py"
    target.write_text("before\n")
    link.symlink_to(target)
    write_atomically(link, "after\n")
    assert link.is_symlink()
    assert target.read_text() == "after\n"


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(LayoutgenError, match="file name too long"):
        check_writable(tmp_path / ("x" * 300))


def test_other_line_ends_are_drift(tmp_path):
    kernel = lg.matmul(block_m=64, block_n=64)
    path = kernel.write(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert list(drift(tmp_path, [kernel.request])) == [path.name]
    path.write_bytes(b"\xff\xfe")
    assert list(drift(tmp_path, [kernel.request])) == [path.name]
