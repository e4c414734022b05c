"""Kernel families: what can be requested, and the plan that a request leads to."""

from collections.abc import Iterable, Mapping
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention import AttentionRequest, covering_split
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.kernels.matmul import MatmulRequest
from layoutgen.kernels.matmul_fast import FastMatmulRequest
from layoutgen.kernels.request import Array, chosen_design, contiguous

Request = AttentionRequest | MatmulRequest

ATTENTION_DESIGNS: dict[str, type[AttentionRequest]] = {
    kind.design: kind for kind in (AttentionRequest, FastAttentionRequest)
}
MATMUL_DESIGNS: dict[str, type[MatmulRequest]] = {kind.design: kind for kind in (MatmulRequest, FastMatmulRequest)}
DESIGNS: dict[str, Mapping[str, type[AttentionRequest] | type[MatmulRequest]]] = {
    "attention": ATTENTION_DESIGNS,
    "matmul": MATMUL_DESIGNS,
}
"""Family -> its designs by name, each with the class of its requests."""

__all__ = [
    "DESIGNS",
    "Array",
    "AttentionRequest",
    "FastAttentionRequest",
    "FastMatmulRequest",
    "MatmulRequest",
    "Request",
    "attention_design",
    "contiguous",
    "covering_split",
    "matmul_design",
    "request_from_dict",
]


def attention_design(design: str, features: Iterable[str]) -> type[AttentionRequest]:
    """Return the requests of a design, which must have the features that are asked of it.

    >>> attention_design("fast", {}).design
    'fast'
    """
    return chosen_design("attention", ATTENTION_DESIGNS, design, features)


def matmul_design(design: str, features: Iterable[str]) -> type[MatmulRequest]:
    """Return the requests of a design, which must have the features that are asked of it.

    >>> matmul_design("fast", {"a_order": "km"}).design
    'fast'
    """
    return chosen_design("matmul", MATMUL_DESIGNS, design, features)


def request_from_dict(data: Mapping[str, Any]) -> Request:
    """Return the request that an emitted file carries as its REQUEST."""
    if not isinstance(data, Mapping):
        raise LayoutgenError(f"request: is {data!r}; it must be a mapping, as `layoutgen emit` writes it")
    data = dict(data)
    family = str(data.pop("kernel", None))
    if family not in DESIGNS:
        raise LayoutgenError(f"request: kernel {family!r} is unknown; known are {', '.join(DESIGNS)}")
    design = data.pop("design", MatmulRequest.design)
    held = {"warps"}  # which follow from the others in attention
    kind = chosen_design(family, DESIGNS[family], design, [name for name in data if name not in held])
    try:
        return kind.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LayoutgenError(f"request: is not what `layoutgen emit` writes: {error!r}; emit the file again") from error
