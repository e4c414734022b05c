"""Helpers of the executor's tests: PTX snippets run one thread an element, and the slim attention kernel."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutgen.cpu import LaunchReport, Tensor, launch

collect_ignore_glob = ["data/*"]  # a kernel, for which Triton would be needed

DATA = Path(__file__).parent / "data"


def run_snippet(body: str, inputs: list[Any], out: str = "b32", *, threads: int = 0, extra: str = "") -> Any:
    """Run `body` in one thread an element and return what it left in %o0 (a register of type `out`).

    Input i (an array of 2-, 4- or 8-byte elements, one a thread) is in %i0, %i1, ...; %x0..%x9 are b32 temporaries,
    %h0..%h9 b16, %w0..%w9 b64, %q0..%q9 predicates. The number of elements is padded to whole warps.
    """
    arrays = [np.asarray(values) for values in inputs]
    count = max([threads, *(a.size for a in arrays)])
    warps = -(-count // 32)
    group = max(w for w in range(1, 9) if warps % w == 0)
    padded = warps * 32
    tensors = []
    lines = ["mov.u32 %t0, %ctaid.x;", f"mad.lo.u32 %t1, %t0, {32 * group}, %t2;"]
    registers = []
    for number, array in enumerate(arrays):
        size = array.dtype.itemsize
        values = np.zeros(padded, array.dtype)
        values[: array.size] = array
        tensors.append(Tensor.input(f"i{number}", values))
        registers.append(f".reg .b{8 * size} %i{number};")
        lines += [
            f"ld.param.u64 %a0, [p{number}];",
            f"mad.wide.u32 %a0, %t1, {size}, %a0;",
            f"ld.global.b{8 * size} %i{number}, [%a0];",
        ]
    kind = {"b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4", "s64": "i8"}
    bits = int(out[1:])
    result = Tensor.output("o", (padded,), kind[out])
    tensors.append(result)
    parameters = ",\n".join(f".param .u64 p{i}" for i in range(len(tensors)))
    text = f"""
.version 8.8
.target sm_70
.address_size 64
.visible .entry snippet({parameters})
.reqntid {32 * group}
{{
.reg .pred %q<10>;
.reg .b16 %h<10>;
.reg .b32 %x<10>;
.reg .b64 %w<10>;
.reg .b32 %t<4>;
.reg .b64 %a<4>;
.reg .b{bits} %o0;
{" ".join(registers)}
{extra}
.loc 1 1 0
mov.u32 %t2, %tid.x;
{" ".join(lines)}
{body}
ld.param.u64 %a1, [p{len(arrays)}];
mad.wide.u32 %a1, %t1, {bits // 8}, %a1;
st.global.b{bits} [%a1], %o0;
ret;
}}
.file 1 "snippet.py"
"""
    report = launch(text, warps // group, group, tensors, mma="exact")
    assert report.clean, str(report)
    return result.array[:count].copy()


@dataclass
class Attention:
    """A run of the slim attention kernel and its reference."""

    report: LaunchReport
    out: Any
    lse: Any
    out_reference: Any
    lse_reference: Any
    error: float = field(init=False)

    def __post_init__(self) -> None:
        self.error = float(
            max(np.abs(self.out - self.out_reference).max(), np.abs(self.lse - self.lse_reference).max())
        )
        if np.isnan(self.out).any() or np.isnan(self.lse).any():
            self.error = float("inf")


def slim_ptx() -> str:
    """The checked-in PTX of the slim attention kernel."""
    return (DATA / "slim_attention.ptx").read_text()


def run_attention(ptx: str, rows: int = 45, keys: int = 37, *, mma: str = "v100", stride: int = 16) -> Attention:
    """Execute (a mutant of) the slim attention kernel on random operands; the reference is in float64."""
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((n, 16)).astype(np.float16) for n in (rows, keys, keys))
    out = Tensor.output("o", (rows, 16), "f2", (stride, 1))
    lse = Tensor.output("lse", (rows,), "f4")
    scale = 0.25 * 1.4426950408889634
    arguments = [Tensor.input(name, a, (stride, 1)) for name, a in (("q", q), ("k", k), ("v", v))]
    report = launch(
        ptx, -(-rows // 32), 2, [*arguments, out, lse, scale, *[stride] * 4, rows, keys],
        mma=mma, shared_bytes=3072, step_limit=50_000,
    )  # fmt: skip
    s = q.astype(np.float64) @ k.T.astype(np.float64) * 0.25
    top = s.max(axis=1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(axis=1, keepdims=True)
    return Attention(
        report, out.array.astype(np.float64), lse.array.astype(np.float64),
        p / total @ v.astype(np.float64), (top + np.log(total))[:, 0],
    )  # fmt: skip


def v100_data() -> Path:
    """The folder of published V100 results; fails under CI when it is missing and skips elsewhere."""
    root = os.environ.get("LAYOUTGEN_SHARED")
    shared = Path(root) if root else Path(__file__).parents[3] / "shared"
    folder = shared / "data" / "v100_hmma"
    if not (folder / "d_V100_fp32.txt").exists():
        message = f"no V100 results in {folder}; set LAYOUTGEN_SHARED to the folder that holds data/v100_hmma"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder
