"""Write docs/matmul.md: the fast design of matmul, with figures from the machine code and from execution on the CPU.

python tools/matmul_figures.py            # a few minutes: some twenty kernels are compiled, and some long ones executed
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

import numpy as np

import layoutgen as lg
from layoutgen.execution import call
from layoutgen.kernels.matmul_workspace import PRODUCTS
from layoutgen.profiles import FastMatmulTile, choose_matmul, load_profile
from layoutgen.profiles.matmul_tiles import launch_seconds
from layoutgen.sass.inspection import Inspection, inspect
from layoutgen.toolchain import compile_kernel, read_kernel

Change = Callable[[str], str] | None

DOC = Path(__file__).parents[1] / "docs" / "matmul.md"
ORDERS = tuple((a, b) for a in ("mk", "km") for b in ("kn", "nk"))
WIDE_TILE = (128, 256, 32, "2x4")
"""Shown beside the profile's tiles: eight warps, of which an SM holds one block."""
ODD = (1, 1001, 1001, 1001)
DEPTHS = (256, 1024, 4096)
MODES = ({"accumulate": "unit"}, {"accumulate": "tile"}, {"accumulate": "tile", "operand_dtype": "float32"})
SHAPES = (
    (1, 8192, 8192, 8192),
    (1, 4096, 4096, 4096),
    (1, 2048, 2048, 2048),
    (1, 1024, 1024, 1024),
    (1, 512, 512, 512),
    (1, 64, 4096, 4096),
    (1, 256, 256, 16384),
    (1, 128, 128, 65536),
)
TEXT = """\
# The fast design of matmul

Written by `python tools/matmul_figures.py`; do not edit. Throughput is predicted by the model of
[model.md](model.md) from the machine code that Triton {triton} makes for sm_70; nothing on this page was measured
on a card.

    layoutgen emit matmul --design fast -o matmul.py              # 128x128x32, 2x2 warps, A [M, K], B [K, N]
    layoutgen emit matmul --design fast --a-order km --b-order nk -o matmul.py
    layoutgen emit matmul --design fast --block-m 128 --block-n 64 --block-k 32 --warps 1x2 -o matmul.py
    layoutgen emit matmul --design fast --scale --bias --epilogue silu --rounded --residual -o linear.py
    layoutgen emit matmul --design fast --shape 1,256,256,16384 -o matmul.py       # the tile for a size, and a split K
    layoutgen emit matmul --design fast --operand-dtype float32 --accumulate tile -o matmul32.py
    layoutgen inspect matmul.py                                   # the figures of the tables below
    layoutgen run matmul.py --shape 1,300,200,100 --inputs nan    # executed on the CPU against float64

`--design simple`, the default, is the readable yardstick.

## How it works

- **Words.** The form of the atom is chosen whose operands run along what is contiguous in memory: `.row` or `.col`
  for A and for B. So every tile is copied as it lies, 16 bytes at a time, in all four storage orders, and two
  neighbouring 16-bit elements stay one register from the fetch to the instruction.
- **Fetches of 16 bytes.** A fetch along k serves two k-steps; a fetch along rows or columns serves two units, whose
  rows (or columns) are renamed so that a thread's registers hold neighbours. Where the free lane bits go, and how
  many rows stand beside each other in a buffer, is searched: the fewest wavefronts win, and stores and fetches have
  none to spare.
- **Parts.** In `unit` mode the accumulator is held in parts of rows, two units a warp. A part takes all the k of a
  fetch before the next part begins, so that A's fragments live in few registers, and the next ones can be on their
  way. With one unit, an instruction would often wait for the one before it.
- **One barrier a tile.** While a tile is multiplied the next one goes through registers into a second buffer. In
  front of the last part (in `tile` mode of its last two k-steps) is the barrier, and behind it, still before those
  instructions, the first fetch of the next tile.
- **No masks in the loop.** The last K tile, which alone may be cut, comes first. Rows along which vectors do not
  run repeat the last one; along vectors, and in `tile` mode always, tiles are loaded unmasked when the size is a
  multiple of the block (`whole`), and masked otherwise. Where sizes and strides are multiples of 8 the kernel says so
  to the compiler (`vectors`), which knows by itself of multiples of 16 alone. Offsets within a tile take 32 bits
  unless the strides need more (`wide`). All three are decided per launch.

What follows the product, C = epilogue(alpha A B + beta bias) + residual, is done in fp32 on the accumulator. What is
not finite shows: maximum and minimum, and so relu, are NaN where an argument is, and a factor of 0 gives NaN for it,
where BLAS would not look at the product (alpha = 0) or the bias (beta = 0). `gelu` is the exact form, by erf;
`gelu_tanh` its approximation by tanh.

What is proved before anything is emitted: the claims of [design.md](design.md) for the tiling and for its operands
as words, that each buffer is filled, each place once, and that every fetch reads what the instruction wants from
where the store put it. `layoutgen prove FILE` proves of each kernel of a file, for all lengths,
that its loads and stores stay within the matrices and miss nothing, under what the host function says of the launch
(`whole`). What the kernels of one call hand to each other is compared with what the request emits, and executed.

## Figures

For `--a-order` and `--b-order`, 128x128x32, 2x2 warps:

{orders}

For other tiles, A [M, K] and B [K, N]. Small tiles fetch more from global memory, and groups of blocks less, which
the model does not count; that groups change the figure at all is the doing of ptxas, since the loop's source is the
same:

{tiles}

## Tiles by size

A launch takes as long as its waves of blocks. The profile keeps, for every size of a block, the fastest tile that
`layoutgen tune matmul --design fast --block-m M --block-n N` found, another that is faster while blocks are few,
and what is predicted of each with one, two and more blocks on every SM:

{rates}

`--shape Z,M,N,K` takes the tile with the shortest predicted time, and splits K where blocks would be fewer than SMs.
A block is taken to cost one K tile more than it has, for the first one; a split writes and reads its partial sums
once at the memory's peak rate and waits 4 us for the second kernel. What memory and caches take for A and B is not
in it, so that skinny products are slower than said here. Chosen, A and B in fp16:

{choices}

## A split K

`--split-k S` lets S blocks share the sum of an element. Each takes a run of K tiles and writes its partial sum in fp32;
a second kernel of the file adds them, always from the first to the last, and does what follows the product. There are
no atomics: every run gives the same bits. The caller brings the workspace, of which the file says the shapes:

    layoutgen emit matmul --design fast --split-k 8 -o split.py

```python
import torch
import split  # on the machine with the card

half = {{"device": "cuda", "dtype": torch.float16}}
a, b, c = torch.randn(256, 16384, **half), torch.randn(16384, 256, **half), torch.empty(256, 256, **half)
work = {{
    name: torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")
    for name, (shape, dtype) in split.workspace(a, b).items()
}}
split.matmul(a, b, c, **work)  # the same workspace serves the next call
```

## fp32 operands

`--operand-dtype float32` takes A and B in fp32, and multiplies two fp16 parts of each. A kernel for each operand finds
the largest finite element of every row of A (column of B), scales the row by a power of two so that this element lies
in [2^14, 2^15), and splits x = hi + lo + rest, both parts rounded to nearest. The workspace holds A as [lo, hi, hi] and
B as [hi, lo, hi] along K, so that the product is one of three times the depth, in the same loop; the scales are undone
in fp32 at the end, in two factors that cannot overflow on the way. Infinities and NaN stand in the last third alone and
give what IEEE arithmetic gives, unless the other factor is below 2^-39 of its row's largest and was rounded to zero.
bfloat16 is refused: the instruction does not multiply it, and float32 has its range.

What a product of depth K may be off by, per element of C:

- the parts: 2^-23 of an element, or 2^-25 of the scaled unit where lo is subnormal, which is 2^-39 of the row's largest
  element; lo lo is left out, at most 2^-22 |A| |B|. Together at most 2^-21 |A| |B|, and 2^-38 (max |A row| |B| sum +
  max |B column| |A| sum). The second term is no share of |A| |B|: an element that is 2^-30 of its row's largest keeps 9
  bits, one of 2^-41 none. Rows of A and columns of B may differ by any factor, elements within one should not.
- the tensor core: every step of 4 k truncates, at most 6 units of 2^-23 of the magnitudes summed so far. In `tile`
  mode that is 4 steps, 2^-18.4 |A| |B|, and 2^-24 for each of the 3 K / 16 additions in fp32; in `unit` mode it grows
  with K.

This worst case is what `layoutgen run` holds a run to. On random matrices in `tile` mode the error stays below 2^-18
|A| |B| by far: see the next table. It costs three products, so the rate is a third of the loop's, and before it two
kernels that read an operand twice and write three halves of it, 14 bytes an element: at 4096^3 {split_ms} ms at the
memory's peak rate, beside {parts_ms} ms predicted for the product ({parts_tile}, `tile`).

## Who sums over K

The tensor core truncates every sum (docs/facts.md), so that a long sum of terms of one sign drifts. `--accumulate
tile` sums every 16 k from zero and adds these sums in fp32, rounded to nearest. Errors of a product 32 x K x 32,
executed in V100 arithmetic: the mean relative one of matrices drawn uniformly from [0, 1), and the largest of normally
distributed ones, relative to |A| |B| (2^-18 is 3.8e-06):

{drift}

It costs an addition for every element of C and 16 k, and registers, since a sum stands beside the product. So the parts
of C take turns: each sums 16 k before the next part begins, and its sums are added to its product while the next one
is multiplied, one addition beside every HMMA of two k-steps. A part has four units of a warp: four sums of which none
waits for another, in 32 registers. Parts that follow each other share the fragments of one operand, which are held for
16 k; those of the other are streamed, one k-step ahead.

Registers decide. A block of 128x128 has 128 of products a thread, 32 of sums and up to 32 of fragments, of 255:

- **Branches.** Nothing in a tile waits for the result of an addition. So ptxas puts additions off until no register is
  left, and then does many of them in a row, while the tensor core stands still. It moves no instruction across a
  branch: before the last k-step of every part `stay` would leave the kernel if K were negative, which it never is.
- **Level 1 of ptxas**, in the file's `OPTIONS`. From level 2 on ptxas puts additions off all the same.
- **Additions that are not pure**, and stand in one piece of assembly with their k-step: LLVM would move those of all
  parts behind the tile.
- **Portions.** The next tile comes in portions of one vector a thread, two or three of which are on their way at a
  time, not in one piece.
- **Pointers** that move by strides which LLVM cannot see through (`pinned`): it would merge the two of A and B into
  one, with offsets in registers that no load needs, and keep the offsets of all portions as well.

What is predicted, for `--a-order` and `--b-order`, and how much less that is than the same orders' `unit` above:

{apart}

Without `--warps` a file has 1x4 warps for A [M, K] and 2x2 for A [K, M]. Without the branches the same four kernels
{free}; at the usual level of ptxas {usual}.

Lengths of which no vector is a multiple are copied element by element, a register each. At 1001 x 1001 x 1001:

{odd}
"""


