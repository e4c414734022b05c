"""layoutgen run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import json_option, launch_options, print_json, read_for_compiling, read_launch

if TYPE_CHECKING:
    from layoutgen.execution import RunResult
    from layoutgen.execution.levels import MachineRun

PROGRESS_AFTER = 2.0
"""Seconds without an answer after which a run says how far it is."""


@click.command()
@click.argument("file")
@launch_options
@click.option("--inputs", default="normal", show_default=True, help="normal, integers, large or nan.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs.")
@click.option("--mma", default="v100", show_default=True, help="Arithmetic of the tensor core: v100 or exact.")
@click.option("--arch", default="sm_70", show_default=True, help="Architecture to compile for.")
@click.option(
    "--level", default="ptx", show_default=True, help="ptx, or sass: also the machine code, which must give equal bits."
)
@click.option("--lines", is_flag=True, help="Also print the costs of every source line.")
@json_option
@click.pass_context
def run(
    context: click.Context,
    /,
    file: str,
    inputs: str,
    seed: int,
    mma: str,
    arch: str,
    level: str,
    lines: bool,
    as_json: bool,
    **launch: Any,
) -> None:
    """Execute an emitted FILE on the CPU, watch every access, and compare with float64.

    Exit status 1 when an error exceeds its bound or anything was found.
    """
    from layoutgen.execution import run_kernel

    kernel = read_for_compiling(file)
    chosen = read_launch(kernel.request, inputs=inputs, seed=seed, **launch)
    result = run_kernel(kernel, chosen, mma, arch, _progress(), level)
    if as_json:
        print_json(result.as_dict())
    else:
        _print(result, lines)
    context.exit(0 if result.passed else 1)


def _progress() -> Callable[[int, int], None]:
    """Return what says on standard error how far a long run is, once a second."""
    began = last = time.monotonic()

    def show(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - began > PROGRESS_AFTER and now - last > 1 and done < of:
            last = now
            left = (now - began) / done * (of - done)
            click.echo(f"{done} of {of} blocks, about {left:.0f} s left", err=True)

    return show


def _print(result: RunResult, lines: bool) -> None:
    found = result.as_dict()
    build, report = result.build, result.report
    click.echo(f"{build.kernel} for {build.arch} on the CPU, tensor core {report.mma}, {report.grid} blocks")
    click.echo(
        f"  max error     {found['max_abs_error']:.3g} (relative to the largest result {found['max_rel_error']:.3g})"
    )
    share = 100 * found["bound_share"]
    click.echo(f"  bound         {found['bound']:.3g} there; the worst element uses {share:.1f} % of its bound")
    if result.lse_error is not None:
        click.echo(f"  LSE error     {result.lse_error:.3g}")
    click.echo(f"  shared        {found['wavefronts']} wavefronts, {found['least_wavefronts']} at least")
    click.echo(f"  global        {found['sectors']} sectors, {found['least_sectors']} at least")
    click.echo(f"  executed      {found['instructions']} warp instructions, {found['mma']} mma")
    click.echo(
        f"  time          {result.build_seconds:.1f} s to compile, "
        f"{result.seconds - result.build_seconds:.1f} s to execute and compare"
    )
    click.echo(f"  findings      {len(result.findings) or 'none'}")
    for finding in result.findings:
        click.echo(f"    {finding}")
    if result.machine is not None:
        _print_machine(result.machine)
    if lines:
        for source, count in report.lines.items():
            click.echo(f"  {source}: {count}")
    if not result.passed:
        click.echo("FAILED")


def _print_machine(run: MachineRun) -> None:
    verdict = "differs" if run.differences else "equal bit for bit to the PTX, whatever undefined registers hold"
    click.echo(f"  machine code  {verdict}; {run.report.total.instructions} warp instructions")
    for difference in run.differences:
        click.echo(f"    {difference}")
    for number, report in enumerate(run.reports):
        for finding in report.findings:
            click.echo(f"    (fill {number}) {finding}")
