"""Runs of emitted kernels on the CPU: inputs, execution, float64 references and bounds."""

from layoutgen.execution.inputs import HEAD_ORDERS, KINDS, STRIDES, TRANSPOSED, Launch, place
from layoutgen.execution.run import RunResult, run_kernel

__all__ = ["HEAD_ORDERS", "KINDS", "STRIDES", "TRANSPOSED", "Launch", "RunResult", "place", "run_kernel"]
