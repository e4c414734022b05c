"""layoutgen where and what: element -> lane and register, and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import Command, check_one_form, integers, json_option, print_json, tiling_options

if TYPE_CHECKING:
    from layoutgen.algebra import LinearLayout
    from layoutgen.tiling.named import Holding

COORDINATES = {"a": "mk", "b": "nk", "accumulator": "mn"}
"""Operand -> the names of its coordinates, of which the options --block-m, --block-n and --block-k give the sizes."""


def query_options(function: Command) -> Command:
    """The options of both queries: which layout, and how the answer is printed."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--operand", type=click.Choice(list(COORDINATES)), required=True, help="Which operand's layout."),
        tiling_options,
        click.option("--block-k", type=int, default=None, help="Depth of operand a or b.  [default: one k-step]"),
        json_option,
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
        click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@query_options
@click.option("--element", required=True, help="Coordinates: row,column of the accumulator, m,k of a, n,k of b.")
def where(operand: str, element: str, as_json: bool, as_csv: bool, as_markdown: bool, **options: Any) -> None:
    """Which lanes and registers hold an element. Without a block: of one unit."""
    from layoutgen.tiling.named import where as find

    layout = _layout(operand, **options)
    coordinates = integers(element, "element")
    _check_element(layout, operand, coordinates)
    found = find(layout, coordinates)
    _print(found, operand, as_json, as_csv, as_markdown)


@click.command()
@query_options
@click.option("--register", type=int, default=None, help="Element index within the thread.  [default: all]")
@click.option("--lane", type=int, default=None, help="Lane.  [default: all]")
@click.option("--warp", type=int, default=None, help="Warp.  [default: all]")
def what(
    operand: str,
    register: int | None,
    lane: int | None,
    warp: int | None,
    as_json: bool,
    as_csv: bool,
    as_markdown: bool,
    **options: Any,
) -> None:
    """Which element a lane and register hold. Without a block: of one unit."""
    from layoutgen.tiling.named import what as find

    layout = _layout(operand, **options)
    place = {"register": register, "lane": lane, "warp": warp}
    found = find(layout, {name: value for name, value in place.items() if value is not None})
    _print(found, operand, as_json, as_csv, as_markdown)


def _layout(operand: str, block_k: int | None, **options: Any) -> LinearLayout:
    from layoutgen.atoms import atom
    from layoutgen.cli.options import derive_tiling
    from layoutgen.kernels.request import parse_warps
    from layoutgen.profiles import DEFAULT, unit_of
    from layoutgen.tiling import arrange

    if options["block_m"] is None or options["block_n"] is None:
        found = atom(options["atom"]) if options["atom"] else unit_of(options["profile"] or DEFAULT).atom
        unit = arrange(found, options["arrangement"], partial_sums=True)
        rows, columns = parse_warps(options["warps"] or "1x1")
        options["block_m"] = options["block_m"] or unit.shape[0] * rows
        options["block_n"] = options["block_n"] or unit.shape[1] * columns
    tiling = derive_tiling(**options)
    if operand == "accumulator":
        layout: LinearLayout = tiling.accumulator
        return layout
    whole: LinearLayout = tiling.operand(operand, block_k or tiling.unit.shape[2])
    return whole


def _check_element(layout: LinearLayout, operand: str, element: tuple[int, ...]) -> None:
    """Refuse what is no element of a layout, and name the option that makes it one."""
    from layoutgen.errors import LayoutgenError

    names = COORDINATES[operand]
    text = ",".join(map(str, element))
    if len(element) != len(names):
        raise LayoutgenError(f"element {text}: must be {','.join(names)} of {operand}, for example 3,1")
    for name, coordinate, size in zip(names, element, layout.shape, strict=True):
        if coordinate >= size:
            raise LayoutgenError(
                f"element {text}: {name} must lie in 0..{size - 1}, or --block-{name} be larger than {size}"
            )


def _print(found: list[Holding], operand: str, as_json: bool, as_csv: bool, as_markdown: bool) -> None:
    check_one_form("query", json=as_json, csv=as_csv, markdown=as_markdown)
    if as_json:
        print_json([{"element": list(holding.element), **holding.place} for holding in found])
        return
    rows = [holding.row(COORDINATES[operand]) for holding in found]
    if as_csv or as_markdown:
        names = list(rows[0]) if rows else []
        lines = [names, *([str(value) for value in row.values()] for row in rows)]
        click.echo(_csv(lines) if as_csv else _markdown(lines), nl=False)
        return
    for holding in found:
        place = ", ".join(f"{name} {value}" for name, value in reversed(list(holding.place.items())))
        click.echo(f"{operand}{list(holding.element)} in {place}")


def _csv(lines: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _markdown(lines: list[list[str]]) -> str:
    head, *rows = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)) + "\n"
