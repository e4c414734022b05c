"""The fast design of matmul around its loop: parameters, what follows the product, and the launches of one call."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from layoutgen.algebra.space import LANES
from layoutgen.emission.views import TRITON_TYPE
from layoutgen.kernels.expression import EPILOGUES
from layoutgen.kernels.matmul import B_ORDERS
from layoutgen.kernels.matmul_fast import A_ORDERS, FastMatmulRequest
from layoutgen.kernels.matmul_workspace import EXPONENT_DTYPE, PRODUCTS, VECTOR_ELEMENTS
from layoutgen.kernels.request import STATISTICS_DTYPE
from layoutgen.plan.staging import VECTOR_BYTES

PER_THREAD = 4
"""Neighbours that a thread of the second kernel, or of one that splits an operand, takes: 16 bytes of fp32."""
EXPONENT_BIAS = 127
TOP_EXPONENT = 14
"""Exponent of a row's largest element when it is scaled: half of what fp16 holds."""
KNOWN = 16
"""Triton knows of an integer argument whether it is a multiple of this, and of nothing less."""
WIDTH = 112
"""Characters of a line in an emitted docstring."""
LETTERS = {"c": "c", "bias": "s", "residual": "r", "partials": "p"}
"""Array of C's shape -> the letter of its strides."""


@dataclass(frozen=True)
class SplitView:
    """The kernel that makes the parts of an operand: its tile of `rows` x `depth`, held as a blocked layout.

    Lanes run along what is contiguous in memory, so that a warp reads whole lines; a thread has several vectors on
    their way. `first` and `second` say which part stands in the first and in the second third of the depth.
    """

    name: str
    size: str
    axis: str
    along_k: bool
    rows: int
    depth: int
    layout: str
    first: str
    second: str
    padded: str
    strides: str


def around(request: FastMatmulRequest) -> dict[str, Any]:
    """Return the template's values that do not depend on how the loop is written."""
    arrays = ["c", *["bias"] * request.bias, *["residual"] * request.residual]
    scalars = request_scalars(request)
    exponents = ["a_exponents", "b_exponents"] * bool(request.operand_dtype)
    parts = ["a_parts", "a_exponents", "b_parts", "b_exponents"] * bool(request.operand_dtype)
    work = parts + ["partials"] * (request.split_k > 1)
    split = request.split_k > 1
    strided = [word for name in arrays for word in (name, *(f"stride_{LETTERS[name]}{dim}" for dim in "mn"))]
    finished = [*scalars, *strided, *exponents]
    aligned = [] if parts else _aligned(request)
    stored = ["partials", "stride_pm", "stride_pn"] if split else finished
    return {
        "kernel_parameters": [
            f"{name}: gl.constexpr" if kind == "constexpr" else name
            for name, kind in fast_matmul_signature(request).items()
        ],
        "finish_parameters": [
            *("partials", *arrays, *exponents),
            *(f"stride_{LETTERS[name]}{dim}" for name in ("partials", *arrays) for dim in "zmn"),
            *("m", "n", *scalars),
        ],
        "dtypes": _dtypes(request),
        "scale": request.scale,
        "bias": request.bias,
        "rounded": request.rounded,
        "residual": request.residual,
        "epilogue": "" if request.epilogue == "none" else request.expression.gluon,
        "helpers": [
            (name, "larger" if comparison == ">" else "smaller", comparison)
            for name, comparison in request.expression.helpers.items()
        ],
        "formula": formula(request),
        "added": [(name, LETTERS[name]) for name in arrays[1:]],
        "stored": [(name, LETTERS[name]) for name in arrays],
        "exponents": exponents,
        "store_parameters": ["m", "n", *stored],
        "call_lines": _call_lines(request, arrays[1:], bool(work)),
        "call_parameters": ["a", "b", *arrays, *work, *(f"{name}=1.0" for name in scalars)],
        "call_arguments": ["a", "b", *arrays, *work, *scalars],
        "m_dim": -2 if request.a_order == "mk" else -1,
        "k_dim": -1 if request.a_order == "mk" else -2,
        "n_dim": -1 if request.b_order == "kn" else -2,
        "host_arrays": ", ".join(["a, b", *arrays, *work]),
        "host_defaults": "".join(f", {name}=1.0" for name in scalars),
        "host_scalars": "".join(f", {name}" for name in scalars),
        "scalars": scalars,
        "work": work,
        "split_k": request.split_k,
        "products": PRODUCTS,
        "lifted": EXPONENT_BIAS + TOP_EXPONENT,
        "finish_rows": request.num_warps,
        "finish_columns": PER_THREAD * LANES,
        "finish_layout": f"[1, {PER_THREAD}], [1, {LANES}], [{request.num_warps}, 1], [1, 0]",
        "statistics_dtype": STATISTICS_DTYPE,
        "exponent_dtype": EXPONENT_DTYPE,
        "splitters": [_splitter(request, name) for name in "ab"] if parts else [],
        "main_arrays": ", ".join(
            [*(["a_parts", "b_parts"] if parts else ["a", "b"]), *(["partials"] if split else [*arrays, *exponents])]
        ),
        "finish_arrays": ", ".join(["partials", *arrays, *exponents]),
        "vector": VECTOR_BYTES // request.element_bytes,
        "aligned": aligned,
        "sizes": f"({', '.join(host for _, host in aligned)})",
        "vectors": (
            f"all(size % {VECTOR_BYTES // request.element_bytes} == 0 for size in sizes) and "
            f"any(size % {KNOWN} for size in sizes)"
        ),
        "depth": "depth" if split else "k",
        "batches": f"batch * {request.split_k}" if split else "batch",
        "part_strides": ", ".join(
            f"{size} * k, {'1, k' if name == 'b' else 'k, 1'}"
            if order[-1] == "k"
            else f"k * {size}_padded, {f'{size}_padded, 1' if name == 'b' else f'1, {size}_padded'}"
            for name, size, order in (("a", "m", request.a_order), ("b", "n", request.b_order))
        ),
        "furthest": (
            f"max({request.block_m} * abs(strides[1]) + {2 * request.block_k} * abs(strides[2]), "
            f"{2 * request.block_k} * abs(strides[4]) + {request.block_n} * abs(strides[5]))"
        ),
    }


