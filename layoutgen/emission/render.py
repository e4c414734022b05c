"""Rendering: a proved plan and a template make the source of a kernel."""

from __future__ import annotations

import hashlib
import pprint
import re
import shlex
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import layoutgen
from layoutgen.emission.context import context, signature
from layoutgen.emission.matmul_around import formula
from layoutgen.emission.views import tiling_view
from layoutgen.emission.wrapping import wrapped
from layoutgen.errors import LayoutgenError
from layoutgen.kernels import AttentionRequest, FastMatmulRequest, Request
from layoutgen.kernels.expression import EPILOGUES
from layoutgen.kernels.matmul_fast import SUMMED_K
from layoutgen.tiling import Tiling

LINE = 110
WORD = r"(?:'[^']*'|\S)+"


@dataclass(frozen=True)
class About:
    """The header of an emitted file: what it is, where it comes from, and its module data."""

    title: str
    description: str
    version: str
    template: str
    template_hash: str
    command: str
    request: str
    options: str
    kernel: str
    signature: str


def template_directory() -> Path:
    """Return the folder of the templates: beside the package in a checkout, inside it in a wheel."""
    package = Path(layoutgen.__file__).parent
    for candidate in (package / "_templates", package.parent / "templates"):
        if (candidate / "macros.jinja").is_file():
            return candidate
    raise LayoutgenError(f"templates: neither in {package} nor beside it; the installation is incomplete")


