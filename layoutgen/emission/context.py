"""From a request to the values that its template receives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from layoutgen.emission.attention_fast import fast_attention_context, fast_attention_signature
from layoutgen.emission.matmul_around import fast_matmul_signature
from layoutgen.emission.matmul_fast import fast_matmul_context
from layoutgen.emission.views import (
    LEAST_BIAS,
    TRITON_TYPE,
    StagingView,
    TilingView,
    legend,
    mma_view,
    staging_view,
    tiling_view,
)
from layoutgen.kernels import AttentionRequest, FastAttentionRequest, FastMatmulRequest, MatmulRequest, Request
from layoutgen.kernels.request import STATISTICS_DTYPE
from layoutgen.plan import Staging
from layoutgen.tiling import Tiling


@dataclass(frozen=True)
class Part:
    """One part of the head dim: columns start to stop, its stagings and its output tiling."""

    suffix: str
    start: int
    stop: int
    query: StagingView
    key: StagingView
    value: StagingView
    output: TilingView
    store_mask: str

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def offset(self) -> str:
        """What is added to a column index within the part."""
        return f"{self.start} + " if self.start else ""


def tilings_by_view(request: AttentionRequest | MatmulRequest) -> list[tuple[TilingView, Tiling]]:
    """Return the tilings of a simple design, each with how its layouts are called and written."""
    if isinstance(request, MatmulRequest):
        return [(tiling_view(request.tiling, "C", "The accumulator of C = A B"), request.tiling)]
    names = {"scores": ("S", "The accumulator of S = Q K^T")} | {
        f"output{part}": (f"O{part}", f"The accumulator of {part} columns of O") for part in request.parts
    }
    return [(tiling_view(request.tilings[key], *text), request.tilings[key]) for key, text in names.items()]


def stagings_by_name(request: AttentionRequest | MatmulRequest) -> dict[str, Staging]:
    """Return how each tile of a simple design gets into its buffer, by the name of the layout that it is loaded in."""
    if isinstance(request, MatmulRequest):
        return {f"TILE_{operand.upper()}": staging for operand, staging in request.stagings.items()}
    return {
        f"TILE_{kind[0].upper()}{_suffix(request, index)}": request.stagings[f"{kind}{index}"]
        for index, _ in enumerate(request.parts)
        for kind in ("query", "key", "value")
    }


def _suffix(request: AttentionRequest, index: int) -> str:
    return f"{index}" if len(request.parts) > 1 else ""


def attention_context(request: AttentionRequest) -> dict[str, Any]:
    tilings = [view for view, _ in tilings_by_view(request)]
    scores, outputs = tilings[0], dict(zip(dict.fromkeys(request.parts), tilings[1:], strict=True))
    staged = stagings_by_name(request)
    parts = []
    start = 0
    for index, size in enumerate(request.parts):
        suffix = _suffix(request, index)
        stop = start + size
        names = {kind: f"TILE_{kind[0].upper()}{suffix}" for kind in ("query", "key", "value")}
        views = {kind: staging_view(name, staged[name]) for kind, name in names.items()}
        mask = "r < queries" if stop <= request.head_dim else f"(r < queries) & (d < {request.head_dim})"
        parts.append(Part(suffix, start, stop, **views, output=outputs[size], store_mask=mask))
        start = stop
    unit = request.tilings["scores"].unit
    arrays = "q, k, v, out, lse" + (", bias" if request.bias else "")
    return {
        "log2_e": repr(math.log2(math.e)),
        "ln_2": repr(math.log(2)),
        "least_bias": repr(LEAST_BIAS),
        "tilings": tilings,
        "scores": scores,
        "parts": parts,
        "weights": staging_view("P", request.weights),
        "mma": mma_view(unit.atom),
        "legend": legend(next(iter(request.tilings.values()))),
        "k": unit.shape[2],
        "block_m": request.block_m,
        "block_n": request.block_n,
        "rows_per_warp": unit.shape[0],
        "head_dim": request.head_dim,
        "dtype": request.dtype,
        "bias": request.bias,
        "reference": "reference" if request.bias else "new_max",
        "overhang": start > request.head_dim,
        "outputs": list(outputs.values()),
        "kernel_parameters": list(attention_signature(request)),
        "host_parameters": f"{arrays}, scale=None",
        "host_arrays": arrays,
        "dtypes": [
            *((name, f'("{request.dtype}",)') for name in ("q", "k", "v", "out")),
            ("lse", f'("{STATISTICS_DTYPE}",)'),
            *((("bias", f'("{request.dtype}", "{STATISTICS_DTYPE}")'),) if request.bias else ()),
        ],
        "bias_shape": ", bias [B, H, Tq, Tk]" if request.bias else "",
        "bias_dtype": f"bias {request.dtype} or {STATISTICS_DTYPE}, " if request.bias else "",
    }


def matmul_context(request: MatmulRequest) -> dict[str, Any]:
    unit = request.tiling.unit
    k_first = request.b_order == "kn"
    ((product, _),) = tilings_by_view(request)
    a, b = (staging_view(name, staging) for name, staging in stagings_by_name(request).items())
    return {
        "product": product,
        "a": a,
        "b": b,
        "mma": mma_view(unit.atom),
        "legend": legend(next(iter(request.tilings.values()))),
        "k": unit.shape[2],
        "block_m": request.block_m,
        "block_n": request.block_n,
        "block_k": request.block_k,
        "dtype": request.dtype,
        "c_dtype": request.c_dtype,
        # Along which dim of B's tile an index varies, and how it is broadcast over the other.
        "b_column_dim": 1 if k_first else 0,
        "b_k_dim": 0 if k_first else 1,
        "b_k_index": "[:, None]" if k_first else "[None, :]",
        "b_column_index": "[None, :]" if k_first else "[:, None]",
        "b_transposed": "" if k_first else "^T",
        "kernel_parameters": list(matmul_signature(request)),
        "dtypes": [*((name, f'("{request.dtype}",)') for name in "ab"), ("c", f'("{request.c_dtype}",)')],
        "b_shape": "[K, N]" if k_first else "[N, K]",
        "b_unpack": "k_b, n" if k_first else "n, k_b",
        "b_stride_order": "(-2, -1)" if k_first else "(-1, -2)",
    }


def attention_signature(request: AttentionRequest) -> dict[str, str]:
    half, statistics = f"*{TRITON_TYPE[request.dtype]}", "*fp32"
    arrays = {"q": half, "k": half, "v": half, "out": half, "lse": statistics}
    strides = {"q": "bhtd", "k": "bhtd", "v": "bhtd", "o": "bhtd", "l": "bht"}
    if request.bias:
        arrays["bias"] = half
        strides["s"] = "bhqk"
    return arrays | {"scale": "fp32"} | _integers(strides, "group", "t_q", "t_k")


def matmul_signature(request: MatmulRequest) -> dict[str, str]:
    half = f"*{TRITON_TYPE[request.dtype]}"
    arrays = {"a": half, "b": half, "c": f"*{TRITON_TYPE[request.c_dtype]}"}
    return arrays | _integers({"a": "zmk", "b": "zkn", "c": "zmn"}, "m", "n", "k")


def _integers(strides: Mapping[str, str], *sizes: str) -> dict[str, str]:
    """Return the strides of every array's dims, and the sizes, as parameters."""
    names = [f"stride_{array}{dim}" for array, dims in strides.items() for dim in dims]
    return dict.fromkeys([*names, *sizes], "i32")


TEXTS: Mapping[type, tuple[Callable[[Any], dict[str, Any]], Callable[[Any], dict[str, str]]]] = {
    AttentionRequest: (attention_context, attention_signature),
    FastAttentionRequest: (fast_attention_context, fast_attention_signature),
    MatmulRequest: (matmul_context, matmul_signature),
    FastMatmulRequest: (fast_matmul_context, fast_matmul_signature),
}
"""What a template is given, and the parameters of its kernel, by the kind of request."""


def context(request: Request) -> dict[str, Any]:
    """Return the template's values for a request, the header (`about`) excepted."""
    return TEXTS[type(request)][0](request)


def signature(request: Request) -> dict[str, str]:
    """Return the kernel's parameters in order, with their types for contiguous arrays of the default dtypes."""
    return TEXTS[type(request)][1](request)
