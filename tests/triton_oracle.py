"""Triton's own answers about layouts, asked without a GPU and without a kernel.

Triton aborts the process on layouts that do not cover their tensor, so callers ask only about surjective ones.
"""

from __future__ import annotations

import atexit
import itertools
from functools import cache
from typing import Any

from layoutgen.algebra import Blocked, LinearLayout
from layoutgen.algebra.interchange import from_gluon_object, to_ttg
from layoutgen.algebra.space import HARDWARE


@cache
def _session() -> tuple[Any, ...]:
    from triton._C import libtriton
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    libtriton.nvidia.load_dialects(context)
    return context, gluon_ir.GluonOpBuilder(context)


@cache
def _builder(num_warps: int) -> tuple[Any, Any, Any]:
    """Return a builder that stands in a function of its own; the module says how many warps there are."""
    from triton._C.libtriton import gluon_ir

    context = _session()[0]
    builder = gluon_ir.GluonOpBuilder(context)
    module = builder.create_module()
    module.set_attr("ttg.num-warps", builder.get_int32_attr(num_warps))
    module.set_attr("ttg.num-ctas", builder.get_int32_attr(1))
    module.set_attr("ttg.threads-per-warp", builder.get_int32_attr(32))
    module.set_attr("ttg.target", builder.get_string_attr("cuda:70"))
    function = builder.get_or_insert_function(module, "first", builder.get_function_ty([], []), "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    return context, builder, module


@atexit.register
def _forget() -> None:
    # Objects of the binding that live until the interpreter goes are reported as leaks.
    _builder.cache_clear()
    _session.cache_clear()


_names = itertools.count()


def distributed(layout: LinearLayout) -> Any:
    """Return Triton's attribute for a layout."""
    bases = layout.bases
    return _session()[1].get_distributed_linear_layout(*(bases[name] for name in HARDWARE), list(layout.shape))


def trivially_converts(source: LinearLayout, target: LinearLayout) -> bool:
    """Ask `is_convert_layout_trivial`, which `convert_layout(..., assert_trivial=True)` asks too."""
    _, builder, module = _builder(1 << source.domain.bits_of("warp"))
    shape = list(source.shape)
    source_type, target_type = (
        builder.get_distributed_ty(builder.get_half_ty(), shape, distributed(layout)) for layout in (source, target)
    )
    signature = builder.get_function_ty([source_type], [])
    function = builder.get_or_insert_function(module, f"f{next(_names)}", signature, "public", False)
    function.add_entry_block()
    return bool(builder.is_convert_layout_trivial(target_type, function.args(0)))


def to_linear_layout(blocked: Blocked, shape: tuple[int, ...]) -> LinearLayout:
    """Ask `gl.to_linear_layout` about a BlockedLayout."""
    builder = _session()[1]
    parts = (blocked.size_per_thread, blocked.threads_per_warp, blocked.warps_per_cta, blocked.order)
    answer = builder.to_linear_layout(builder.get_blocked_layout(*map(list, parts), []), list(shape))
    return from_gluon_object(answer)


def slice_to_linear_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """Ask `gl.to_linear_layout` about the SliceLayout of a layout."""
    builder = _session()[1]
    shape = [size for i, size in enumerate(layout.shape) if i != dim]
    return from_gluon_object(builder.to_linear_layout(builder.get_slice_layout(dim, distributed(layout)), shape))


def swizzle_to_linear_layout(swizzle: tuple[int, int, int], shape: tuple[int, ...]) -> list[list[int]]:
    """Ask `gl.to_linear_layout` about a SwizzledSharedLayout: the element at each power-of-two offset."""
    builder = _session()[1]
    shared = builder.get_swizzled_shared_layout(*swizzle, list(reversed(range(len(shape)))), [])
    bases: list[list[int]] = builder.to_linear_layout(shared, list(shape)).offset_bases
    return bases


def bank_conflicts(layout: LinearLayout, element_bytes: int, swizzle: tuple[int, int, int] = (1, 1, 1)) -> int:
    """Ask `gl.bank_conflicts` about a layout and a row-major buffer with (vec, per_phase, max_phase)."""
    _, builder, _ = _builder(1 << layout.domain.bits_of("warp"))
    order = list(reversed(range(len(layout.shape))))
    shared = builder.get_swizzled_shared_layout(*swizzle, order, [])
    return int(builder.get_shared_bank_conflicts(distributed(layout), shared, list(layout.shape), 8 * element_bytes))


PROBE = """
#source = %s
#target = %s
module attributes {
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = %d : i32, ttg.target = "cuda:70", "ttg.threads-per-warp" = 32 : i32
} {
  tt.func public @probe(%%in: !tt.ptr<%s>, %%out: !tt.ptr<%s>) {
    %%p = tt.splat %%in : !tt.ptr<%s> -> tensor<%sx!tt.ptr<%s>, #source>
    %%a = tt.load %%p {isVolatile = true} : tensor<%sx!tt.ptr<%s>, #source>
    %%b = ttg.convert_layout %%a : tensor<%sx%s, #source> -> tensor<%sx%s, #target>
    %%q = tt.splat %%out : !tt.ptr<%s> -> tensor<%sx!tt.ptr<%s>, #target>
    tt.store %%q, %%b : tensor<%sx!tt.ptr<%s>, #target>
    tt.return
  }
}
"""


def lowered(source: LinearLayout, target: LinearLayout, dtype: str = "f32") -> dict[str, int]:
    """Compile nothing but the conversion for sm_70 and count what moves data: shuffles and shared-memory accesses."""
    import tempfile
    from pathlib import Path

    import triton
    from triton.backends.compiler import GPUTarget

    shape = "x".join(map(str, source.shape))
    typed = (dtype, dtype, dtype, shape, dtype, shape, dtype, shape, dtype, shape, dtype, dtype, shape, dtype)
    warps = 1 << source.domain.bits_of("warp")
    text = PROBE % (to_ttg(source), to_ttg(target), warps, *typed, shape, dtype)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.ttgir"
        path.write_text(text)
        ptx = triton.compile(str(path), target=GPUTarget("cuda", 70, 32)).asm["ptx"]
    return {name: ptx.count(name) for name in ("shfl.sync", "st.shared", "ld.shared")}
