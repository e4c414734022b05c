"""The model against what others measured: `python tools/model_figures.py` writes docs/model.md.

The points are timings that others published for kernels of the same design as this library's; the kernels that are
inspected here are this library's own, compiled by the Triton that is installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from layoutgen.emission import write_atomically
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, MatmulRequest, Request
from layoutgen.profiles.model import Model
from layoutgen.sass.inspection import STAGGERS, Inspection, Prediction

CLOCK_MHZ = 1290
PAGE = Path("docs/model.md")
EFFICIENCIES = (0.75, 0.775, 0.8, 0.825, 0.85, 0.875, 0.9)
"""Where the one fitted parameter was searched."""

ASSUMED = ("queue_depth", "queue_delay", "latency.read", "latency.barrier", "latency.tensor", "latency.global")


@dataclass(frozen=True)
class Point:
    """A published timing: the kernel, the blocks of its launch, and TFLOP/s as measured by others on a V100-SXM2."""

    family: str
    tile: tuple[int, ...]
    grid_blocks: int
    measured: float

    @property
    def label(self) -> str:
        return "x".join(map(str, self.tile))


ATTENTION = tuple(
    # D = 96, T = 79,200, H = 4, B = 1, no bias.
    Point("attention", tile, -(-79200 // tile[0]) * 4, measured)
    for tile, measured in (
        ((64, 32), 43.6),
        ((128, 32), 43.0),
        ((64, 64), 42.3),
        ((128, 64), 39.8),
        ((64, 128), 27.9),
        ((32, 64), 22.8),
    )
)
HELD_OUT = (Point("matmul", (128, 128, 32), 32 * 32, 57.9),)
"""4096^3; nothing was fitted to it."""


@dataclass(frozen=True)
class Outcome:
    """A point, the kernel that stands for it, and what the model says of it."""

    point: Point
    found: Inspection

    def vary(self, model: Model) -> Outcome:
        """Return the same kernel priced by another model."""
        return Outcome(self.point, self.found.with_model(model))

    def predict(self) -> Prediction:
        return self.found.predict(CLOCK_MHZ, self.point.grid_blocks)

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predict().mean / self.point.measured - 1


def outcome(point: Point) -> Outcome:
    """Emit, compile and inspect the kernel of a point."""
    from layoutgen.api import Kernel
    from layoutgen.profiles import unit_of
    from layoutgen.sass.inspection import inspect, profile_of
    from layoutgen.toolchain import compile_kernel, read_kernel

    atom = unit_of(profile_of("sm_70")).atom.name
    # The simple design by its class: that is the one that was measured, whatever the default is.
    if point.family == "attention":
        block_m, block_n = point.tile
        request: Request = AttentionRequest(head_dim=96, atom=atom, block_m=block_m, block_n=block_n)
    else:
        block_m, block_n, block_k = point.tile
        request = MatmulRequest(atom=atom, block_m=block_m, block_n=block_n, block_k=block_k, warps=(2, 2))
    with tempfile.TemporaryDirectory() as folder:
        file = read_kernel(Kernel(request).write(folder))
        return Outcome(point, inspect(file, compile_kernel(file, "sm_70")))


def misordered(outcomes: Sequence[Outcome], least: float = 0.05) -> list[tuple[str, str]]:
    """Return the pairs whose measurements differ by more than `least` and which the model puts in the wrong order."""
    wrong = []
    for one in outcomes:
        for other in outcomes:
            apart = one.point.measured / other.point.measured - 1 > least
            if apart and one.predict().mean <= other.predict().mean:
                wrong.append((one.point.label, other.point.label))
    return wrong


def rms(errors: Sequence[float]) -> float:
    """Return the root of the mean square.

    >>> rms([3.0, -4.0, 0.0, 0.0])
    2.5
    """
    return sqrt(sum(error * error for error in errors) / len(errors))


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its head.

    >>> print(markdown([("a", "b"), ("1", "2")]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body))


def page(outcomes: Sequence[Outcome], held_out: Sequence[Outcome]) -> str:
    """Return the text of docs/model.md."""
    model = outcomes[0].found.model
    parameters = [("parameter", "value"), ("shared_efficiency", f"{model.shared_efficiency} (fitted)")]
    parameters += [(f"cycles.{name}", str(value)) for name, value in model.cycles.items()]
    parameters += [(f"latency.{name}", str(value)) for name, value in model.latency.items()]
    parameters += [("queue_depth", str(model.queue_depth)), ("queue_delay", str(model.queue_delay))]
    wrong = misordered(outcomes)
    order = "every pair that differs by more than 5 % is in the right order"
    if wrong:
        order = "in the wrong order: " + ", ".join(f"{one} and {other}" for one, other in wrong)
    return PAGE_TEXT.format(
        triton=outcomes[0].found.compiled.triton,
        points=markdown(_points(outcomes)),
        worst=f"{max(abs(one.error) for one in outcomes):.0%}",
        root=f"{rms([one.error for one in outcomes]):.1%}",
        measured=" > ".join(_ranked(outcomes, lambda one: one.point.measured)),
        predicted=" > ".join(_ranked(outcomes, lambda one: one.predict().mean)),
        order=order,
        held_out=markdown(_points(held_out)),
        fit=markdown(_fit(outcomes)),
        assumed=markdown(_assumed(outcomes)),
        parameters=markdown(parameters),
        staggers=", ".join(f"{share:g}" for share in STAGGERS),
    )


def _points(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("kernel", "blocks x warps", "registers", "bytes spilled", "measured", "bound", "predicted", "range", "error")
    ]
    for one in outcomes:
        found, predicted = one.found, one.predict()
        rows.append(
            (
                f"{one.point.family} {one.point.label}",
                f"{found.occupied.blocks} x {found.occupied.warps_per_block}",
                str(found.compiled.registers),
                str(found.compiled.spill_stores + found.compiled.spill_loads),
                f"{one.point.measured:.1f}",
                f"{predicted.bound_tflops:.1f} ({found.ports.limiter})",
                f"{predicted.mean:.1f}",
                f"{predicted.low:.1f} to {predicted.high:.1f}",
                f"{one.error:+.0%}",
            )
        )
    return rows


def _ranked(outcomes: Sequence[Outcome], key: Callable[[Outcome], float]) -> list[str]:
    return [one.point.label for one in sorted(outcomes, key=key, reverse=True)]


def _fit(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("shared_efficiency", "root mean square error", "largest")]
    for value in EFFICIENCIES:
        errors = [one.vary(replace(one.found.model, shared_efficiency=value)).error for one in outcomes]
        rows.append((f"{value:g}", f"{rms(errors):.1%}", f"{max(map(abs, errors)):.0%}"))
    return rows


def _assumed(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("parameter", "root mean square error: halved", "as it is", "doubled")]
    for name in ASSUMED:
        row = [name]
        for factor in (0.5, 1.0, 2.0):
            varied = [one.vary(scaled(one.found.model, name, factor)) for one in outcomes]
            row.append(f"{rms([one.error for one in varied]):.1%}")
        rows.append(tuple(row))
    return rows


def scaled(model: Model, name: str, factor: float) -> Model:
    """Return the model with one parameter multiplied, rounded to whole cycles."""
    group, _, entry = name.partition(".")
    value = getattr(model, group)
    changed: Any = {**value, entry: round(value[entry] * factor)} if entry else round(value * factor)
    return replace(model, **{group: changed})


PAGE_TEXT = """# The throughput model

