"""layoutgen prove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import derive_tiling, json_option, print_json, tiling_options

if TYPE_CHECKING:
    from layoutgen.proofs import Verdict


@click.command()
@click.argument("file", required=False)
@tiling_options
@json_option
@click.option("--latex", is_flag=True, help="Print the proofs as LaTeX.")
@click.pass_context
def prove(context: click.Context, /, file: str | None, as_json: bool, latex: bool, **options: Any) -> None:
    """Discharge the obligations of an emitted FILE, or of a tiling.

    A file is proved as its literals stand; without one, the options describe the tiling.
    """
    from layoutgen.errors import LayoutgenError

    edited = False
    if file is None:
        from layoutgen.proofs import prove as prove_tiling

        verdicts: Sequence[Verdict] = prove_tiling(derive_tiling(**options))
    else:
        given = [
            name for name in options if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        ]
        if given:
            raise LayoutgenError(f"prove {file}: takes no --{given[0].replace('_', '-')}; the file carries its request")
        from layoutgen.emission import render
        from layoutgen.emission.readback import prove_source
        from layoutgen.toolchain import read_kernel

        kernel = read_kernel(file)
        verdicts = prove_source(kernel.path, kernel.source, kernel.request)
        edited = kernel.source != render(kernel.request)
    if latex:
        from layoutgen.proofs.methods import latex as as_latex

        click.echo("\n\n".join(as_latex(verdict) for verdict in verdicts))
    else:
        _report(verdicts, edited, as_json)
    context.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


def _report(verdicts: Sequence[Verdict], edited: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "proved": all(verdict.holds for verdict in verdicts),
                "edited": edited,
                "verdicts": [v.as_dict() for v in verdicts],
            }
        )
        return
    for verdict in verdicts:
        click.echo(str(verdict))
    refuted = sum(not verdict.holds for verdict in verdicts)
    click.echo(f"{len(verdicts) - refuted} of {len(verdicts)} obligations proved")
    if edited:
        click.echo("note: the file is not what its request emits; nothing beyond the obligations above was looked at")
