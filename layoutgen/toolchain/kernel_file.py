"""Emitted files as the toolchain sees them: their module data, and the module itself."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels import Request, request_from_dict

MODULE_DATA = ("REQUEST", "OPTIONS", "KERNEL", "SIGNATURE")


@dataclass(frozen=True)
class KernelFile:
    """An emitted file: its path, its source and the module data that it carries. Reading it executes nothing."""

    path: Path
    source: str
    data: dict[str, Any]

    @property
    def request(self) -> Request:
        """What the file was emitted for. Raises LayoutgenError, with the file's name, when its REQUEST is none."""
        try:
            return request_from_dict(self.data["REQUEST"])
        except LayoutgenError as error:
            raise type(error)(f"{self.path}: {error}") from error

    @property
    def kernel(self) -> str:
        return str(self.data["KERNEL"])

    @property
    def kernels(self) -> tuple[str, ...]:
        """What one call launches, in this order; `kernel` is among them, the one that the request is about."""
        return self.request.kernels

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.data["OPTIONS"])

    def load(self) -> ModuleType:
        """Import the file, which needs Triton."""
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        name = f"layoutgen_kernel_{self.path.stem}_{digest}"
        if name in sys.modules:
            return sys.modules[name]
        specification = importlib.util.spec_from_file_location(name, self.path)
        if specification is None or specification.loader is None:
            raise LayoutgenError(f"{self.path}: cannot be imported; a kernel file ends in .py")
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        try:
            specification.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            if isinstance(error, ModuleNotFoundError) and error.name == "triton":
                raise LayoutgenError(
                    f"{self.path}: Triton is not installed, and compiling needs it: pip install 'triton>=3.8,<4'"
                ) from error
            raise LayoutgenError(f"{self.path}: importing it failed: {_line(error)}") from error
        return module


def read_kernel(path: Path | str) -> KernelFile:
    """Read an emitted file. Raises LayoutgenError when it is missing, unreadable or no emitted kernel.

    Its top level may hold imports, constants and functions alone, each name bound once, and its options must be those
    of its request: what is read here is then what runs.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise LayoutgenError(f"{path}: is no file; name an emitted kernel file")
        source = path.read_text(encoding="utf-8-sig")
        tree = ast.parse(source)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LayoutgenError(f"{str(path)[:80]}: {reason}; name an emitted kernel file") from error
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise LayoutgenError(f"{path}: not a Python file: {where}{error.msg}; name an emitted kernel file") from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise LayoutgenError(f"{path}: not a Python file: {_line(error)}; name an emitted kernel file") from error
    data = {name: _literal(path, name, value) for name, value in _bindings(path, tree).items() if name in MODULE_DATA}
    missing = [name for name in MODULE_DATA if name not in data]
    if missing:
        raise LayoutgenError(f"{path}: has no {', '.join(missing)}; name a file that `layoutgen emit` wrote")
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    file = KernelFile(path, source, data)
    hosts = ("launch_arguments", *(["launches"] if len(file.kernels) > 1 else []))
    for name in (file.kernel, *file.kernels, *hosts):
        if name not in functions:
            raise LayoutgenError(f"{path}: has no function {name}; emit the file again")
    if file.kernel not in file.kernels:
        raise LayoutgenError(
            f"{path}: KERNEL is {file.kernel}; its request launches {', '.join(file.kernels)}: emit the file again"
        )
    options = data["OPTIONS"]
    if not isinstance(options, dict) or options.get("num_warps") != file.request.num_warps:
        raise LayoutgenError(
            f"{path}: OPTIONS is {options!r}; its request runs with num_warps {file.request.num_warps}: "
            "emit the file again"
        )
    return file


def _bindings(path: Path, tree: ast.Module) -> dict[str, ast.expr]:
    """Return the constants of a module by name. Raises LayoutgenError on anything that could bind a name again."""
    values: dict[str, ast.expr] = {}
    bound: set[str] = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = value
                names = {name}
            case ast.FunctionDef(name=name):
                names = {name}
            case ast.Import() | ast.ImportFrom():
                names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                raise LayoutgenError(
                    f"{path}: line {node.lineno}: a kernel file has imports, constants and functions alone "
                    "at its top level"
                )
        if names & bound:
            raise LayoutgenError(f"{path}: line {node.lineno}: {min(names & bound)} is bound a second time")
        bound |= names
    return values


def _literal(path: Path, name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError) as error:
        raise LayoutgenError(f"{path}: {name} is not a literal") from error


def _line(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