@cache
def environment() -> Any:
    """Return the Jinja environment of the templates, in which an undefined name is an error."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def template_files(name: str) -> list[str]:
    """Return a template and all that it imports or includes in turn."""
    files = [name]
    for file in files:  # which grows
        found = re.findall(r'{%-? *(?:import|include|from) "([^"]+)"', (template_directory() / file).read_text())
        files += [word for word in dict.fromkeys(found) if word not in files]
    return files


@cache
def template_hash(name: str) -> str:
    """Return 12 hexadecimal digits that change with the template, and with all that it imports or includes in turn."""
    digest = hashlib.sha256()
    for file in template_files(name):
        digest.update((template_directory() / file).read_bytes())
    return digest.hexdigest()[:12]


def render(request: Request) -> str:
    """Return the source of the kernel that a request asks for.

    The plan is made first, which discharges every obligation; raises RefutedError with the witness when one fails.
    """
    _ = request.plan
    name = request.template
    text: str = environment().get_template(name).render(about=_about(request, name), **context(request))
    return _tidy(text)


def layout_literals(tiling: Tiling) -> str:
    """Return the layouts of a tiling as Gluon literals, as they would stand in an emitted file."""
    macros = environment().get_template("macros.jinja").module
    return "\n".join(str(macros.layout(view)) for view in tiling_view(tiling, "T", "The accumulator").layouts)


def _about(request: Request, template: str) -> About:
    title, description = _describe(request)
    return About(
        title=title,
        description=description,
        version=layoutgen.__version__,
        template=template,
        template_hash=template_hash(template),
        command=_continued(command(request)),
        request=_literal(request.as_dict()),
        options=_literal({"num_warps": request.num_warps, "enable_fp_fusion": True, **request.compiler_options}),
        kernel=f"{request.family}_kernel",
        signature=_literal(signature(request)),
    )


def _describe(request: Request) -> tuple[str, str]:
    shape = "x".join(map(str, request.tilings[next(iter(request.tilings))].atom.shape))
    if isinstance(request, AttentionRequest):
        added = [
            "an additive bias" if name == "bias" else _option(name, value).removeprefix("--")
            for name, value in request.features.items()
        ]
        rest = f"{', '.join(added) or 'no bias'}, grouped query heads, any strides and lengths."
        split = " + ".join(map(str, request.parts))
        return (
            f"Flash attention, forward: head dim {request.head_dim} as {split}, tiles of "
            f"{request.block_m} queries x {request.block_n} keys.",
            f"Tensor-core products of {shape} ({request.atom}), {request.num_warps} warps of whole rows; "
            "softmax in fp32,\n" + textwrap.fill(rest, LINE),
        )
    left = "[M, K]" if request.a_order == "mk" else "[K, M]"
    order = "[K, N]" if request.b_order == "kn" else "[N, K]"
    title = f"Matrix product: A {left} by B {order}, tiles of {request.block_m}x{request.block_n}x{request.block_k}."
    operands, more = request.given_dtype, ""
    if isinstance(request, FastMatmulRequest):
        more = _beside_the_product(request)
        if request.operand_dtype:
            operands += f" as two {request.dtype} parts"
    return (
        title,
        f"Tensor-core products of {shape} ({request.atom}), {request.warps[0]}x{request.warps[1]} warps; operands "
        f"{operands},\naccumulated in float32, C in {request.c_dtype}; any strides, any sizes.{more}",
    )


def _beside_the_product(request: FastMatmulRequest) -> str:
    """Return, in lines of their own, what a fast matmul does beside a plain product of what it is given."""
    lines = []
    if request.accumulate == "tile":
        lines.append(f"Every {SUMMED_K} k are summed from zero, and the sums added in float32, rounded to nearest.")
    if request.split_k > 1:
        lines.append(
            f"{request.split_k} blocks share each sum over K; a second kernel adds their partial sums in order."
        )
    if (text := formula(request)) != "A B":
        lines.append(f"C = {text}.")
    if request.epilogue not in EPILOGUES:
        lines.append(f"epilogue(x) = {request.expression.gluon.replace('gl.', '')}.")
    return "".join(f"\n{line}" for line in lines)


def command(request: Request) -> str:
    """Return the command that emits this kernel again.

    >>> from layoutgen.kernels import MatmulRequest
    >>> command(MatmulRequest("m8n8k4", 64, 64, 32, (2, 2)))
    'layoutgen emit matmul --block-m 64 --block-n 64 --block-k 32 --warps 2x2 --b-order kn --atom m8n8k4'
    """
    atom = next(iter(request.tilings.values())).atom
    words = ["layoutgen emit", request.family]
    if request.design != "simple":
        words.append(f"--design {request.design}")
    words += [_option(name, value) for name, value in request.options.items()]
    words.append(f"--atom {atom.alias}")
    if request.arrangement != request.usual_arrangement:
        words.append(f"--arrangement {request.arrangement}")
    return " ".join(words)


def _continued(words: str) -> str:
    """Break a command that is too long for a line, as a shell takes it.

    Words in quotes stay whole, and an option stays with its value.
    """
    if len(words) <= LINE:
        return words
    lines = [""]
    for word in re.findall(rf"--\S+ (?!--){WORD}|{WORD}", words):
        if len(lines[-1]) + len(word) > LINE - 10:
            lines.append("")
        lines[-1] += f"{word} "
    return " \\\n        ".join(line.strip() for line in lines)


def _option(name: str, value: Any) -> str:
    """Return a feature as an option of the command line."""
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return option
    text = shlex.quote(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return f"{option}={text}" if text.startswith("-") else f"{option} {text}"


def _literal(value: dict[str, Any]) -> str:
    """Return a dict literal as ruff would format it: one line if it fits, else one entry a line."""
    inline = "{" + ", ".join(f"{_scalar(k)}: {_scalar(v)}" for k, v in value.items()) + "}"
    if len(inline) <= LINE - len("SIGNATURE = "):
        return inline
    return "{\n" + "".join(f"    {_scalar(k)}: {_scalar(v)},\n" for k, v in value.items()) + "}"


def _scalar(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else pprint.pformat(value, width=1000)


def _tidy(text: str) -> str:
    """Strip trailing blanks, wrap, and keep at most two empty lines in a row and one newline at the end."""
    lines: list[str] = []
    for line in (raw.rstrip() for raw in text.splitlines()):
        if not line and lines[-2:] == ["", ""]:
            continue
        lines.append(wrapped(line))
    return "\n".join(lines).strip("\n") + "\n"
