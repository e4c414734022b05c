"""layoutgen derive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import check_one_form, derive_tiling, json_option, print_json, tiling_options

if TYPE_CHECKING:
    from layoutgen.tiling import Tiling

SHOWN = ("accumulator", "grouped", "fragment_a", "fragment_b")
"""The layouts that are printed, under the names by which `explain` knows them."""


@click.command()
@tiling_options
@json_option
@click.option("--latex", is_flag=True, help="Print the layouts as equations over bits.")
@click.option("--gluon", is_flag=True, help="Print Gluon literals.")
@click.option("--ttg", is_flag=True, help="Print the layouts as Triton's IR has them: #ttg.linear<...>.")
@click.option("--cute", is_flag=True, help="Print the layouts as CuTe's shape:stride of threads and values.")
def derive(as_json: bool, latex: bool, gluon: bool, ttg: bool, cute: bool, **options: Any) -> None:
    """The layouts of a block: accumulator, fragments, relabelling.

    "accumulator" is the layout of the matrix, "grouped" the same cut into dims along which operands are broadcasts.
    """
    from layoutgen.algebra.interchange import as_dict
    from layoutgen.tiling.named import named_layout

    check_one_form("derive", json=as_json, latex=latex, gluon=gluon, ttg=ttg, cute=cute)
    tiling: Tiling = derive_tiling(**options)
    layouts = {name: named_layout(tiling, name) for name in SHOWN}
    if as_json:
        print_json({name: as_dict(layout) for name, layout in layouts.items()})
    elif latex:
        click.echo(_latex(tiling))
    elif gluon:
        click.echo(_gluon(tiling))
    elif ttg or cute:
        click.echo(_written(tiling, "ttg" if ttg else "cute"))
    else:
        shape = "x".join(map(str, tiling.unit.shape))
        click.echo(
            f"{tiling.atom}, units of {shape} ({tiling.unit.arrangement}), {tiling.instructions} instructions a k-step"
        )
        for name, layout in layouts.items():
            click.echo(f"{name} {layout}")
        for name, relabelling in (("fragment_a", tiling.relabel_a), ("fragment_b", tiling.relabel_b)):
            steps = ("reshape", relabelling.split), ("permute", relabelling.order), ("reshape", relabelling.shape)
            text = ", ".join(f"{verb} {list(sizes)}" for verb, sizes in steps)
            click.echo(f"{name} becomes a broadcast operand by: {text}")
            click.echo(f"{name} is broadcast over: {' '.join(tiling.broadcasts(name[-1])) or 'nothing'}")
            parts = tiling.unit.parts(name[-1])
            if len(parts) > 1:
                click.echo(f"{name} is the first of {len(parts)} parts, from k = {', '.join(map(str, parts))} on")
        if tiling.unit.partial_sums > 1:
            click.echo(f"the accumulator holds {tiling.unit.partial_sums} partial sums of each element, to be added up")


def _latex(tiling: Tiling) -> str:
    import sympy

    from layoutgen.algebra.symbolic import expressions
    from layoutgen.tiling.tile import hardware_order

    names = hardware_order(tiling.unit, tiling.block_m, tiling.block_n, tiling.warps)
    bits = tuple(
        f"{name[:-1]}_{name[-1]}" if name[-1].isdigit() else name
        for dim in ("register", "lane", "warp")
        for name in names[dim]
    )
    lines = []
    for title, layout, letters in (
        ("accumulator", tiling.accumulator, tiling.coordinates),
        ("fragment_a", tiling.fragment_a, "mk"),
        ("fragment_b", tiling.fragment_b, "nk"),
    ):
        lines.append(f"% {title}")
        for letter, values in zip(letters, expressions(layout, bits).values(), strict=True):
            lines += [f"{letter}_{{{i}}} &= {sympy.latex(value)} \\\\" for i, value in enumerate(values)]
    return "\\begin{align*}\n" + "\n".join(lines) + "\n\\end{align*}"


def _written(tiling: Tiling, notation: str) -> str:
    """Return the layouts in a notation, each with its shape, since the texts say none."""
    from layoutgen.algebra.interchange import write_layout
    from layoutgen.tiling.named import named_layout

    lines = []
    for name in SHOWN:
        layout = named_layout(tiling, name)
        lines.append(f"{name} {list(layout.shape)}: {write_layout(layout, notation)}")
    return "\n".join(lines)


def _gluon(tiling: Tiling) -> str:
    from layoutgen.emission.render import layout_literals

    return layout_literals(tiling)
