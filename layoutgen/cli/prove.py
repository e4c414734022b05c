"""layoutgen prove."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import check_one_form, derive_tiling, json_option, print_json, tiling_options

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

    A file is proved as it stands: its layouts, what it does with them, and its masks for all lengths. Without one, the
    options describe a tiling.
    """
    from layoutgen.errors import LayoutgenError

    check_one_form("prove", json=as_json, latex=latex)
    edited = None
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
        from layoutgen.readback.source import prove_source
        from layoutgen.toolchain import read_kernel

        kernel = read_kernel(file)
        verdicts = prove_source(kernel.path, kernel.source, kernel.request)
        edited = _first_difference(kernel.source, render(kernel.request))
    if latex:
        from layoutgen.proofs.methods import latex as as_latex

        click.echo("\n\n".join(as_latex(verdict) for verdict in verdicts))
    else:
        _report(verdicts, file, edited, as_json)
    context.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


def _first_difference(source: str, emitted: str) -> str | None:
    """Return the first line in which a file is not what its request emits, beside that."""
    lines = zip_longest(source.splitlines(), emitted.splitlines())
    for number, (found, planned) in enumerate(lines, 1):
        if found != planned:
            have, want = ("no such line" if line is None else repr(line.strip()) for line in (found, planned))
            if have == want:
                have, want = repr(found), repr(planned)
            return f"line {number} is {have}, not {want}"
    return None if source == emitted else "its ends of lines are others"


def _report(verdicts: Sequence[Verdict], file: str | None, edited: str | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "proved": all(verdict.holds for verdict in verdicts),
                "edited": edited is not None,
                "verdicts": [v.as_dict() for v in verdicts],
            }
        )
        return
    for verdict in verdicts:
        click.echo(str(verdict))
    refuted = sum(not verdict.holds for verdict in verdicts)
    click.echo(f"{len(verdicts) - refuted} of {len(verdicts)} obligations proved")
    if edited is not None:
        click.echo(f"note: the file is not what its request emits: {edited}")
        click.echo(f"nothing beyond the obligations above was looked at; execute it with: layoutgen run {file}")
