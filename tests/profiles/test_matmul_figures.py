"""docs/matmul.md against the profile and the tool that writes it, as far as nothing need be compiled for that."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "matmul.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("matmul_figures", ROOT / "tools" / "matmul_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing(tool, page):
    """Return what the tool would write that is not in a page, the tables of compiled and executed kernels excepted."""
    compiled = dict.fromkeys(("orders", "tiles", "apart", "drift", "odd", "free", "usual"), "\0")
    written = tool.text(**compiled).split("\0")
    return [piece for piece in written if piece not in page]


def test_the_page_is_what_the_tool_writes(tool):
    assert missing(tool, DOC) == []


@pytest.mark.parametrize("change", [("77.9, 100.8", "77.9, 100.9"), ("| 207 |", "| 208 |"), ("`vectors`", "`vector`")])
def test_a_change_of_the_page_is_seen(tool, change):
    assert change[0] in DOC
    assert len(missing(tool, DOC.replace(*change))) == 1


def test_figures_stand_for_the_tiles_of_the_profile(tool):
    shown = DOC.split("For other tiles")[1].split("## Tiles by size")[0]
    rows = re.findall(r"^\| (\d+)x(\d+)x(\d+) \| (\dx\d) \|", shown, re.MULTILINE)
    assert [(int(m), int(n), int(k), warps) for m, n, k, warps in rows] == tool.shown_tiles()