def _aligned(request: FastMatmulRequest) -> list[tuple[str, str]]:
    """Return what must be in whole vectors for tiles to be loaded so: the kernel's names, and the host's words."""
    found = [("stride_az", "strides[0]"), ("stride_bz", "strides[3]")]
    if request.along("a") == "k":
        found.append(("stride_am", "strides[1]"))
    else:
        found += [("stride_ak", "strides[2]"), ("m", "m")]
    if request.along("b") == "k":
        found.append(("stride_bn", "strides[5]"))
    else:
        found += [("stride_bk", "strides[4]"), ("n", "n")]
    return found


def _call_lines(request: FastMatmulRequest, added: list[str], work: bool) -> list[str]:
    """Return the lines of the host function's docstring that say what its arrays are."""
    a, b = (
        orders[order].split("]")[0] + "]"
        for orders, order in ((A_ORDERS, request.a_order), (B_ORDERS, request.b_order))
    )
    text = (
        f"a is {a} or [Z, {a[1:]}, b {b} or [Z, {b[1:]}, c [M, N] or [Z, M, N]; strides are free, and fastest where "
        f"the last dim of a and b is contiguous. a and b are {request.given_dtype}, c is {request.c_dtype}."
    )
    if added:
        text += f" {' and '.join(added)} {'is' if len(added) == 1 else 'are'} broadcast to [Z, M, N]."
    if work:
        text += " The other arrays are those that `workspace` names."
    return textwrap.wrap(f"{text} Raises TypeError or ValueError on anything else.", WIDTH)


def _splitter(request: FastMatmulRequest, name: str) -> SplitView:
    order = request.a_order if name == "a" else request.b_order
    along_k = order[-1] == "k"
    size = "m" if name == "a" else "n"
    warps = request.num_warps
    if along_k:
        rows, depth = 2 * warps, 2 * PER_THREAD * LANES
        layout = f"[1, {PER_THREAD}], [1, {LANES}], [{warps}, 1], [1, 0]"
    else:
        rows, depth = LANES, 16 * warps
        layout = f"[{PER_THREAD}, 1], [8, 4], [1, {warps}], [0, 1]"
    sides = ("lo", "hi") if name == "a" else ("hi", "lo")
    return SplitView(
        name=name,
        size=size,
        axis="row" if name == "a" else "column",
        along_k=along_k,
        rows=rows,
        depth=depth,
        layout=layout,
        first=sides[0],
        second=sides[1],
        padded=size if along_k else f"-(-{size} // {VECTOR_ELEMENTS}) * {VECTOR_ELEMENTS}",
        strides="*strides[:3]" if name == "a" else "strides[3], strides[5], strides[4]",
    )


def _dtypes(request: FastMatmulRequest) -> list[tuple[str, str]]:
    own, result = f'("{request.given_dtype}",)', f'("{request.c_dtype}",)'
    found = [("a", own), ("b", own), ("c", result)]
    found += [("bias", f'("{request.dtype}", "{STATISTICS_DTYPE}")')] * request.bias
    return found + [("residual", result)] * request.residual


def formula(request: FastMatmulRequest) -> str:
    """Return what C is, for the docstrings."""
    alpha, beta = ("alpha ", "beta ") if request.scale else ("", "")
    text = f"{alpha}A B" + f" + {beta}bias" * request.bias
    if request.epilogue != "none":
        name = request.epilogue if request.epilogue in EPILOGUES else "epilogue"
        text = f"{name}({f'{request.c_dtype}(' * request.rounded}{text}{')' * request.rounded})"
    return text + " + residual" * request.residual


def fast_matmul_signature(request: FastMatmulRequest) -> dict[str, str]:
    """Return the kernel's parameters in order, with their types for contiguous arrays of the default dtypes."""
    half = f"*{TRITON_TYPE[request.dtype]}"
    result = {"a": half, "b": half}
    dims = {"a": "zmk", "b": "zkn"}
    if request.split_k > 1:
        result["partials"] = f"*{TRITON_TYPE[STATISTICS_DTYPE]}"
        dims["p"] = "zmn"
    else:
        result["c"] = f"*{TRITON_TYPE[request.c_dtype]}"
        dims["c"] = "zmn"
        if request.bias:
            result["bias"] = half
            dims["s"] = "zmn"
        if request.residual:
            result["residual"] = result["c"]
            dims["r"] = "zmn"
        if request.operand_dtype:
            result |= dict.fromkeys(("a_exponents", "b_exponents"), "*i32")
    for array, letters in dims.items():
        result |= {f"stride_{array}{letter}": "i32" for letter in letters}
    result |= dict.fromkeys(("m", "n", "k"), "i32")
    if request.split_k == 1:
        result |= dict.fromkeys(request_scalars(request), "fp32")
    flags = ("whole", "wide") if request.operand_dtype else ("vectors", "whole", "wide")
    return result | dict.fromkeys(flags, "constexpr")


def request_scalars(request: FastMatmulRequest) -> list[str]:
    """Return the factors that a launch chooses."""
    return ["alpha", *(["beta"] if request.bias else [])] if request.scale else []
