"""Layouts to and from the notations that others use: JSON, Gluon source and objects, `#ttg` attributes.

CuTe's notation has a module of its own, `cute`, because it can say less.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from layoutgen.algebra.blocked import Blocked
from layoutgen.algebra.cute import from_cute, is_cute, to_cute
from layoutgen.algebra.layout import LinearLayout
from layoutgen.algebra.space import HARDWARE
from layoutgen.errors import LayoutgenError

FIELDS = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases", "block": "block_bases"}
"""Hardware dim -> the argument of Gluon's DistributedLinearLayout."""
BLOCKED_ARGUMENTS = ("size_per_thread", "threads_per_warp", "warps_per_cta", "order")
BLOCKED_KEYS = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
FORMS = (
    "a JSON object of bases, gl.DistributedLinearLayout(...), gl.BlockedLayout(...), gl.SliceLayout(dim, ...), "
    "#ttg.linear<{...}>, #ttg.blocked<{...}>, or CuTe's ((threads),(values)):((strides),(strides))"
)


def read_layout(text: str, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the layout that a text describes in any of the notations; `shape` is the tensor's where the text has none.

    >>> read_layout("gl.BlockedLayout([1, 2], [8, 4], [1, 1], [1, 0])", (8, 8)).bases["register"]
    [[0, 1]]
    """
    if not isinstance(text, str):
        raise LayoutgenError(f"layout {text!r:.60}: is a {type(text).__name__}; it must be a text")
    text = text.strip()
    if text.startswith("{"):
        try:
            return _shaped(from_dict(json.loads(text)), shape)
        except json.JSONDecodeError as error:
            raise LayoutgenError(f"layout {_short(text)}: not JSON: {error}") from error
    if re.match(r"#?ttg\.", text):
        return from_ttg(text, shape)
    if "Layout(" in text:
        return from_gluon(text, shape)
    if is_cute(text):
        if shape is None:
            raise LayoutgenError(f"layout {_short(text)}: CuTe's notation needs the tensor's shape")
        return from_cute(text, shape)
    raise LayoutgenError(f"layout {_short(text)}: cannot be read; it must be {FORMS}")


def write_layout(layout: LinearLayout, notation: str) -> str:
    """Return the layout as text that `read_layout` reads; `notation` is json, gluon, ttg or cute.

    The last two do not say the tensor's shape. Raises LayoutgenError where the notation cannot say the layout: CuTe's
    has no swizzles and no layouts of several blocks.

    >>> write_layout(LinearLayout.from_bases({"register": [[0, 1]], "lane": [[1, 0], [2, 0]]}, (4, 2)), "cute")
    '((4),(2)):((1),(4))'
    """
    if not isinstance(layout, LinearLayout):
        raise LayoutgenError(f"layout {layout!r:.60}: is a {type(layout).__name__}; it must be a LinearLayout")
    writers: dict[str, Callable[[LinearLayout], str]] = {
        "json": lambda one: json.dumps(as_dict(one)),
        "gluon": to_gluon,
        "ttg": to_ttg,
        "cute": to_cute,
    }
    if notation not in writers:
        raise LayoutgenError(f"write_layout: {notation!r} is no notation; these are {', '.join(writers)}")
    return writers[notation](layout)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _shaped(layout: LinearLayout, shape: Sequence[int] | None) -> LinearLayout:
    if shape is not None and tuple(shape) != layout.shape:
        raise LayoutgenError(f"layout: its text says {list(layout.shape)}, the request {list(shape)}")
    return layout


# ---- JSON


def as_dict(layout: LinearLayout) -> dict[str, Any]:
    """Return bases by hardware dim and the shape, as `derive --json` prints them."""
    return {**layout.bases, "shape": list(layout.shape)}


def from_dict(data: Any) -> LinearLayout:
    """Return the layout that `as_dict` wrote. Hardware dims that are left out have no bits.

    >>> from_dict({"lane": [[1, 0]], "shape": [2, 1]}).shape
    (2, 1)
    """
    if not isinstance(data, Mapping):
        raise LayoutgenError(f"layout: is {type(data).__name__}, not an object with {', '.join(HARDWARE)} and shape")
    unknown = [key for key in data if key not in (*HARDWARE, "shape")]
    if unknown:
        raise LayoutgenError(f"layout: has {unknown[0]!r}; known are {', '.join(HARDWARE)} and shape")
    bases = {name: data[name] for name in HARDWARE if name in data}
    for name, rows in bases.items():
        if not isinstance(rows, list) or not all(_integers(row) for row in rows):
            raise LayoutgenError(f"layout: {name} must be a list of bases, each a list of integers")
    if "shape" not in data:
        return _smallest(bases)
    if not _integers(data["shape"]):
        raise LayoutgenError(f"layout: shape {data['shape']!r} must be a list of integers")
    return LinearLayout.from_bases(bases, data["shape"])


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def _smallest(bases: Mapping[str, list[list[int]]]) -> LinearLayout:
    """Return the layout over the smallest shape that holds its bases."""
    rows = [row for name in bases for row in bases[name]]
    if not rows:
        raise LayoutgenError("layout: has no basis and no shape; give one of them")
    rank = len(rows[0])
    shape = [1 << max(max(row[dim : dim + 1], default=0) for row in rows).bit_length() for dim in range(rank)]
    return LinearLayout.from_bases(bases, shape)


# ---- Gluon


def to_gluon(layout: LinearLayout) -> str:
    """Return the layout as Gluon source.

    >>> to_gluon(LinearLayout.from_bases({"lane": [[1], [2]]}, (4,)))
    'gl.DistributedLinearLayout(reg_bases=[], lane_bases=[[1], [2]], warp_bases=[], block_bases=[], shape=[4])'
    """
    fields = [f"{FIELDS[name]}={layout.bases[name]}" for name in HARDWARE]
    return f"gl.DistributedLinearLayout({', '.join(fields)}, shape={list(layout.shape)})"


def to_gluon_object(layout: LinearLayout, gl: Any) -> Any:
    """Return Gluon's own object; `gl` is the module `triton.experimental.gluon.language`, which is not loaded here."""
    return gl.DistributedLinearLayout(*(layout.bases[name] for name in HARDWARE), shape=list(layout.shape))


def from_gluon_object(value: Any, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the layout of a Gluon object: linear, blocked or slice. All but linear ones need the tensor's shape."""
    kind = type(value).__name__
    if kind == "DistributedLinearLayout":
        bases = {name: getattr(value, field) for name, field in FIELDS.items()}
        return _shaped(LinearLayout.from_bases(bases, value.shape), shape)
    if kind == "BlockedLayout":
        return _blocked([getattr(value, name) for name in BLOCKED_ARGUMENTS], shape)
    if kind == "SliceLayout":
        return _slice(value.dim, lambda inner: from_gluon_object(value.parent, inner), shape)
    raise LayoutgenError(
        f"layout {kind}: cannot be read; known are DistributedLinearLayout, BlockedLayout, SliceLayout"
    )


def from_gluon(text: str, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the layout of a Gluon expression, which is parsed and not executed."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise LayoutgenError(f"layout {_short(text)}: not an expression: {error.msg}") from error
    return from_call(call, shape)


def from_call(call: ast.expr, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the layout that the syntax tree of a Gluon expression describes."""
    kind = ""
    if isinstance(call, ast.Call):
        kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    text = ast.unparse(call)
    names = {
        "DistributedLinearLayout": (*FIELDS.values(), "shape"),
        "BlockedLayout": BLOCKED_ARGUMENTS,
        "SliceLayout": ("dim", "parent"),
    }.get(kind)
    if names is None or not isinstance(call, ast.Call):
        raise LayoutgenError(f"layout {_short(text)}: cannot be read; it must be {FORMS}")
    given = dict(zip(names, call.args, strict=False)) | {str(k.arg): k.value for k in call.keywords}
    missing = [name for name in names if name not in given]
    if missing or len(given) > len(names):
        raise LayoutgenError(f"layout {_short(text)}: needs exactly {', '.join(names)}")
    try:
        if kind == "SliceLayout":
            dim = ast.literal_eval(given["dim"])
            return _slice(dim, lambda inner: from_call(given["parent"], inner), shape)
        values = {name: ast.literal_eval(given[name]) for name in names}
        if kind == "BlockedLayout":
            return _blocked([values[name] for name in names], shape)
        bases = {name: values[field] for name, field in FIELDS.items()}
        return _shaped(from_dict({**bases, "shape": values["shape"]}), shape)
    except ValueError as error:
        raise LayoutgenError(f"layout {_short(text)}: its arguments must be literals") from error


def _blocked(parts: Sequence[Any], shape: Sequence[int] | None) -> LinearLayout:
    if shape is None:
        raise LayoutgenError("layout: a blocked layout needs the tensor's shape")
    lengths = {len(part) for part in parts}
    if lengths != {len(shape)}:
        raise LayoutgenError(f"layout: blocked arguments of lengths {sorted(lengths)} for shape {list(shape)}")
    if sorted(parts[3]) != list(range(len(shape))):
        raise LayoutgenError(f"layout: order {list(parts[3])} must name each of {len(shape)} dims once")
    return Blocked(*(tuple(part) for part in parts)).layout(shape)


def _slice(dim: Any, parent: Any, shape: Sequence[int] | None) -> LinearLayout:
    if not isinstance(dim, int) or dim < 0:
        raise LayoutgenError(f"layout: slice dim {dim!r} must be an integer from 0 on")
    if shape is None:
        whole: LinearLayout = parent(None)
        return whole.slice(dim)
    if dim > len(shape):
        raise LayoutgenError(f"layout: slice dim {dim} of a parent of {len(shape) + 1} dims")
    try:
        return _shaped(parent(None).slice(dim), shape)
    except LayoutgenError:
        # The parent needs a shape: the sliced dim may have any size, so it has 1.
        whole = parent((*shape[:dim], 1, *shape[dim:]))
        return whole.slice(dim)


# ---- #ttg attributes


def to_ttg(layout: LinearLayout) -> str:
    """Return the layout as Triton prints it in its IR.

    >>> to_ttg(LinearLayout.from_bases({"lane": [[1], [2]]}, (4,)))
    '#ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>'
    """
    return "#ttg.linear<{" + ", ".join(f"{name} = {layout.bases[name]}" for name in HARDWARE) + "}>"


def from_ttg(text: str, shape: Sequence[int] | None = None) -> LinearLayout:
    """Return the layout of a `#ttg.linear` or `#ttg.blocked` attribute.

    The linear one says no shape; without one it is the smallest that holds the bases.
    """
    match = re.fullmatch(r"#?ttg\.(\w+)\s*<\s*\{(.*)\}\s*>", text.strip(), re.DOTALL)
    if match is None or match[1] not in ("linear", "blocked"):
        raise LayoutgenError(f"layout {_short(text)}: must be #ttg.linear<{{...}}> or #ttg.blocked<{{...}}>")
    body = re.sub(r"(\w+)\s*=", r'"\1":', match[2])
    try:
        fields = json.loads("{" + body + "}")
    except json.JSONDecodeError as error:
        raise LayoutgenError(f"layout {_short(text)}: its fields cannot be read: {error.msg}") from error
    if match[1] == "blocked":
        missing = [key for key in BLOCKED_KEYS if not _integers(fields.get(key))]
        if missing:
            raise LayoutgenError(f"layout {_short(text)}: {missing[0]} must be a list of integers")
        return _blocked([fields[key] for key in BLOCKED_KEYS], shape)
    if "shape" in fields:
        raise LayoutgenError(f"layout {_short(text)}: #ttg.linear has no shape")
    return from_dict(fields if shape is None else {**fields, "shape": list(shape)})
