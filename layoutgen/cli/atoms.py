"""layoutgen atoms."""

from __future__ import annotations

import click

from layoutgen.cli.options import json_option, print_json


@click.command()
@json_option
def atoms(as_json: bool) -> None:
    """The catalogue of instructions."""
    from layoutgen.atoms import CATALOGUE

    if as_json:
        print_json(
            [
                {
                    "name": atom.name,
                    "alias": atom.alias,
                    "instruction": atom.instruction,
                    "shape": list(atom.shape),
                    "operand_dtype": atom.operand_dtype,
                    "accumulator_dtype": atom.accumulator.dtype,
                    "free_lane_bits": list(atom.free_lane_bits),
                    "arrangement": atom.arrangement,
                    "native": list(atom.native),
                    "fragments": {
                        operand: {
                            "registers": list(atom.fragment(operand).register_names),
                            "rows": dict(atom.fragment(operand).rows),
                        }
                        for operand in ("a", "b", "accumulator")
                    },
                    "lane": list(atom.lane_names),
                    "source": atom.source,
                }
                for atom in CATALOGUE
            ]
        )
        return
    for atom in CATALOGUE:
        click.echo(f"{atom.alias}  {atom.name}  native on {', '.join(atom.native)}")
        click.echo(f"  {atom.instruction}")
        click.echo(
            f"  lane bits {atom.lane}; free: {' '.join(atom.free_lane_bits) or 'none'}; arrangement {atom.arrangement}"
        )
        for operand in ("a", "b", "accumulator"):
            fragment = atom.fragment(operand)
            rows = ", ".join(f"{coordinate} = ({bits})" for coordinate, bits in fragment.rows)
            click.echo(f"  {operand:<12}{fragment.elements} x {fragment.dtype} ({fragment.registers}): {rows}")
        click.echo(f"  source: {atom.source}")
