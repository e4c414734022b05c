"""Write docs/matmul.md: the fast design of matmul, with figures from the machine code and from execution on the CPU.

python tools/matmul_figures.py            # a few minutes: some twenty kernels are compiled, and six long ones executed
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import layoutgen as lg
from layoutgen.cpu import Tensor, launch, parse_ptx
from layoutgen.sass.inspection import inspect
from layoutgen.toolchain import build_kernel, compile_kernel, read_kernel

DOC = Path(__file__).parents[1] / "docs" / "matmul.md"
ORDERS = tuple((a, b) for a in ("mk", "km") for b in ("kn", "nk"))
TILES = (
    (128, 128, 32, "2x2"),
    (128, 256, 32, "2x4"),
    (128, 64, 32, "2x2"),
    (128, 64, 16, "2x1"),
    (64, 64, 32, "1x2"),
    (64, 64, 16, "1x1"),
)
DEPTHS = (256, 1024, 4096)
TEXT = """\
# The fast design of matmul

Written by `python tools/matmul_figures.py`; do not edit. Throughput is predicted by the model of
[model.md](model.md) from the machine code that Triton {triton} makes for sm_70; nothing on this page was measured
on a card.

    layoutgen emit matmul --design fast -o matmul.py              # 128x128x32, 2x2 warps, A [M, K], B [K, N]
    layoutgen emit matmul --design fast --a-order km --b-order nk -o matmul.py
    layoutgen emit matmul --design fast --block-m 128 --block-n 64 --block-k 16 --warps 2x1 -o matmul.py
    layoutgen emit matmul --design fast --scale --bias --epilogue silu --rounded --residual -o linear.py
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
- **Parts.** The accumulator is held in parts of rows, one unit a warp (two where A is m-contiguous). A part takes
  all the k of a fetch before the next part begins, so that A's fragments live in few registers, and the next ones
  can be on their way.
- **One barrier a tile.** While a tile is multiplied the next one goes through registers into a second buffer. In
  front of the last part is the barrier, and behind it, still before that part's instructions, the first fetch of
  the next tile.
- **No masks in the loop.** The last K tile, which alone may be cut, comes first. Rows along which vectors do not
  run repeat the last one; along vectors, tiles are loaded unmasked when the size is a multiple of the block
  (`whole`), and masked otherwise. Offsets within a tile take 32 bits unless the strides need more (`wide`). Both
  are decided per launch.

What is proved before anything is emitted: the claims of [design.md](design.md) for the tiling and for its operands
as words, that each buffer is filled, each place once, and that every fetch reads what the instruction wants from
where the store put it. That masks cover is not proved for this design; it rests on execution with every access
watched.

## Figures

For `--a-order` and `--b-order`, 128x128x32, 2x2 warps:

{orders}

For other tiles, A [M, K] and B [K, N]. Small tiles fetch more from global memory, and groups of blocks less, which
the model does not count; that groups change the figure at all is the doing of ptxas, since the loop's source is the
same:

{tiles}

## Who sums over K

The tensor core truncates every sum (docs/facts.md), so that a long sum of terms of one sign drifts. `--accumulate
tile` sums each K tile from zero and adds the tiles in fp32, rounded to nearest. Mean relative error of a product of
matrices drawn uniformly from [0, 1), 32 x K x 32, K tiles of 16, executed in V100 arithmetic:

{drift}

It costs registers: at 128x128x32 the second sum does not fit, and the kernel spills. What is predicted for it:

{apart}
"""


def row(cells: list[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head: list[str], rows: list[list[object]]) -> str:
    return "\n".join([row(list(head)), row(["---"] * len(head)), *map(row, rows)])


def figures(folder: Path, **fields: object) -> list[object]:
    """Return registers, bytes spilled, instructions per HMMA and the prediction at the reference clock."""
    file = read_kernel(lg.matmul(design="fast", **fields).write(folder))
    compiled = compile_kernel(file, "sm_70")
    found = inspect(file, compiled)
    prediction = found.predict()
    return [
        compiled.registers,
        compiled.spill_stores + compiled.spill_loads,
        f"{found.instructions_per_hmma:.2f}",
        f"{prediction.mean:.1f}",
        f"{prediction.low:.1f} to {prediction.high:.1f}",
    ]


def drift(folder: Path, accumulate: str, k: int) -> str:
    made = lg.matmul(
        design="fast", block_m=32, block_n=32, block_k=16, warps="1x1", out_dtype="float32", accumulate=accumulate
    )
    file = read_kernel(made.write(folder))
    rng = np.random.default_rng(0)
    values = {"a": rng.random((1, 32, k)).astype(np.float16), "b": rng.random((1, k, 32)).astype(np.float16)}
    arrays = file.request.arrays((1, 32, 32, k))
    build = build_kernel(file, "sm_70", arrays)
    tensors = {name: Tensor.input(name, value, arrays[name].strides) for name, value in values.items()}
    tensors["c"] = Tensor.output("c", arrays["c"].shape, arrays["c"].dtype, arrays["c"].strides)
    arguments = [tensors.get(name, value) for name, value in build.arguments]
    launch(parse_ptx(build.ptx), build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes)
    exact = values["a"].astype(np.float64) @ values["b"].astype(np.float64)
    return f"{float(((tensors['c'].array - exact) / exact).mean()):.1e}"


def main() -> None:
    import triton

    columns = ["registers", "bytes spilled", "instructions per HMMA", "predicted TFLOP/s", "over staggers"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        orders = [[a, b, *figures(folder, a_order=a, b_order=b)] for a, b in ORDERS]
        tiles = [
            [f"{m}x{n}x{k}", warps, *figures(folder, block_m=m, block_n=n, block_k=k, warps=warps)]
            for m, n, k, warps in TILES
        ]
        tiles.append(["128x128x32, --group-m 8", "2x2", *figures(folder, group_m=8)])
        apart = [
            [f"128x128x{k}", warps, *figures(folder, block_k=k, warps=warps, accumulate="tile")]
            for k, warps in ((16, "2x2"), (32, "2x4"))
        ]
        drifts = [[k, *(drift(folder, accumulate, k) for accumulate in ("unit", "tile"))] for k in DEPTHS]
    DOC.write_text(
        TEXT.format(
            triton=triton.__version__,
            orders=table(["A", "B", *columns], orders),
            tiles=table(["tile", "warps", *columns], tiles),
            apart=table(["tile", "warps", *columns], apart),
            drift=table(["K", "unit", "tile"], drifts),
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
