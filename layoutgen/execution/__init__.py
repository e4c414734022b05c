"""Runs of emitted kernels on the CPU: inputs, execution, float64 references and bounds."""

from layoutgen.execution.inputs import HEAD_ORDERS, KINDS, STRIDES, TRANSPOSED, Launch
from layoutgen.execution.run import RunResult, run_kernel

__all__ = ["HEAD_ORDERS", "KINDS", "STRIDES", "TRANSPOSED", "Launch", "RunResult", "run_kernel"]
