"""layoutgen probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from layoutgen.cli.options import integers, json_option, print_json

if TYPE_CHECKING:
    from layoutgen.probing import Row


@click.command()
@click.argument("kind", type=click.Choice(["tile", "matmul", "attention"]))
@click.option(
    "--shape",
    default=None,
    help="B,H,Hkv,Tq,Tk,D or Z,M,N,K with Z = 1.  [default: 1,4,4,8192,8192,96; 1,4096,4096,4096]",
)
@click.option("--design", default="simple", show_default=True, help="matmul, attention: design of the kernels.")
@click.option(
    "-o",
    "--output",
    default="docs/measurements",
    show_default=True,
    help="Folder for the record (JSON and a page); - keeps none.",
)
@json_option
@click.pass_context
def probe(context: click.Context, /, kind: str, shape: str | None, design: str, output: str, as_json: bool) -> None:
    """Measure on the CUDA card that is here: one tile bit for bit, or a scan over tiles beside the predictions.

    Exit status 1 when a result is wrong.
    """
    import datetime
    import json
    from pathlib import Path

    from layoutgen.emission import write_atomically
    from layoutgen.errors import LayoutgenError
    from layoutgen.probing import TorchDevice, probe_attention, probe_matmul, probe_tile
    from layoutgen.probing.device import ATOM
    from layoutgen.probing.record import HEAD, as_dict, cells, page, stem
    from layoutgen.sass.report import table

    sizes = {"matmul": (1, 4096, 4096, 4096), "attention": (1, 4, 4, 8192, 8192, 96)}.get(kind, ())
    if shape is not None:
        given = integers(shape, "shape")
        if len(given) != len(sizes) or (kind == "matmul" and given[0] != 1):
            wanted = {"tile": "no shape", "matmul": "1,M,N,K", "attention": "B,H,Hkv,Tq,Tk,D"}[kind]
            raise LayoutgenError(f"probe {kind}: shape {shape}; it takes {wanted}")
        sizes = given
    if output != "-" and not Path(output).is_dir():
        raise LayoutgenError(f"probe: {output} is not a folder; name one that exists with -o, or - to keep no record")
    device = TorchDevice()
    if kind == "tile":
        found = probe_tile(device, _progress)
    elif kind == "matmul":
        found = probe_matmul(device, (sizes[1], sizes[2], sizes[3]), design=design, report=_progress)
    else:
        found = probe_attention(device, (*sizes[:5], sizes[5]), design=design, report=_progress)  # type: ignore[arg-type]
    today = datetime.date.today()
    if as_json:
        print_json(as_dict(found, today))
    else:
        card = found.card
        emulated = f" ({ATOM.alias} is emulated: right numbers, meaningless speed)" if card.emulated else ""
        click.echo(f"{card.name}, {card.arch}{emulated}, {card.clock_mhz or '?'} MHz, Triton {card.triton}")
        if found.predicted_for:
            click.echo(f"predictions are for {found.predicted_for}")
        for line in table([HEAD, *(cells(row) for row in found.rows)]):
            click.echo(line.rstrip())
    if output != "-":
        target = Path(output) / stem(found)
        command = f"layoutgen probe {kind}" + (f" --shape {shape}" if shape else "")
        if kind != "tile" and design != "simple":
            target = target.with_name(f"{target.name}_{design}")
            command += f" --design {design}"
        write_atomically(target.with_suffix(".json"), json.dumps(as_dict(found, today), indent=2) + "\n")
        write_atomically(target.with_suffix(".md"), page(found, today, command))
        click.echo(f"{target}.json and .md", err=as_json)
    context.exit(0 if found.passed else 1)


def _progress(row: Row) -> None:
    speed = "" if row.tflops is None else f" {row.tflops:.2f} TFLOP/s"
    click.echo(f"{row.case}:{speed} {'passed' if row.passed else 'FAILED'} {row.note}".rstrip(), err=True)
