"""Claim 6 for an emitted file as it stands: its loads and stores, held against the tensors of its request."""

from __future__ import annotations

from layoutgen.kernels import AttentionRequest, FastMatmulRequest, MatmulRequest, Request
from layoutgen.proofs import Verdict
from layoutgen.readback.masks_kernel import prove_kernel
from layoutgen.readback.masks_several import prove_launches
from layoutgen.readback.places import Dims


def tensors(request: Request) -> dict[str, Dims]:
    """Return the tensors of a request, by the name of the kernel's pointer, dims in the order of the array."""
    return attention_tensors(request) if isinstance(request, AttentionRequest) else matmul_tensors(request)


def matmul_tensors(request: MatmulRequest) -> dict[str, Dims]:
    a = [("row", "stride_am", "m"), ("k", "stride_ak", "k")]
    b = [("k", "stride_bk", "k"), ("column", "stride_bn", "n")]
    dims: dict[str, Dims] = {
        "a": (("batch", "stride_az", "batch"), *(a if request.a_order == "mk" else reversed(a))),
        "b": (("batch", "stride_bz", "batch"), *(b if request.b_order == "kn" else reversed(b))),
    }
    # What is added to C has its shape, by strides of 0 where it is broadcast.
    for name, letter, there in (("c", "c", True), ("bias", "s", request.bias), ("residual", "r", request.residual)):
        if there:
            rows, columns = ("row", f"stride_{letter}m", "m"), ("column", f"stride_{letter}n", "n")
            dims[name] = (("batch", f"stride_{letter}z", "batch"), rows, columns)
    return dims


def attention_tensors(request: AttentionRequest) -> dict[str, Dims]:
    def heads(letter: str, count: str) -> Dims:
        return ("batch", f"stride_{letter}b", "batch"), ("head", f"stride_{letter}h", count)

    size, value = request.head_dim, request.value_dim
    result: dict[str, Dims] = {
        "q": (*heads("q", "heads"), ("query", "stride_qt", "t_q"), ("head dim", "stride_qd", size)),
        "k": (*heads("k", "kv_heads"), ("key", "stride_kt", "t_k"), ("head dim", "stride_kd", size)),
        "v": (*heads("v", "kv_heads"), ("key", "stride_vt", "t_k"), ("head dim", "stride_vd", value)),
        "out": (*heads("o", "heads"), ("query", "stride_ot", "t_q"), ("head dim", "stride_od", value)),
        "lse": (*heads("l", "heads"), ("query", "stride_lt", "t_q")),
    }
    if request.sinks:
        result["sinks"] = (("head", "stride_sink_h", "heads"),)
    for name, letter, there in (("mask", "m", request.mask), ("bias", "s", request.bias)):
        if there:
            scores = ("query", f"stride_{letter}q", "t_q"), ("key", f"stride_{letter}k", "t_k")
            result[name] = (*heads(letter, "heads"), *scores)
    return result


def prove_masks(source: str, request: Request) -> tuple[Verdict, ...]:
    """Discharge claim 6 for every tensor that the kernels of a file load from or store to."""
    if isinstance(request, FastMatmulRequest) and len(request.kernels) > 1:
        return prove_launches(source, request, tensors(request))
    return prove_kernel(source, request, tensors(request))
