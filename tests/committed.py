"""The committed kernels as test parameters."""

from pathlib import Path

import pytest

GENERATED = sorted((Path(__file__).parents[1] / "generated").glob("*.py"))
QUICK = ("matmul_64x64",)
"""The start of the names of those of a fast design that every run of the tests compiles."""


def committed():
    """Every committed kernel. Those of the fast designs take long to compile: the other ones wait for the sweep."""
    waiting = [path for path in GENERATED if "_fast" in path.stem and not path.stem.startswith(QUICK)]
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.sweep] if path in waiting else []) for path in GENERATED
    ]
