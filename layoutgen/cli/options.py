"""Options that several commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from layoutgen.execution import Launch
    from layoutgen.kernels import Array, Request
    from layoutgen.toolchain import KernelFile

Command = Callable[..., Any]

MAX_DIGITS = 19
"""Digits of an integer that is taken: all of 64 bits and less than Python refuses to convert."""


def json_option(function: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def profile_option(function: Command) -> Command:
    return click.option("--profile", default=None, help="Hardware profile: a name or a .yml file.")(function)


TILING_OPTIONS = (
    click.option("--atom", default=None, help="Name of the instruction.  [default: the profile's]"),
    profile_option,
    click.option("--block-m", type=int, default=None, help="Rows of the accumulator."),
    click.option("--block-n", type=int, default=None, help="Columns of the accumulator."),
    click.option("--warps", default=None, help="Warps along rows x along columns."),
    click.option("--arrangement", default=None, help="Places of the free lane bits, for example m3,n3."),
)


def tiling_options(function: Command) -> Command:
    """The options of derive: what to tile, and how."""
    for option in reversed(TILING_OPTIONS):
        function = option(function)
    return function


def derive_tiling(
    atom: str | None,
    profile: str | None,
    block_m: int | None,
    block_n: int | None,
    warps: str | None,
    arrangement: str | None,
) -> Any:
    """Return the tiling that the options of derive ask for; without a block, the profile's matmul tile."""
    from layoutgen import api
    from layoutgen.profiles import DEFAULT

    return api.derive(
        atom=atom, profile=profile or DEFAULT, block_m=block_m, block_n=block_n, warps=warps, arrangement=arrangement
    )


LAUNCH_OPTIONS = (
    click.option(
        "--shape",
        default=None,
        help="B,H,Hkv,Tq,Tk,D[,Dv] (attention) or Z,M,N,K (matmul).  [default: T = 1024, 1024^3]",
    ),
    click.option(
        "--order", default=None, help="Order in memory: bhtd, bthd, bhdt (attention); nn, nt, tn, tt (matmul)."
    ),
    click.option("--strides", default="contiguous", show_default=True, help="contiguous, padded or expanded."),
    click.option(
        "--misalign", type=int, default=0, show_default=True, help="Bytes by which every array is misaligned."
    ),
)


def launch_options(function: Command) -> Command:
    """What a launch chooses and a compilation is specialised for."""
    for option in reversed(LAUNCH_OPTIONS):
        function = option(function)
    return function


def read_launch(request: Request, shape: str | None, **choices: Any) -> Launch:
    """Return the launch that the options describe; without a shape, the request's default one."""
    from layoutgen.execution import Launch

    return Launch(request.default_shape if shape is None else integers(shape, "shape"), **choices)


def launch_arrays(request: Request, shape: str | None, **choices: Any) -> dict[str, Array]:
    """Return how the arguments of that launch lie in memory."""
    from layoutgen.execution import place

    return {name: placed.array for name, placed in place(request, read_launch(request, shape, **choices), None).items()}


def read_for_compiling(path: str) -> KernelFile:
    """Read an emitted file, and refuse layouts on which Triton would abort the process."""
    from layoutgen.readback.source import check_literals
    from layoutgen.toolchain import read_kernel

    kernel = read_kernel(path)
    check_literals(kernel.path, kernel.source)
    return kernel


def check_one_form(command: str, **chosen: bool) -> None:
    """Refuse a command line that asks for its answer in two forms at once.

    >>> check_one_form("prove", json=True, latex=True)
    Traceback (most recent call last):
    layoutgen.errors.LayoutgenError: prove: name one of --json and --latex
    """
    from layoutgen.errors import LayoutgenError

    if sum(chosen.values()) > 1:
        *others, last = (f"--{form}" for form in chosen)
        raise LayoutgenError(f"{command}: name one of {', '.join(others)} and {last}")


def print_json(value: Any) -> None:
    """Print JSON; what JSON has no number for, an infinity or NaN, becomes null."""
    click.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def integers(text: str, what: str) -> tuple[int, ...]:
    """Read a comma-separated list of non-negative integers.

    >>> integers("64,32", "split")
    (64, 32)
    """
    from layoutgen.errors import LayoutgenError

    parts = text.split(",")
    if not all(part.strip().isdecimal() and part.isascii() and len(part) < MAX_DIGITS for part in parts):
        raise LayoutgenError(
            f"{what} {text!r:.60}: must be a comma-separated list of integers, none negative and of fewer than "
            f"{MAX_DIGITS} digits; for example 64,32"
        )
    return tuple(int(part) for part in parts)