Written by `python tools/model_figures.py`; do not edit.

`layoutgen inspect` and `layoutgen tune` predict the throughput of a kernel's main loop from the machine code that ptxas
made of it. Nothing on this page was measured by this project. The column *measured* was published by others, on a
V100-SXM2 at 1,290 MHz (HMMA ceiling 105.7 TFLOP/s), for kernels of the same design whose machine code is not known;
the kernels inspected here are this library's own, compiled by Triton {triton}.

## What is computed

1. The machine code is decoded with its control codes: stall counts, the six barriers, wait masks. The main loop is
   the innermost loop with the most HMMA.
2. Shared-memory wavefronts of each LDS and STS are exact: the kernel's PTX is executed on the CPU for two and for four
   tiles, and half the difference per source line is what one tile costs.
3. Occupancy follows from registers, shared memory and warps; the bound is the busiest port with all resident warps.
4. The loop is simulated on one SM: four sub-cores, each issuing at most one instruction a clock; tensor, FMA, ALU and
   XU ports of their own; one queue for shared, global and local accesses and shuffles that all four share; barriers of
   blocks. It is repeated with each block starting {staggers} of the bound later than the one before, since
   nothing says how blocks lie in time. The prediction is the mean; the range is that of the staggers, and no confidence
   interval.
5. For a launch of known size the last, short wave of blocks is counted. Below, this is done.

## Prediction against measurement, TFLOP/s

Attention, D = 96 as 64 + 32, T = 79,200, H = 4, B = 1, no bias; named by queries x keys of a block:

{points}

The largest error is {worst}, the root mean square {root}.

- Measured: {measured}.
- Predicted: {predicted}.
- Of the six points, {order}.

One more published point, to which nothing was fitted: matmul 4096^3.

{held_out}

## Parameters

They live in `layoutgen/profiles/nvidia/volta.yml`, each with its source. One was fitted to the six attention points:
`shared_efficiency`, the share of clocks in which the shared-memory pipe moves a wavefront when it is never idle. It was
chosen from this grid:

{fit}

All parameters, cycles:

{parameters}

What the assumed ones do to the errors of the six points when they are halved and doubled; they were not fitted:

{assumed}

## What is left out

- Misses of L2: the tiles of K and V are taken to come from L2. Bandwidth of L2 and of DRAM, and their queues.
- Bank conflicts between the register file's banks, and the reuse cache; operand collectors of HMMA.
- The instruction cache: the loops are up to 50 KB of code, and the V100's first level holds 12 KB a sub-core.
- Prologue and epilogue of a block, and the launch itself. At T = 79,200 they are below 1 % of the time; in a short
  launch they are not.
- Branches within the loop are counted as not taken, and predicated instructions as executed.
- The order in which a real scheduler picks among ready warps, which is not public; clocks that move under load.
- Wavefronts of global accesses: 1, 2 or 4 by width, whatever their addresses.
- The T4's model has the V100's parameters where none are published for it, and nothing to be validated against.

For a kernel that spills (64x128 and 32x64 here do) the machine code depends most on the compiler's version, and the
comparison says least.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write docs/model.md, or with --check compare it."""
    parser = argparse.ArgumentParser(description="Write the page that compares the model with published timings.")
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="fail when the page has drifted")
    options = parser.parse_args(arguments)
    try:
        text = page([outcome(point) for point in ATTENTION], [outcome(point) for point in HELD_OUT])
        if options.check:
            same = options.output.exists() and options.output.read_text(encoding="utf-8") == text
            print(f"{options.output}: {'as generated' if same else 'has drifted'}")
            return 0 if same else 1
        write_atomically(options.output, text)
        print(options.output)
    except LayoutgenError as error:
        print(f"model page: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
