"""layoutgen explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import check_one_form, derive_tiling, integers, json_option, print_json, tiling_options

if TYPE_CHECKING:
    from layoutgen.algebra import LinearLayout


@click.command()
@click.argument("source")
@click.argument("target")
@tiling_options
@click.option("--block-k", type=int, default=None, help="Depth of operand_a or operand_b.  [default: block-n]")
@click.option("--shape", default=None, help="The tensor's shape, where a text has none, for example 64,32.")
@click.option("--element-bytes", type=int, default=2, show_default=True, help="Bytes of an element.")
@click.option("--method", default="rank", show_default=True, help="How it is proved: rank, symbolic or exhaustive.")
@json_option
@click.option("--latex", is_flag=True, help="Print the proof or refutation as LaTeX.")
def explain(
    source: str,
    target: str,
    block_k: int | None,
    shape: str | None,
    element_bytes: int,
    method: str,
    as_json: bool,
    latex: bool,
    **options: Any,
) -> None:
    """What it takes to convert the layout SOURCE to TARGET: class, cost and witness.

    Each is a file, a JSON object, a Gluon expression, #ttg.linear<...>, CuTe's shape:stride, or the name of a derived
    layout of the options: accumulator, grouped, fragment_a, fragment_b, operand_a, operand_b.

    A conversion that moves data is an answer, no failure: the exit status is 0 for it too, and --json says "trivial".
    """
    from layoutgen.algebra import classify
    from layoutgen.proofs import methods

    check_one_form("explain", json=as_json, latex=latex)
    sizes = None if shape is None else integers(shape, "shape")
    have, want = (_read(text, sizes, block_k, options) for text in (source, target))
    if have.shape != want.shape and have.codomain.bits == want.codomain.bits and sizes is None:
        want = want.reshape(have.shape)
    conversion = classify(have, want)
    verdict = methods.trivial("source to target", have, want, method)
    if as_json:
        print_json({**conversion.as_dict(element_bytes), "verdict": verdict.as_dict()})
    elif latex:
        click.echo(methods.latex(verdict))
    else:
        click.echo(conversion.explain(element_bytes))
        click.echo(str(verdict))


def _read(text: str, shape: tuple[int, ...] | None, block_k: int | None, options: dict[str, Any]) -> LinearLayout:
    from layoutgen.algebra.interchange import read_layout
    from layoutgen.errors import LayoutgenError
    from layoutgen.tiling.named import named_layout

    if text.isidentifier():  # which no notation is; a name that is not known is refused beside those that are
        return named_layout(derive_tiling(**options), text, block_k)
    if text.endswith((".json", ".txt", ".mlir", ".ttgir")):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise LayoutgenError(f"explain: {text}: {reason.lower()}") from error
    return read_layout(text, shape)
