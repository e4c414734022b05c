"""Compilation of an emitted kernel for a named architecture, without a GPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from layoutgen.errors import CompilationError, LayoutgenError
from layoutgen.kernels import Array
from layoutgen.toolchain.agreement import Agreement, agreements
from layoutgen.toolchain.binaries import assemble, disassemble
from layoutgen.toolchain.elf import sections
from layoutgen.toolchain.kernel_file import KernelFile

COUNTED = ("sm_70", "sm_75")
"""Architectures whose SASS can be counted against the PTX."""
ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")


@dataclass(frozen=True)
class Parameter:
    """One parameter of the PTX entry, hidden ones included, in order."""

    name: str
    type: str


@dataclass(frozen=True)
class Build:
    """What Triton made of a kernel for one architecture, specialised for one launch.

    `shared_bytes` is per block. `grid` and `arguments` are the launch: name and value of every argument that is still a
    parameter, in order; the hidden parameters follow them. An array has the name under which the host function took it.
    """

    arch: str
    triton: str
    request: Mapping[str, Any]
    kernel: str
    num_warps: int
    shared_bytes: int
    grid: tuple[int, int, int]
    arguments: tuple[tuple[str, Any], ...]
    ptx: str
    cubin: bytes


@dataclass(frozen=True)
class Compiled(Build):
    """A build and what ptxas and nvdisasm say of it.

    `registers` are per thread, spills in bytes; `hmma` counts the HMMA instructions of the whole kernel.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    hmma: int
    params: tuple[Parameter, ...]
    sass: str

    def as_dict(self) -> dict[str, Any]:
        """Return what a program could want, the texts excepted."""
        names = (
            "kernel",
            "arch",
            "triton",
            "request",
            "registers",
            "spill_stores",
            "spill_loads",
            "shared_bytes",
            "num_warps",
        )
        result = {name: getattr(self, name) for name in names}
        return result | {
            "hmma": self.hmma,
            "params": [vars(parameter) for parameter in self.params],
            "agreements": [vars(agreement) | {"holds": agreement.holds} for agreement in self.agreements],
        }

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """What ptxas kept of the PTX, by counts; empty for architectures whose SASS is counted differently."""
        return agreements(self.ptx, self.sass) if self.arch in COUNTED else ()

    def __repr__(self) -> str:
        return (
            f"<{self.kernel} for {self.arch}: {self.registers} registers, {self.spill_stores + self.spill_loads} bytes "
            f"spilled, {self.shared_bytes} bytes shared, {self.hmma} HMMA>"
        )


def build_kernel(
    file: KernelFile, arch: str, arrays: Mapping[str, Array] | None = None, kernel: str | None = None, **scalars: Any
) -> Build:
    """Let Triton compile a kernel, specialised as its binder would for a launch with these arrays.

    Without arrays the launch is the request's default one: contiguous and aligned. `kernel` is one of the file's
    kernels, by default the one that its request is about; `scalars` are the host function's other arguments. Raises
    CompilationError with what Triton said.
    """
    if arch not in ARCHITECTURES:
        raise LayoutgenError(f"arch {arch!r}: unknown; known are {', '.join(ARCHITECTURES)}")
    module = file.load()  # says so when Triton is missing
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
    from triton.runtime.jit import create_function_from_signature

    name = kernel or file.kernel
    function = getattr(module, name)
    request = file.request
    given = arrays or request.arrays(request.default_shape)
    grid, arguments = _launch(file, module, name, given, scalars)
    named = {id(array): key for key, array in given.items()}
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    backend = make_backend(target)
    bind = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, _ = bind(*arguments)
    options, signature, constants, attributes = function._pack_args(backend, file.options, bound, specialization, None)
    # The choice that the binder of a @gluon.jit function makes: without it the module lacks ttg.num-warps.
    source_class = GluonASTSource if isinstance(function, GluonJITFunction) else triton.compiler.ASTSource
    source = source_class(function, signature, constants, attributes)
    try:
        compiled = triton.compile(source, target=target, options=options.__dict__)
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CompilationError(f"{file.path}: Triton {triton.__version__} for {arch}: {reason[-1].strip()}") from error
    return Build(
        arch=arch,
        triton=triton.__version__,
        request=request.as_dict(),
        kernel=name,
        num_warps=compiled.metadata.num_warps,
        shared_bytes=compiled.metadata.shared,
        grid=grid,
        arguments=tuple(
            (named.get(id(value), key), value) for key, value in bound.items() if signature[key] != "constexpr"
        ),
        ptx=compiled.asm["ptx"],
        cubin=compiled.asm["cubin"],
    )


def _launch(
    file: KernelFile, module: ModuleType, kernel: str, arrays: Mapping[str, Array], scalars: Mapping[str, Any]
) -> tuple[tuple[int, int, int], tuple[Any, ...]]:
    """Ask the file's host function for grid and arguments. Raises LayoutgenError with what it says."""
    try:
        if kernel == file.kernel:
            grid, arguments = module.launch_arguments(**arrays, **scalars)
        else:
            function = getattr(module, kernel)
            found = module.launches(**arrays, **scalars)
            grid, arguments = next(rest for launched, *rest in found if launched is function)
        x, y, z = (int(size) for size in grid)
    except Exception as error:
        raise LayoutgenError(f"{file.path}: launch: {' '.join(str(error).split())[:300]}") from error
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in arguments):
        raise LayoutgenError(f"{file.path}: launch: a size or a stride needs more than 64 bits; take a smaller shape")
    return (x, y, z), tuple(arguments)


def compile_kernel(
    file: KernelFile, arch: str, arrays: Mapping[str, Array] | None = None, kernel: str | None = None, **scalars: Any
) -> Compiled:
    """Build one kernel of a file, and read what ptxas and nvdisasm say of it.

    Arguments are those of `build_kernel`: without `kernel` it is the one that the file's request is about.
    """
    build = build_kernel(file, arch, arrays, kernel, **scalars)
    own, resources = assemble(build.ptx, arch, tuple(str(file.options.get("ptx_options", "")).split()))
    code = f".text.{build.kernel}"
    if sections(own)[code] != sections(build.cubin)[code]:
        raise CompilationError(f"{file.path}: ptxas made other code here than for Triton; its report does not apply")
    sass = disassemble(build.cubin, build.kernel, arch)
    return Compiled(
        **vars(build),
        **vars(resources),
        hmma=opcodes(sass)["HMMA"],
        params=entry_parameters(build.ptx, build.kernel),
        sass=sass,
    )


def opcodes(sass: str) -> Counter[str]:
    """Count the instructions of a disassembly by opcode, without modifiers.

    >>> opcodes("/*0000*/ @!P0 HMMA.884.F32.F32.STEP0 R8, R2.reuse.ROW, R4.reuse.COL, R8 ;")
    Counter({'HMMA': 1})
    """
    return Counter(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", sass, re.MULTILINE))


def entry_parameters(ptx: str, kernel: str) -> tuple[Parameter, ...]:
    """Return the parameters of a PTX entry in order, hidden ones included.

    >>> entry_parameters(".visible .entry f(.param .u64 .ptr .global .align 1 p0, .param .u32 p1)", "f")
    (Parameter(name='p0', type='u64'), Parameter(name='p1', type='u32'))
    """
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\((.*?)\)", ptx, re.DOTALL)
    if entry is None:
        raise CompilationError(f"ptx: has no entry {kernel}")
    found = re.findall(r"\.param\s+\.(\w+)[^,]*?(\w+)\s*(?:,|$)", entry[1].strip())
    return tuple(Parameter(name, kind) for kind, name in found)
