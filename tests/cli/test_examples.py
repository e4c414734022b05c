"""The examples of the manual that call a kernel: each is emitted as the manual says, and called up to the launch.

There is no torch here: a stand-in makes arrays that have shapes, strides and dtypes, and the files' own host functions
check them, as they do before every launch.
"""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from layoutgen.cli import main
from layoutgen.kernels import contiguous
from layoutgen.toolchain import read_kernel

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": ("## Use a kernel", 2), "docs/matmul.md": ("## A split K", 1)}
"""Page -> the section with examples, and how many it has."""
BY_NAME = {"c", "out", "lse", "bias", "residual"}
"""What an example calls so must be that argument: shapes alone would not tell them apart."""


def examples(page):
    """Return the commands in front of each Python block of the page's section, and the block."""
    heading, count = PAGES[page]
    text = (ROOT / page).read_text(encoding="utf-8").split(f"{heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"(.*?)```python\n(.*?)```", text, re.DOTALL)
    assert len(found) == count
    return [
        (re.findall(r"^    (?:\.venv/bin/)?layoutgen (emit .*)$", before, re.MULTILINE), code) for before, code in found
    ]


def stand_in():
    """What the examples use of torch."""

    def empty(*shape, dtype="torch.float32", device):
        assert device == "cuda"
        return contiguous(shape[0] if isinstance(shape[0], tuple) else shape, dtype)

    return SimpleNamespace(
        float16="torch.float16",
        float32="torch.float32",
        empty=empty,
        randn=empty,
        empty_like=lambda array: contiguous(array.shape, array.dtype),
    )


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Return what emits an example's files and executes its code; the answer is what it would launch, call by call."""

    def doing(commands, code):
        launched = []
        for command in commands:
            name = command.split(" -o ")[1]
            done = CliRunner().invoke(main, [*command.split(" -o ")[0].split(), "-o", str(tmp_path / name)])
            assert done.exit_code == 0, done.output
            file = read_kernel(tmp_path / name)
            module = file.load()

            def launch(*arrays, module=module, file=file, **named):
                given = inspect.signature(getattr(module, file.request.family)).bind(*arrays, **named).arguments
                launched.append((given, module.launch_arguments(*arrays, **named)))

            stem = Path(name).stem
            monkeypatch.setitem(sys.modules, stem, importlib.util.module_from_spec(module.__spec__))
            vars(sys.modules[stem]).update({**vars(module), file.request.family: launch})
        monkeypatch.setitem(sys.modules, "torch", stand_in())
        namespace = {}
        exec(compile(code, "example", "exec"), namespace)
        for given, _ in launched:
            for name in BY_NAME & set(given) & set(namespace):
                if given[name] is not namespace[name]:
                    raise ValueError(f"{name} is not what the example calls so")
        return launched

    return doing


@pytest.mark.parametrize("page", PAGES)
def test_every_example_is_one_that_launches(page, call):
    for commands, code in examples(page):
        launched = call(commands, code)
        assert len(launched) == len(commands) > 0
        assert all(all(grid) for _, (grid, _) in launched)


@pytest.mark.parametrize(
    ("page", "number", "old", "new"),
    [
        ("README.md", 0, "q, k, v, out, lse)", "q, k, v, lse, out)"),
        ("README.md", 1, "torch.randn(512, 1024, **half)", "torch.randn(1024, 512, **half)"),
        ("README.md", 1, "c, bias, residual,", "c, residual, bias,"),
        ("README.md", 1, "alpha=0.5", "gamma=0.5"),
        ("docs/matmul.md", 0, ", **work", ""),
        ("docs/matmul.md", 0, "split.workspace(a, b)", "split.workspace(b, b)"),
    ],
)
def test_an_example_that_is_wrong_is_seen(page, number, old, new, call):
    commands, code = examples(page)[number]
    assert code.count(old) == 1
    with pytest.raises((TypeError, ValueError)):
        call(commands, code.replace(old, new))


@pytest.mark.parametrize(("head_dim", "block_n"), [(64, 64), (128, 32)])
def test_what_the_readme_says_of_a_t4(head_dim, block_n):
    assert f"128 and {block_n} for {head_dim}" in (ROOT / "README.md").read_text(encoding="utf-8").replace(
        "head dim ", ""
    )
    words = ["emit", "attention", "--profile", "turing", "--head-dim", str(head_dim)]
    assert CliRunner().invoke(main, words).exit_code == 0
    refused = CliRunner().invoke(main, [*words, "--design", "fast"])
    assert refused.exit_code == 2
    assert "give block_m and block_n" in refused.stderr
    tile = ["--block-m", "128", "--block-n", str(block_n)]
    assert CliRunner().invoke(main, [*words, "--design", "fast", *tile]).exit_code == 0
