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
        return request_from_dict(self.data["REQUEST"])

    @property
    def kernel(self) -> str:
        return str(self.data["KERNEL"])

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
        except ModuleNotFoundError as error:
            del sys.modules[name]
            if error.name == "triton":
                raise LayoutgenError(
                    f"{self.path}: Triton is not installed, and compiling needs it: pip install 'triton>=3.8,<4'"
                ) from error
            raise LayoutgenError(f"{self.path}: importing it failed: {error}") from error
        except Exception as error:
            del sys.modules[name]
            raise LayoutgenError(f"{self.path}: importing it failed: {error}") from error
        return module


def read_kernel(path: Path | str) -> KernelFile:
    """Read an emitted file. Raises LayoutgenError when it is missing, unreadable or no emitted kernel."""
    path = Path(path)
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except OSError as error:
        raise LayoutgenError(
            f"{path}: {(error.strerror or str(error)).lower()}; name an emitted kernel file"
        ) from error
    except (SyntaxError, ValueError) as error:
        raise LayoutgenError(f"{path}: not a Python file: {error}; name an emitted kernel file") from error
    data: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in MODULE_DATA:
                try:
                    data[name] = ast.literal_eval(node.value)
                except ValueError as error:
                    raise LayoutgenError(f"{path}: {name} is not a literal") from error
    missing = [name for name in MODULE_DATA if name not in data]
    if missing:
        raise LayoutgenError(f"{path}: has no {', '.join(missing)}; name a file that `layoutgen emit` wrote")
    return KernelFile(path, source, data)
