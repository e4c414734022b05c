"""layoutgen emit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import integers, json_option, print_json, profile_option

if TYPE_CHECKING:
    from layoutgen.api import Kernel

COMMON = {"block_m", "block_n", "warps", "atom", "arrangement", "profile"}
FEATURES = ("operand_dtype", "accumulate", "split_k", "group_m", "scale", "bias", "epilogue", "rounded", "residual")
"""What the fast matmul can do beside the product."""
ATTENTION_FEATURES = {
    "row_blocks",
    "column_warps",
    "v_head_dim",
    "v_split",
    "mask",
    "causal",
    "alignment",
    "window",
    "softcap",
    "sinks",
}
BY_FAMILY = {
    "attention": COMMON | {"design", "head_dim", "split", "bias", "out_dtype", "max_queries", *ATTENTION_FEATURES},
    "matmul": COMMON | {"design", "block_k", "a_order", "b_order", "out_dtype", "shape", *FEATURES},
    "all": set(),
}
"""Family -> the options that describe its requests. `all` is the default set, as kept in generated/."""


@click.command()
@click.argument("family", required=False, type=click.Choice(list(BY_FAMILY)))
@click.option("-o", "--output", default=None, help="File or folder to write to.  [default: standard output]")
@click.option("--list", "as_list", is_flag=True, help="List the default set.")
@click.option("--check", is_flag=True, help="Fail when the default set in the folder (-o, else generated) has drifted.")
@click.option("--diff", is_flag=True, help="As --check, and show the difference.")
@click.option("--head-dim", type=int, help="attention: head dim, 16 to 256; fast: to what the card holds.")
@click.option("--split", help="attention: parts of the head dim, for example 64,32.")
@click.option("--bias/--no-bias", default=None, help="Add a bias: to the scores; matmul, fast: to the product.")
@click.option("--block-m", type=int, help="Rows of a block.")
@click.option("--block-n", type=int, help="Columns of a block; attention: keys.")
@click.option("--block-k", type=int, help="matmul: depth of a K tile.")
@click.option("--warps", help="Warps along rows x along columns, for example 2x2.")
@click.option("--design", help="simple (the readable yardstick) or fast.  [default: simple]")
@click.option("--a-order", help="matmul, fast: mk for A as [M, K], km for the m-contiguous [K, M].")
@click.option("--b-order", help="matmul: kn for B as [K, N], nk for the k-contiguous [N, K].")
@click.option("--accumulate", help="matmul, fast: unit, or tile to add sums of 16 k in fp32.  [default: unit]")
@click.option("--operand-dtype", help="matmul, fast: float16, or float32 as two parts.  [default: the instruction's]")
@click.option("--shape", help="matmul, fast: Z,M,N,K, for which the profile's tile and a split K are chosen.")
@click.option("--split-k", type=int, help="matmul, fast: blocks that share the sum of an element.  [default: 1]")
@click.option("--group-m", type=int, help="matmul, fast: blocks in a column of the launch order.  [default: 1]")
@click.option("--scale", is_flag=True, default=None, help="matmul, fast: factors alpha and beta at launch.")
@click.option("--epilogue", help="matmul, fast: relu, silu, gelu, gelu_tanh, or an expression in x.")
@click.option(
    "--rounded", is_flag=True, default=None, help="matmul, fast: round what the epilogue is given to C's dtype."
)
@click.option("--residual", is_flag=True, default=None, help="matmul, fast: add an array of C's shape at the end.")
@click.option("--out-dtype", help="Dtype of the result, float16 or float32; attention: the fast design.")
@click.option("--row-blocks", type=int, help="attention, fast: units along the rows of a warp, 1 or 2.")
@click.option("--column-warps", type=int, help="attention, fast: warps that share rows and divide the head dim.")
@click.option("--max-queries", type=int, help="attention, fast: the profile's tile for so few queries.")
@click.option("--v-head-dim", type=int, help="attention, fast: head dim of V and the output.  [default: --head-dim]")
@click.option("--v-split", help="attention, fast: parts of V's head dim.")
@click.option("--mask", is_flag=True, default=None, help="attention, fast: an array says which keys a query sees.")
@click.option("--causal", is_flag=True, default=None, help="attention, fast: a query sees no key after its own.")
@click.option("--alignment", help="attention, fast: which key is a query's own, top-left or bottom-right.")
@click.option("--window", help="attention, fast: keys seen left and right of a query's own, -1 for all: 128,0.")
@click.option("--softcap", type=float, help="attention, fast: bound the scores by softcap * tanh(score / softcap).")
@click.option("--sinks", is_flag=True, default=None, help="attention, fast: a logit per head joins the denominator.")
@click.option("--atom", help="Name of the instruction.  [default: the profile's]")
@click.option("--arrangement", help="Places of the free lane bits, for example m3,n3.")
@profile_option
@json_option
@click.pass_context
def emit(
    context: click.Context,
    /,
    family: str | None,
    output: str | None,
    as_list: bool,
    check: bool,
    diff: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write kernels: `attention`, `matmul`, or `all` of the default set."""
    from layoutgen.errors import LayoutgenError

    modes = [name for name, chosen in (("--list", as_list), ("--check", check), ("--diff", diff)) if chosen]
    if len(modes) + (family is not None) != 1:
        raise LayoutgenError(
            "emit: name exactly one of attention, matmul, all, --list, --check and --diff; the last three are "
            "about the whole default set"
        )
    given = {name: value for name, value in options.items() if value is not None}
    allowed = BY_FAMILY[family] if family else set()
    for name in given:
        if name not in allowed:
            takers = [key for key, names in BY_FAMILY.items() if name in names]
            take = "takes" if len(takers) == 1 else "take"
            raise LayoutgenError(
                f"emit {family or modes[0]}: takes no --{name.replace('_', '-')}, which {' and '.join(takers)} {take}"
            )
    if check or diff:
        context.exit(_check(Path(output or "generated"), diff, as_json))
    if as_list:
        _list(as_json)
        return
    kernels = _kernels(str(family), given)
    _write(kernels, output, as_json)


