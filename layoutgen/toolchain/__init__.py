"""Offline compilation through Triton, and what ptxas and nvdisasm say of the result."""

from layoutgen.toolchain.compile import Build, Compiled, Parameter, build_kernel, compile_kernel, opcodes
from layoutgen.toolchain.kernel_file import KernelFile, read_kernel

__all__ = ["Build", "Compiled", "KernelFile", "Parameter", "build_kernel", "compile_kernel", "opcodes", "read_kernel"]
