"""Kernel families: what can be requested, and the plan that a request leads to."""

from collections.abc import Mapping
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.kernels.attention import AttentionRequest, covering_split
from layoutgen.kernels.matmul import MatmulRequest
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
    "MatmulRequest",
    "Request",
    "contiguous",
    "covering_split",
    "request_from_dict",
]


def request_from_dict(data: Mapping[str, Any]) -> Request:
    """Return the request that an emitted file carries as its REQUEST."""
    family = FAMILIES.get(str(data.get("kernel")))
    if family is None:
        raise LayoutgenError(f"request: kernel {data.get('kernel')!r} is unknown; known are {', '.join(FAMILIES)}")
    return family.from_dict(data)
