"""Executes compiled kernels on the CPU, bit for bit in the tensor core, and watches every access meanwhile.

    program = parse_ptx(text)
    out = Tensor.output("o", (100, 64), "float16")
    report = launch(program, grid=2, num_warps=4, arguments=[Tensor.input("q", q), ..., out, 0.125], shared_bytes=20480)
    print(report); out.array

`launch_code` executes machine code in the same way. The instruction sets share `memory`, `watch`, `counters`,
`tensor_core`, `fragments`, `warp_ops`, `machine` and `access`, and no semantics: what is PTX's alone is in the modules
`ptx_*`, what is machine code's in `sass_*`. Needs NumPy only.
"""

from layoutgen.cpu.counters import LineCount
from layoutgen.cpu.launch import LaunchReport, launch
from layoutgen.cpu.machine import ExecutionError
from layoutgen.cpu.memory import Tensor, TensorError
from layoutgen.cpu.ptx_parser import parse_ptx
from layoutgen.cpu.ptx_program import Program, PtxError, UnsupportedInstructionError
from layoutgen.cpu.sass_code import Code, UnsupportedCodeError
from layoutgen.cpu.sass_launch import launch_code
from layoutgen.cpu.source import Source
from layoutgen.cpu.tensor_core import ArithmeticUnavailableError
from layoutgen.cpu.watch import Finding

__all__ = [
    "ArithmeticUnavailableError",
    "Code",
    "ExecutionError",
    "Finding",
    "LaunchReport",
    "LineCount",
    "Program",
    "PtxError",
    "Source",
    "Tensor",
    "TensorError",
    "UnsupportedCodeError",
    "UnsupportedInstructionError",
    "launch",
    "launch_code",
    "parse_ptx",
]
