"""layoutgen: from the fragment mapping of a tensor-core instruction to proved layouts and kernels.

>>> import layoutgen as lg
>>> lg.derive(block_m=64, block_n=32, warps="4x1").shape
(4, 2, 8, 2, 2, 2, 4)
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from layoutgen.algebra import LinearLayout, classify
    from layoutgen.algebra.interchange import read_layout, write_layout
    from layoutgen.api import Kernel, attention, default_set, derive, matmul, prove
    from layoutgen.atoms import CATALOGUE, Atom, atom
    from layoutgen.errors import LayoutgenError
    from layoutgen.profiles import matrix_unit, matrix_unit_flash_tile

_HOMES = {
    "CATALOGUE": "layoutgen.atoms",
    "Atom": "layoutgen.atoms",
    "Kernel": "layoutgen.api",
    "LayoutgenError": "layoutgen.errors",
    "LinearLayout": "layoutgen.algebra",
    "atom": "layoutgen.atoms",
    "attention": "layoutgen.api",
    "classify": "layoutgen.algebra",
    "default_set": "layoutgen.api",
    "derive": "layoutgen.api",
    "matmul": "layoutgen.api",
    "matrix_unit": "layoutgen.profiles",
    "matrix_unit_flash_tile": "layoutgen.profiles",
    "prove": "layoutgen.api",
    "read_layout": "layoutgen.algebra.interchange",
    "write_layout": "layoutgen.algebra.interchange",
}

__all__ = [
    "CATALOGUE",
    "Atom",
    "Kernel",
    "LayoutgenError",
    "LinearLayout",
    "atom",
    "attention",
    "classify",
    "default_set",
    "derive",
    "matmul",
    "matrix_unit",
    "matrix_unit_flash_tile",
    "prove",
    "read_layout",
    "write_layout",
]


def __getattr__(name: str) -> Any:
    # Names are loaded when first used: the command line must start without the whole library.
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module layoutgen has no attribute {name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
