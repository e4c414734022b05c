"""One PTX kernel for many snippets, so that one assembly tests them all: output i holds what snippet i computes."""

from __future__ import annotations

import re

import numpy as np

from layoutgen.cpu import Tensor, launch, launch_code
from layoutgen.execution.machine_code import read_code
from layoutgen.toolchain.binaries import assemble

WARPS = 4


def bundle(bodies: list[str], target: str = "sm_70") -> str:
    """PTX of a kernel of one block: inputs a, b, c, then an output per body."""
    pointers = [*(f"p{n}" for n in range(3)), *(f"o{n}" for n in range(len(bodies)))]
    parameters = ",\n".join(f".param .u64 {name}" for name in pointers)
    lines = []
    for number, body in enumerate(bodies):
        for label in re.findall(r"^(\w+):", body, re.MULTILINE):
            body = re.sub(rf"\b{label}\b", f"{label}{number}", body)
        lines.append(f"{body}\nld.param.u64 %y0, [o{number}];\nadd.s64 %y0, %y0, %y1;\nst.global.b32 [%y0], %o;")
    loads = "\n".join(
        f"ld.param.u64 %y0, [p{n}];\nadd.s64 %y0, %y0, %y1;\nld.global.b32 %{name}, [%y0];"
        for n, name in enumerate("abc")
    )
    text = "\n".join(lines)
    return f"""
.version 8.0
.target {target}
.address_size 64
.visible .entry snippets({parameters})
.reqntid {32 * WARPS}
{{
.reg .pred %q<4>;
.reg .b16 %h<4>;
.reg .b32 %x<4>;
.reg .b32 %a, %b, %c, %o, %t;
.reg .b64 %w<4>;
.reg .b64 %y<2>;
mov.u32 %t, %tid.x;
mul.wide.u32 %y1, %t, 4;
{loads}
{text}
ret;
}}
"""


def execute_ptx(ptx: str, inputs: list[np.ndarray], outputs: int) -> list[np.ndarray]:
    tensors, results = _tensors(inputs, outputs)
    report = launch(ptx, 1, WARPS, tensors, mma="exact")
    assert report.clean, str(report)
    return [np.asarray(result.array) for result in results]


def execute_sass(
    ptx: str, arch: str, flags: tuple[str, ...], inputs: list[np.ndarray], outputs: int, fill: int = 0
) -> list[np.ndarray]:
    cubin, _ = assemble(ptx, arch, flags)
    code = read_code(cubin, "snippets", arch, ("u64",) * (3 + outputs))
    tensors, results = _tensors(inputs, outputs)
    report = launch_code(code, 1, WARPS, tensors, mma="exact", fill=fill)
    assert report.clean, str(report)
    return [np.asarray(result.array) for result in results]


def _tensors(inputs: list[np.ndarray], outputs: int) -> tuple[list[Tensor], list[Tensor]]:
    results = [Tensor.output(f"o{n}", (32 * WARPS,), "u4") for n in range(outputs)]
    return [*(Tensor.input(name, array) for name, array in zip("abc", inputs, strict=True)), *results], results
