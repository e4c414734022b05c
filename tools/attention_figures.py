"""Print the static figures of the fast attention kernels as tables: `python tools/attention_figures.py`.

Every figure is of machine code for sm_70 or from the throughput model (docs/model.md); nothing is measured.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import layoutgen as lg
from layoutgen.emission import command
from layoutgen.kernels.attention import MAX_HEAD_DIM
from layoutgen.sass.inspection import inspect
from layoutgen.sass.spans import spans
from layoutgen.toolchain import compile_kernel, read_kernel

HEAD_DIMS = (16, 32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256, 512)
FEATURES: tuple[dict[str, Any], ...] = (
    {},
    {"causal": True},
    {"causal": True, "alignment": "bottom-right"},
    {"window": (512, 0)},
    {"softcap": 30.0},
    {"sinks": True},
    {"bias": True},
    {"mask": True},
    {"out_dtype": "float32"},
)
OTHERS: tuple[dict[str, Any], ...] = (
    {"head_dim": 64, "bias": True},
    {"head_dim": 128, "bias": True},
    {"head_dim": 256, "bias": True},
    {"head_dim": 128, "causal": True, "bias": True},
    {"head_dim": 128, "causal": True, "sinks": True},
    {"head_dim": 128, "bias": True, "mask": True},
    {"head_dim": 256, "causal": True},
    {"head_dim": 64, "v_head_dim": 128},
    {"head_dim": 192, "v_head_dim": 128},
    {"head_dim": 576, "v_head_dim": 512},
    *({"head_dim": d, "max_queries": queries} for d in (64, 96, 128) for queries in (32, 64)),
    *({"head_dim": d, "block_m": 256, "block_n": 64} for d in (80, 96)),
    {"head_dim": 96, "bias": True, "block_m": 256, "block_n": 64},
)
COLUMNS = ("request", "tile", "registers", "spilled", "instructions / HMMA", "B / HMMA", "TFLOP/s", "simple")


def row(options: dict[str, Any], folder: Path) -> list[str]:
    """Return a row of the table: the request, what it compiles to, and the simple design's prediction if it has one."""
    kernel = lg.attention(design="fast", **options)
    found = _inspected(kernel, folder)
    simple = ""
    if set(options) <= {"head_dim", "bias"} and options["head_dim"] <= MAX_HEAD_DIM:
        simple = f"{_inspected(lg.attention(**options), folder).predict().mean:.1f}"
    words = command(kernel.request).split(" --")
    shown = [
        f"--{word}" for word in words[1:] if not word.startswith(("design", "split", "block", "atom", "row-blocks"))
    ]
    if "max_queries" in options:
        shown.append(f"--max-queries {options['max_queries']}")
    compiled = found.compiled
    return [
        f"`{' '.join(shown)}`",
        f"{kernel.request.block_m}x{kernel.request.block_n}",
        str(compiled.registers),
        str(compiled.spill_stores + compiled.spill_loads),
        f"{found.instructions_per_hmma:.2f}",
        f"{found.load_bytes_per_hmma:.0f}",
        f"{found.predict().mean:.1f}",
        simple,
    ]


def _inspected(kernel: lg.Kernel, folder: Path) -> Any:
    file = read_kernel(kernel.write(folder))
    return inspect(file, compile_kernel(file, "sm_70"))


LENGTHS = (1024, 2048, 4096, 8192, 16384)


def causal_rows(folder: Path) -> list[list[str]]:
    """Return, by length, how much more time causal attention takes per attended pair than the plain kernel."""
    found = []
    for head_dim in (64, 96, 128):
        pair = []
        for options in ({}, {"causal": True}):
            file = read_kernel(lg.attention(head_dim=head_dim, design="fast", **options).write(folder))
            pair.append(spans(file, compile_kernel(file, "sm_70")))
        found.append(pair)
    result = []
    for length in LENGTHS:
        more = [causal.cycles_per_pair(length) / plain.cycles_per_pair(length) - 1 for plain, causal in found]
        result.append([f"{length:,}", *(f"{100 * share:.1f} %" for share in more)])
    return result


def tall_rows(folder: Path) -> list[list[str]]:
    """Return, by length, the time of head dim 96 in tiles of 256x64 as a share of that in the usual ones."""
    tiles: tuple[dict[str, int], ...] = ({}, {"block_m": 256, "block_n": 64})
    found = []
    for features in ({}, {"causal": True}):
        pair = []
        for tile in tiles:
            file = read_kernel(lg.attention(head_dim=96, design="fast", **features, **tile).write(folder))
            pair.append(spans(file, compile_kernel(file, "sm_70")))
        found.append(pair)
    return [
        [
            f"{length:,}",
            *(f"{tall.cycles_per_pair(length) / usual.cycles_per_pair(length):.2f}" for usual, tall in found),
        ]
        for length in LENGTHS
    ]


def main() -> None:
    requests = [{"head_dim": 96, **features} for features in FEATURES]
    requests += [{"head_dim": head_dim} for head_dim in HEAD_DIMS if head_dim != 96]
    requests += OTHERS
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for options in requests:
            print("| " + " | ".join(row(options, Path(folder))) + " |")
            sys.stdout.flush()
        print("\n| queries and keys | head dim 64 | 96 | 128 |\n|---|---|---|---|")
        for cells in causal_rows(Path(folder)):
            print("| " + " | ".join(cells) + " |")
        print("\n| queries and keys | plain | causal |\n|---|---|---|")
        for cells in tall_rows(Path(folder)):
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
