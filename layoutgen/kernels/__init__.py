"""Kernel families: what can be requested, and the plan that a request leads to."""

from collections.abc import Mapping
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention import AttentionRequest, covering_split
from layoutgen.kernels.attention_fast import FastAttentionRequest
from layoutgen.kernels.matmul import MatmulRequest
from layoutgen.kernels.matmul_fast import FastMatmulRequest
from layoutgen.kernels.request import Array, contiguous

Request = AttentionRequest | MatmulRequest

FAMILIES: dict[str, type[AttentionRequest] | type[MatmulRequest]] = {
    "attention": AttentionRequest,
    "matmul": MatmulRequest,
}

__all__ = [
    "FAMILIES",
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


def attention_design(design: str, features: Mapping[str, Any]) -> type[AttentionRequest]:
    """Return the requests of a design, which must have the features that are asked of it.

    >>> attention_design("fast", {}).design
    'fast'
    """
    designs: dict[str, type[AttentionRequest]] = {
        known.design: known for known in (AttentionRequest, FastAttentionRequest)
    }
    if design not in designs:
        raise LayoutgenError(f"design {design!r}: must be one of {', '.join(designs)}")
    for name in features:
        if name not in designs[design].__dataclass_fields__:
            takers = [known for known, kind in designs.items() if name in kind.__dataclass_fields__]
            raise LayoutgenError(
                f"attention, design {design}: takes no {name}" + (f"; {takers[0]} does" if takers else "")
            )
    return designs[design]


def matmul_design(design: str, features: Mapping[str, Any]) -> type[MatmulRequest]:
    """Return the requests of a design, which must have the features that are asked of it.

    >>> matmul_design("fast", {"a_order": "km"}).design
    'fast'
    """
    designs: dict[str, type[MatmulRequest]] = {known.design: known for known in (MatmulRequest, FastMatmulRequest)}
    if design not in designs:
        raise LayoutgenError(f"design {design!r}: must be one of {', '.join(designs)}")
    for name in features:
        if name not in designs[design].__dataclass_fields__:
            takers = [known for known, kind in designs.items() if name in kind.__dataclass_fields__]
            raise LayoutgenError(
                f"matmul, design {design}: takes no {name}" + (f"; {takers[0]} does" if takers else "")
            )
    return designs[design]


def request_from_dict(data: Mapping[str, Any]) -> Request:
    """Return the request that an emitted file carries as its REQUEST."""
    if not isinstance(data, Mapping):
        raise LayoutgenError(f"request: is {data!r}; it must be a mapping, as `layoutgen emit` writes it")
    family = FAMILIES.get(str(data.get("kernel")))
    if family is None:
        raise LayoutgenError(f"request: kernel {data.get('kernel')!r} is unknown; known are {', '.join(FAMILIES)}")
    if data.get("design") == FastAttentionRequest.design:
        family = FastAttentionRequest if family is AttentionRequest else FastMatmulRequest
    try:
        return family.from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LayoutgenError(f"request: is not what `layoutgen emit` writes: {error!r}; emit the file again") from error
