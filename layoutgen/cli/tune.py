"""layoutgen tune."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import integers, json_option, print_json, profile_option

if TYPE_CHECKING:
    from layoutgen.tuning.search import Outcome

FIXED = {
    "attention": ("design", "head_dim", "split", "bias", "block_m", "block_n", "arrangement"),
    "matmul": (
        *("design", "block_m", "block_n", "block_k", "warps", "a_order", "b_order", "out_dtype", "accumulate"),
        "arrangement",
    ),
}
"""Family -> the options that fix a part of the search."""


@click.command()
@click.argument("family", type=click.Choice(list(FIXED)))
@click.option("--design", help="Design of the kernel, for example simple.  [default: searched]")
@click.option("--head-dim", type=int, help="attention: head dim, 16 to 256; fast: to what the card holds.")
@click.option("--split", help="attention: parts of the head dim.  [default: searched]")
@click.option("--bias/--no-bias", default=None, help="attention: add a bias to the scores.")
@click.option("--block-m", type=int, help="Rows of a block.  [default: searched]")
@click.option("--block-n", type=int, help="Columns of a block.  [default: searched]")
@click.option("--block-k", type=int, help="matmul: depth of a K tile.  [default: searched]")
@click.option("--warps", help="matmul: warps, for example 2x2.  [default: searched]")
@click.option("--a-order", help="matmul, fast: mk or km.")
@click.option("--b-order", help="matmul: kn or nk.")
@click.option("--accumulate", help="matmul, fast: unit or tile.")
@click.option("--out-dtype", help="matmul: dtype of C.")
@click.option("--arrangement", help="Places of the free lane bits.  [default: searched]")
@profile_option
@click.option("--clock", type=click.IntRange(min=1), default=None, help="Clock in MHz.  [default: the profile's]")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Candidates to try at most.")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Winners to keep.")
@click.option("--jobs", type=click.IntRange(min=1), default=None, help="Processes.  [default: one per core]")
@click.option("--scheduler", default=None, help="Address of a Dask scheduler that does the work instead.")
@click.option("--cache", default=None, help="Folder of results.  [default: LAYOUTGEN_CACHE, else the user's cache]")
@click.option("-o", "--output", default=None, help="Write a profile with the winners to this .yml file.")
@json_option
@click.pass_context
def tune(
    context: click.Context,
    /,
    family: str,
    profile: str | None,
    clock: int | None,
    limit: int,
    top: int,
    jobs: int | None,
    scheduler: str | None,
    cache: str | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the fastest kernel of a family, by prediction (docs/model.md); nothing is measured.

    Interrupted, it goes on where it was: results are kept on disk.
    """
    from pathlib import Path

    from layoutgen.emission import check_writable, write_atomically
    from layoutgen.emission import command as emit_command
    from layoutgen.errors import LayoutgenError
    from layoutgen.kernels.request import parse_warps
    from layoutgen.profiles import DEFAULT, load_profile
    from layoutgen.tuning.cache import Cache, default_folder
    from layoutgen.tuning.fragment import tuned_profile
    from layoutgen.tuning.search import tune as search

    fixed = {name: value for name, value in options.items() if value is not None}
    for name in fixed:
        if name not in FIXED[family]:
            raise LayoutgenError(f"tune {family}: takes no --{name.replace('_', '-')}")
    if "split" in fixed:
        fixed["split"] = integers(fixed["split"], "split")
    if "warps" in fixed:
        fixed["warps"] = parse_warps(fixed["warps"])
    if output is not None:
        if not output.endswith((".yml", ".yaml")):
            raise LayoutgenError(f"tune -o {output}: a profile's name ends in .yml")
        check_writable(Path(output))
    profile = profile or DEFAULT
    card = load_profile(profile)
    mhz = card.clock(clock)
    store = Cache(Path(cache) if cache else default_folder(), profile, card.arch, mhz)
    found, refused = store.candidates(family, fixed)
    tried = found[:limit]
    click.echo(
        f"{len(found) + len(refused)} combinations, {len(refused)} cannot run on {card.name}, "
        f"{len(found) - len(tried)} beyond --limit {limit}; {len(tried)} to try",
        err=True,
    )
    try:
        tuned = search(tried, store, keep=top, workers=jobs, scheduler=scheduler, report=_progress)
    except KeyboardInterrupt:
        click.echo("interrupted; what was found is kept, the same command goes on from there", err=True)
        context.exit(130)
    best = tuned.best[:top]
    command = f"{context.command_path} {family}{_words(fixed)} --limit {limit} --profile {profile}"
    if not best:
        reason = next((o.result["reason"] for o in tuned.outcomes if o.status == "failed"), "none was tried")
        raise LayoutgenError(f"tune {family}: no candidate could be compiled: {reason}")
    if output is not None:
        text, tile = tuned_profile(profile, tuned.best, command, top)
        write_atomically(Path(output), text)
    if as_json:
        counts = {status: tuned.count(status) for status in ("predicted", "failed", "pruned")}
        counts |= {"refused": len(refused), "beyond_limit": len(found) - len(tried)}
        print_json({"clock_mhz": mhz, "counts": counts, "best": [outcome.result for outcome in best]})
        return
    _print(best, mhz)
    click.echo(f"the first: {emit_command(best[0].candidate.request)}")
    for outcome in tuned.outcomes:
        if outcome.status == "failed":
            click.echo(f"failed: {outcome.candidate.label}: {outcome.result['reason']}", err=True)
    click.echo(f"{tuned.count('predicted')} predicted, {tuned.count('pruned')} pruned, {tuned.count('failed')} failed")
    if output is not None:
        if tile is None:
            what = "its tiles are as they were, since none of these can be written as one"
        else:
            what = f"its tile is that of {tile.candidate.label}"
        click.echo(f"{output}: {what}")


def _progress(outcome: Outcome, done: int, total: int) -> None:
    result = outcome.result
    what = {
        "predicted": f"{outcome.tflops:.1f} TFLOP/s",
        "failed": "failed",
        "pruned": f"pruned, at most {result.get('bound_tflops', 0):.1f}",
    }[outcome.status]
    known = ", known" if outcome.cached else ""
    click.echo(f"[{done:>{len(str(total))}}/{total}] {outcome.candidate.label}: {what}{known}", err=True)


def _print(best: tuple[Outcome, ...], mhz: int) -> None:
    from layoutgen.sass.report import DISCLAIMER, table

    click.echo(f"TFLOP/s at {mhz} MHz, {DISCLAIMER}")
    rows = [("kernel", "predicted", "range", "registers", "spilled", "blocks x warps", "limited by")]
    for outcome in best:
        one = outcome.result
        rows.append(
            (
                outcome.candidate.label,
                f"{one['tflops']:.1f}",
                f"{one['low']:.1f} to {one['high']:.1f}",
                str(one["registers"]),
                str(one["spill_bytes"]),
                f"{one['blocks_per_sm']} x {one['warps_per_block']}",
                one["limited_by"],
            )
        )
    for line in table(rows):
        click.echo(line)


def _words(fixed: dict[str, Any]) -> str:
    """Write options as they would be typed."""
    words = ""
    for name, value in fixed.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words += f" --{flag}" if value else f" --no-{flag}"
        elif isinstance(value, tuple):
            words += f" --{flag} " + ("x" if name == "warps" else ",").join(map(str, value))
        else:
            words += f" --{flag} {value}"
    return words
