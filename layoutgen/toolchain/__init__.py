"""Offline compilation through Triton, and what ptxas and nvdisasm say of the result."""

from layoutgen.toolchain.compile import Compiled, Parameter, compile_kernel, opcodes
from layoutgen.toolchain.kernel_file import KernelFile, read_kernel

__all__ = ["Compiled", "KernelFile", "Parameter", "compile_kernel", "opcodes", "read_kernel"]
