"""Runs of emitted kernels on the CPU: inputs, execution, float64 references and bounds."""

from layoutgen.execution.call import Called, call
from layoutgen.execution.inputs import HEAD_ORDERS, KINDS, STRIDES, TRANSPOSED, Launch, place
from layoutgen.execution.run import RunResult, run_kernel

__all__ = [
    "HEAD_ORDERS",
    "KINDS",
    "STRIDES",
    "TRANSPOSED",
    "Called",
    "Launch",
    "RunResult",
    "call",
    "place",
    "run_kernel",
]