def row(cells: list[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head: list[str], rows: list[list[object]]) -> str:
    return "\n".join([row(list(head)), row(["---"] * len(head)), *map(row, rows)])


def loop(folder: Path, change: Change = None, shape: tuple[int, ...] | None = None, **fields: object) -> Inspection:
    """Return what is found of a kernel, after a change of its source, and for a shape."""
    path = Path(lg.matmul(design="fast", **fields).write(folder))
    if change is not None:
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    file = read_kernel(path)
    return inspect(file, compile_kernel(file, "sm_70", file.request.arrays(shape) if shape else None))


def spilled(found: Inspection) -> int:
    return found.compiled.spill_stores + found.compiled.spill_loads


def span(values: Sequence[float], digits: int = 0) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def otherwise(folder: Path, change: Change) -> str:
    """Return in words what the kernels whose sums are added apart are like after a change of their source."""
    found = [loop(folder, change, accumulate="tile", a_order=a, b_order=b) for a, b in ORDERS]
    rates = span([each.predict().mean for each in found])
    return f"spill {span([spilled(each) for each in found])} bytes and are predicted at {rates} TFLOP/s"


def without_branches(source: str) -> str:
    return "".join(line for line in source.splitlines(keepends=True) if line.strip() != "stay(k)")


def at_the_usual_level(source: str) -> str:
    return source.replace(', "ptx_options": "--opt-level 1"', "")


def odd_lengths(folder: Path) -> list[list[object]]:
    rows: list[list[object]] = []
    for way in ("unit", "tile"):
        for a, b in ORDERS:
            found = loop(folder, None, ODD, accumulate=way, a_order=a, b_order=b)
            rows.append([way, a, b, found.compiled.registers, spilled(found), f"{found.predict().mean:.1f}"])
    return rows


def figures(folder: Path, **fields: object) -> list[object]:
    """Return registers, bytes spilled, instructions per HMMA and the prediction at the reference clock."""
    found = loop(folder, **fields)
    compiled, prediction = found.compiled, found.predict()
    return [
        compiled.registers,
        compiled.spill_stores + compiled.spill_loads,
        f"{found.instructions_per_hmma:.2f}",
        f"{prediction.mean:.1f}",
        f"{prediction.low:.1f} to {prediction.high:.1f}",
    ]


def errors(folder: Path, k: int, **fields: object) -> tuple[float, float]:
    """Return two errors of a product of depth k in V100 arithmetic: the mean relative one of positive matrices, and
    the largest of normal ones, relative to |A| |B|."""
    made = lg.matmul(design="fast", block_m=32, block_n=32, block_k=16, warps="1x1", out_dtype="float32", **fields)
    file = read_kernel(made.write(folder))
    rng = np.random.default_rng(0)
    found = []
    for draw in (rng.random, rng.standard_normal):
        a, b = (draw(shape).astype(file.request.given_dtype) for shape in ((1, 32, k), (1, k, 32)))
        got = call(file, (1, 32, 32, k), {"a": a, "b": b}).arrays["c"]
        a, b = a.astype(np.float64), b.astype(np.float64)
        found.append((got - a @ b, a @ b, np.abs(a) @ np.abs(b)))
    (uniform, exact, _), (normal, _, magnitude) = found
    return float((uniform / exact).mean()), float((np.abs(normal) / magnitude).max())


def tile_name(tile: FastMatmulTile) -> str:
    return f"{tile.block_m}x{tile.block_n}x{tile.block_k}"


def warps_name(tile: FastMatmulTile) -> str:
    return "x".join(map(str, tile.warps))


def rates() -> list[list[object]]:
    """Return the profile's tiles and what is predicted of each."""
    return [
        [tile_name(tile), warps_name(tile), tile.accumulate, ", ".join(map(str, tile.tflops))]
        for tile in profile_tiles()
    ]


def profile_tiles() -> tuple[FastMatmulTile, ...]:
    card = load_profile("volta")
    assert card.unit is not None
    return card.unit.matmul_fast


def shown_tiles() -> list[tuple[int, int, int, str]]:
    """Return the tiles whose figures are shown: the profile's for `unit`, and a wider one behind the first."""
    first, *others = (
        (tile.block_m, tile.block_n, tile.block_k, warps_name(tile))
        for tile in profile_tiles()
        if tile.accumulate == "unit"
    )
    return [first, WIDE_TILE, *others]


def text(**tables: str) -> str:
    """Return the page."""
    import triton

    card = load_profile("volta")
    memory = card.memory_gb_per_s
    assert memory is not None
    parts = choose_matmul(card, (1, 4096, 4096, 4096), "tile", PRODUCTS)
    return TEXT.format(
        triton=triton.__version__,
        rates=table(["tile", "warps", "accumulate", "TFLOP/s with 1, 2, ... blocks on an SM"], rates()),
        choices=table(["M x N x K", "tile, warps", "split K", "blocks", "us", "us, first tile", "TFLOP/s"], choices()),
        parts_ms=f"{parts.seconds * 1e3:.1f}",
        split_ms=f"{2 * 14 * 4096**2 / (memory * 1e9) * 1e3:.1f}",
        parts_tile=tile_name(parts.tile),
        **tables,
    )


def choices() -> list[list[object]]:
    """Return what is chosen for some sizes, and how long that is predicted to take beside the first tile, unsplit."""
    card = load_profile("volta")
    rows: list[list[object]] = []
    for shape in SHAPES:
        found = choose_matmul(card, shape)
        plain = launch_seconds(profile_tiles()[0], shape, 1, card)
        tflops = 2 * prod(shape) / found.seconds / 1e12
        rows.append(
            [
                "x".join(map(str, shape[1:])),
                f"{tile_name(found.tile)}, {warps_name(found.tile)}",
                found.split_k,
                found.blocks,
                f"{found.seconds * 1e6:.0f}",
                f"{plain * 1e6:.0f}",
                f"{tflops:.1f}",
            ]
        )
    return rows


def main() -> None:
    columns = ["registers", "bytes spilled", "instructions per HMMA", "predicted TFLOP/s", "over staggers"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        orders = [[a, b, *figures(folder, a_order=a, b_order=b)] for a, b in ORDERS]
        tiles = [
            [f"{m}x{n}x{k}", warps, *figures(folder, block_m=m, block_n=n, block_k=k, warps=warps)]
            for m, n, k, warps in shown_tiles()
        ]
        tiles.append(["128x128x32, --group-m 8", "2x2", *figures(folder, group_m=8)])
        apart: list[list[object]] = []
        for (a, b), (*_, unit, _spread) in zip(ORDERS, orders, strict=True):
            found = figures(folder, a_order=a, b_order=b, accumulate="tile")
            apart.append([a, b, *found, f"{100 - 100 * float(str(found[3])) / float(str(unit)):.1f} %"])
        odd = odd_lengths(folder)
        free, usual = otherwise(folder, without_branches), otherwise(folder, at_the_usual_level)
        drifts = [
            [k, *(f"{mean:.1e}, {most:.1e}" for mean, most in (errors(folder, k, **mode) for mode in MODES))]
            for k in DEPTHS
        ]
    DOC.write_text(
        text(
            orders=table(["A", "B", *columns], orders),
            tiles=table(["tile", "warps", *columns], tiles),
            apart=table(["A", "B", *columns, "less than unit"], apart),
            odd=table(["sums", "A", "B", "registers", "bytes spilled", "predicted TFLOP/s"], odd),
            free=free,
            usual=usual,
            drift=table(["K", "unit", "tile", "tile, fp32 operands"], drifts),
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
