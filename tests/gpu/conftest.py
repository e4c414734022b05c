"""Tests that need a CUDA GPU. Set LAYOUTGEN_RECORD to a file to keep the record of a run."""

import datetime
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import layoutgen as lg

ROWS: list[tuple[str, str, str]] = []


@pytest.fixture(scope="session")
def torch():
    torch = pytest.importorskip("torch", reason="the gpu tests need torch")
    if not torch.cuda.is_available():
        pytest.fail("the gpu tests were asked for, but torch sees no CUDA device")
    torch.manual_seed(0)
    return torch


@pytest.fixture(scope="session")
def load(tmp_path_factory):
    """Write a kernel and import the file, as a user would."""
    folder = tmp_path_factory.mktemp("kernels")

    def load(kernel: lg.Kernel):
        path = kernel.write(folder)
        specification = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(specification)
        sys.modules[path.stem] = module
        specification.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def record() -> Callable[[str, str, str], None]:
    """Note one result: what was run, what was measured, and the bound it was held to."""
    return lambda case, measured, bound: ROWS.append((case, measured, bound))


@pytest.fixture(scope="session", autouse=True)
def keep_record() -> Iterator[None]:
    yield
    path = os.environ.get("LAYOUTGEN_RECORD")
    if not path or not ROWS:
        return
    import torch
    import triton

    card = torch.cuda.get_device_name()
    major, minor = torch.cuda.get_device_capability()
    emulated = (
        "" if (major, minor) in ((7, 0), (7, 5)) else " (m8n8k4 is emulated there: right numbers, meaningless speed)"
    )
    lines = [
        f"# Emitted kernels on {card}",
        "",
        f"sm_{major}{minor}{emulated}; {datetime.date.today()}; layoutgen {lg.__version__}, "
        f"Triton {triton.__version__}, torch {torch.__version__}, Python {platform.python_version()}.",
        "Written by `LAYOUTGEN_RECORD=FILE make gpu`. References are float64.",
        "",
        "| case | measured | bound |",
        "|---|---|---|",
        *(f"| {case} | {measured} | {bound} |" for case, measured, bound in ROWS),
    ]
    Path(path).write_text("\n".join(lines) + "\n")
