"""Requests for a fast matrix product that cannot be: refused in one line, and before Triton is started."""

import re
import sys

import pytest
from click.testing import CliRunner

from layoutgen.cli import main


@pytest.fixture(autouse=True)
def no_triton(monkeypatch):
    """Whoever imports Triton fails."""
    for name in [name for name in sys.modules if name == "triton" or name.startswith("triton.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)


REFUSED = {
    "--block-m 96": "block_m = 96: must be a power of two .* the nearest legal value is 64",
    "--block-n 0": "block_n = 0: must be a power of two .* the nearest legal value is 16",
    "--block-k 8": "block_k = 8: must be a power of two and at least 16, two whole vectors",
    "--warps 3x1": "warps along block_m: 3 is not a power of two; the nearest below is 2",
    "--warps 0x2": "warps 0x2: must be positive",
    "--block-m 32 --block-n 32 --warps 1x4": "block_n = 32: .* the nearest legal value is 64",
    "--block-m 64 --warps 32x1": "block_m = 64: .* the nearest legal value is 256",
    "--block-k 256": r"bytes of shared memory a block: 262144 .* > 98304; the nearest request that can: block_m 64",
    "--block-m 256 --block-n 256": "registers a thread: 528 .* > 255; .* the nearest request that can: block_m 128",
    "--epilogue x+": r"epilogue 'x\+': is neither one of none, relu, silu, gelu, gelu_tanh nor an expression in x",
    "--epilogue tanh(x)": r"epilogue 'tanh\(x\)': 'tanh\(x\)' is not allowed; name one of none, relu, silu, ",
    "--epilogue y*x": r"epilogue 'y\*x': 'y' is not allowed",
    "--epilogue 2.0": "epilogue '2.0': '2.0' does not depend on x",
    "--rounded": "rounded: is about what an epilogue is given",
    "--operand-dtype bfloat16": "operand_dtype 'bfloat16': the instruction multiplies float16, and float32 as",
    "--out-dtype bfloat16": "out_dtype 'bfloat16': must be one of float16, float32",
    "--split-k 0": "split_k = 0: must be 1",
    "--accumulate chunk": "accumulate 'chunk': must be one of unit, tile",
    "--a-order kk": "a_order 'kk': must be one of mk, km",
    "--atom m16n8k8": "has no form of it",
}


@pytest.mark.parametrize("options", REFUSED)
def test_refused_before_triton_is_started(options):
    found = CliRunner().invoke(main, ["emit", "matmul", "--design", "fast", *options.split()])
    assert found.exit_code == 2, found.output
    assert found.stderr.count("\n") == 1
    assert re.search(REFUSED[options], found.stderr), found.stderr


def test_what_is_not_refused_needs_no_triton_either():
    found = CliRunner().invoke(main, ["emit", "matmul", "--design", "fast", "--epilogue", "exp(x)", "--json"])
    assert found.exit_code == 0, found.output
