"""Files: names, atomic writes, and the check that a committed set has not drifted."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from layoutgen.atoms import CATALOGUE
from layoutgen.emission.render import command, render, template_hash
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import Request
from layoutgen.kernels.expression import EPILOGUES

MARKS = {
    **dict.fromkeys(("a_order", "b_order", "out_dtype", "accumulate", "epilogue"), "{}"),
    "warps": "w{}",
    "operand_dtype": "from_{}",
    "split_k": "split_{}",
    "group_m": "group_{}",
}
"""Options that file names call otherwise than the command line does."""


def file_name(request: Request) -> str:
    """Return the name under which a kernel is kept; what differs from the usual is part of it.

    >>> from layoutgen.kernels import AttentionRequest
    >>> file_name(AttentionRequest(96, "m8n8k4", 64, 32))
    'attention_d96_64x32.py'
    """
    options, usual = dict(request.options), request.usual
    head_dim = options.pop("head_dim", None)
    marks = [request.family] + ([] if head_dim is None else [f"d{head_dim}"])
    marks.append("x".join(str(options.pop(name)) for name in request.sizes))
    if request.design != "simple":
        marks.append(request.design)
    atom = next(iter(request.tilings.values())).atom
    if atom is not request.form_of(CATALOGUE[0]):
        marks.append(atom.alias.replace(".", "_"))
    if request.arrangement != request.usual_arrangement:
        marks.append(str(request.arrangement).replace(",", "_"))
    marks += [_mark(name, value) for name, value in options.items() if value != usual.get(name)]
    return "_".join(marks) + ".py"


def _mark(name: str, value: object) -> str:
    """Return an option as a part of a file name; an expression counts by its digest.

    >>> _mark("window", (128, 0)), _mark("causal", True), _mark("alignment", "bottom-right"), _mark("group_m", 8)
    ('window_128_0', 'causal', 'alignment_bottom_right', 'group_8')
    """
    if value is True:
        return name
    text = "_".join("all" if v == -1 else str(v) for v in value) if isinstance(value, tuple) else str(value)
    if name == "epilogue" and text not in EPILOGUES:
        text = hashlib.sha256(text.encode()).hexdigest()[:8]
    return MARKS.get(name, name + "_{}").format(text.replace("-", "_").replace(".", "_"))


def describe(request: Request) -> dict[str, Any]:
    """Return what a program could want to know of an emitted kernel: name, command, template hash, request."""
    return {
        "file": file_name(request),
        "command": command(request),
        "template_hash": template_hash(request.template),
        "request": request.as_dict(),
    }


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written to, before any work is done for it."""
    try:
        if path.is_dir():
            raise LayoutgenError(f"write {path}: it is a folder; name a file in it, for example {path / 'kernel.py'}")
        if path.exists() and not path.is_file():
            raise LayoutgenError(f"write {path}: it is a device or a pipe; name a file, or leave -o out to print")
    except (OSError, ValueError, RuntimeError) as error:
        raise LayoutgenError(f"write {str(path)[:80]}: {_reason(error)}; name another file") from error
    if not path.parent.is_dir():
        raise LayoutgenError(f"write {path}: there is no folder {path.parent}; name a file in one that exists")
    if not os.access(path.parent, os.W_OK):
        raise LayoutgenError(f"write {path}: the folder {path.parent} cannot be written to; name another")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: to a temporary file beside it, which then takes its place.

    Raises LayoutgenError when the folder is missing or cannot be written to; nothing is left behind then.
    """
    check_writable(path)
    path = path.resolve()  # a link stays a link; what it points to is written
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes files private
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise LayoutgenError(f"write {path}: {_reason(error)}; name another file") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def drift(folder: Path, requests: Sequence[Request]) -> dict[str, str]:
    """Compare a folder with what the requests emit now; name -> unified diff, empty when nothing drifted.

    A file that is missing, and a kernel file that nothing asks for, count as drift.
    """
    found: dict[str, str] = {}
    wanted = {file_name(request): request for request in requests}
    for name, request in wanted.items():
        path = folder / name
        # Bytes are compared, so that other line ends count; the diff shows what can be shown of them.
        raw = path.read_bytes() if path.is_file() else b""
        have, want = raw.decode(errors="replace"), render(request)
        if raw != want.encode():
            found[name] = "".join(
                difflib.unified_diff(
                    have.splitlines(True), want.splitlines(True), f"{name} (on disk)", f"{name} (emitted)"
                )
            )
    for path in sorted(folder.glob("*.py")):
        if path.name not in wanted and path.name != "__init__.py":
            found[path.name] = f"{path.name}: nothing in the default set emits it\n"
    return found
