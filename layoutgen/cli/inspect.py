"""layoutgen inspect."""

from __future__ import annotations

from typing import Any

import click

from layoutgen.cli.options import json_option, launch_arrays, launch_options, print_json, read_for_compiling


@click.command()
@click.argument("file")
@click.option("--arch", default="sm_70", show_default=True, help="Architecture to compile for.")
@click.option("--profile", default=None, help="Hardware profile.  [default: the one for the architecture]")
@launch_options
@click.option("--clock", type=click.IntRange(min=1), default=None, help="Clock in MHz.  [default: the profile's]")
@click.option("--instructions", "each", is_flag=True, help="Show every instruction of the main loop.")
@click.option("--vs", default=None, help="Another emitted file, to set beside the first.")
@json_option
def inspect(
    file: str,
    arch: str,
    profile: str | None,
    clock: int | None,
    each: bool,
    vs: str | None,
    as_json: bool,
    **launch: Any,
) -> None:
    """Say what limits an emitted FILE, from its machine code: ports, bound, predicted throughput.

    Everything it prints comes from a model (docs/model.md); nothing is measured.
    """
    from layoutgen.errors import LayoutgenError
    from layoutgen.sass import report
    from layoutgen.sass.hazards import warnings as control_code_warnings
    from layoutgen.sass.inspection import Inspection, inspect, instruction_dicts
    from layoutgen.toolchain import compile_kernel, read_kernel

    if each and vs is not None:
        raise LayoutgenError("inspect: --instructions shows one kernel, --vs two; ask for one of them")

    if vs is not None:
        families = [read_kernel(path).request.family for path in (file, vs)]
        if len(set(families)) > 1:
            raise LayoutgenError(
                f"inspect {file} --vs {vs}: one is {families[0]}, the other {families[1]}; name two files of one family"
            )

    def one(path: str) -> Inspection:
        kernel = read_for_compiling(path)
        arrays = launch_arrays(kernel.request, **launch)
        return inspect(kernel, compile_kernel(kernel, arch, arrays), profile)

    found = one(file)
    if vs is not None:
        other = one(vs)
        if as_json:
            print_json([found.as_dict(clock), other.as_dict(clock)])
        else:
            click.echo(report.versus(found, other, clock))
        return
    warnings = control_code_warnings(found.program)
    if as_json:
        result = found.as_dict(clock) | {"hazards": warnings}
        print_json(result | {"instructions": instruction_dicts(found)} if each else result)
        return
    click.echo(report.summary(found, clock))
    click.echo(f"\nControl codes (a check of dependences, no proof of timing): {len(warnings) or 'no'} warnings")
    for warning in warnings:
        click.echo(f"  warning: {warning}")
    if each:
        click.echo("\n" + report.instructions(found))