def _kernels(family: str, given: dict[str, Any]) -> tuple[Kernel, ...]:
    from layoutgen import api
    from layoutgen.errors import LayoutgenError

    if family == "all":
        return api.default_set()
    if family == "matmul":
        if "shape" in given:
            given["shape"] = integers(given["shape"], "shape")
        kernel = api.matmul(**given)
        if "shape" in given:
            _say_choice(given)
        return (kernel,)
    if "head_dim" not in given:
        raise LayoutgenError("emit attention: --head-dim is needed, for example --head-dim 96")
    for name in ("split", "v_split"):
        if name in given:
            given[name] = integers(given[name], name)
    if "window" in given:
        given["window"] = window(given["window"])
    return (api.attention(**given),)


def _say_choice(given: dict[str, Any]) -> None:
    """Say on standard error what was chosen for a shape."""
    from layoutgen import api

    names = ("accumulate", "operand_dtype", "split_k", "profile")
    choice = api.matmul_choice(shape=given["shape"], **{name: given[name] for name in names if name in given})
    tile = choice.tile
    split = f", {choice.split_k} share the sum of an element" if choice.split_k > 1 else ""
    click.echo(
        f"{','.join(map(str, given['shape']))}: {tile.block_m}x{tile.block_n}x{tile.block_k}, "
        f"{'x'.join(map(str, tile.warps))} warps, {choice.blocks} blocks{split}; "
        f"predicted {choice.seconds * 1e6:.0f} us, nothing here was measured",
        err=True,
    )


def window(text: str) -> tuple[int, ...]:
    """Read the keys seen left and right of a query's own; -1 is for all.

    >>> window("128,-1")
    (128, -1)
    """
    from layoutgen.errors import LayoutgenError

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part == "-1" or part.isdecimal() for part in parts):
        raise LayoutgenError(f"window {text!r}: must be two numbers, left and right, or -1 for all; for example 128,0")
    return tuple(int(part) for part in parts)


def _write(kernels: tuple[Kernel, ...], output: str | None, as_json: bool) -> None:
    from layoutgen.errors import LayoutgenError

    if output is None:
        if len(kernels) > 1:
            raise LayoutgenError("emit all: name a folder, for example -o generated")
        if as_json:
            print_json(_described(kernels[0]))
        else:
            click.echo(kernels[0].source, nl=False)
        return
    if len(kernels) > 1 and not os.path.isdir(output):
        raise LayoutgenError(f"emit all: {output} is not a folder; name one that exists")
    written = []
    for kernel in kernels:
        path = kernel.write(output)
        written.append({"path": str(path), **_described(kernel)})
        if not as_json:
            click.echo(f"{path}: {len(kernel.proofs)} obligations proved, {len(kernel.source.splitlines())} lines")
    if as_json:
        print_json(written)


def _described(kernel: Kernel) -> dict[str, Any]:
    from layoutgen.emission import describe

    return {**describe(kernel.request), "obligations": len(kernel.proofs)}


def _list(as_json: bool) -> None:
    from layoutgen import api
    from layoutgen.emission import describe

    entries = [describe(kernel.request) for kernel in api.default_set()]
    if as_json:
        print_json(entries)
        return
    width = max(len(entry["file"]) for entry in entries)
    for entry in entries:
        click.echo(f"{entry['file']:<{width}} {entry['command']}")


def _check(folder: Path, diff: bool, as_json: bool) -> int:
    from layoutgen import api
    from layoutgen.emission import drift
    from layoutgen.errors import LayoutgenError

    if not folder.is_dir():
        raise LayoutgenError(f"emit --check: {folder} is not a folder; name the one that holds the default set with -o")
    kernels = api.default_set()
    drifted = drift(folder, [kernel.request for kernel in kernels])
    if as_json:
        print_json({"drifted": sorted(drifted), "checked": len(kernels)})
    else:
        for name, text in drifted.items():
            click.echo(text if diff else f"drifted: {name}", nl=not diff)
        click.echo(f"{len(kernels)} kernels checked in {folder}, {len(drifted)} drifted")
        if drifted:
            click.echo(f"layoutgen emit all -o {folder} writes the default set again")
    return 1 if drifted else 0
