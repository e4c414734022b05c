"""ptxas and nvdisasm, as Triton's wheel carries them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from layoutgen.errors import CompilationError
from layoutgen.toolchain.elf import sections


@dataclass(frozen=True)
class Resources:
    """What `ptxas -v` reports for one kernel: registers a thread, and bytes spilled by stores and loads."""

    registers: int
    spill_stores: int
    spill_loads: int


def tool(name: str) -> str:
    """Return the path of a tool of Triton's wheel."""
    from triton import knobs

    return str(getattr(knobs.nvidia, name).path)


def _ptxas(arch: str) -> str:
    """Return the ptxas that Triton takes for an architecture: its wheel carries an older and a newer one."""
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(int(arch.removeprefix("sm_"))).path)


def _target(arch: str) -> str:
    """Return the name under which Triton compiles for an architecture: sm_90a for sm_90."""
    from triton.backends.nvidia.compiler import sm_arch_from_capability

    return str(sm_arch_from_capability(int(arch.removeprefix("sm_"))))


def run_tool(arguments: list[str]) -> str:
    """Run a tool; return what it printed on both streams, or raise CompilationError with that."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilationError(f"{Path(arguments[0]).name}: {(done.stderr or done.stdout).strip()}")
    return done.stdout + done.stderr


def assemble(ptx: str, arch: str, flags: tuple[str, ...] = ()) -> tuple[bytes, Resources]:
    """Assemble PTX; return the cubin and what ptxas reports of it."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        report = run_tool(
            [_ptxas(arch), "-v", "-lineinfo", f"-arch={_target(arch)}", *flags, str(source), "-o", str(target)]
        )
        return target.read_bytes(), parse_report(report)


def parse_report(report: str) -> Resources:
    """Read the output of `ptxas -v` for a file with one kernel.

    >>> parse_report("8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\\nUsed 96 registers")
    Resources(registers=96, spill_stores=4, spill_loads=12)
    """
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    if registers is None or spills is None:
        raise CompilationError(f"ptxas: its report names no registers or spills: {report.strip()!r}")
    return Resources(int(registers[1]), int(spills[1]), int(spills[2]))


def disassemble(cubin: bytes, kernel: str, arch: str) -> str:
    """Return the SASS of one kernel.

    nvdisasm from 13.0 on refuses ELF files for sm_70 but decodes their code as SM75: compared with nvdisasm 12.8 over
    26 cubins, only the way branch targets print differed.
    """
    code = sections(cubin).get(f".text.{kernel}")
    if code is None:
        raise CompilationError(f"cubin: holds no code for {kernel}")
    decoded_as = "SM75" if arch in ("sm_70", "sm_72") else arch.upper().replace("_", "")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "kernel.bin"
        raw.write_bytes(code)
        return run_tool([tool("nvdisasm"), "-b", decoded_as, str(raw)])
