"""layoutgen compile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from layoutgen.cli.options import json_option, launch_arrays, launch_options, print_json, read_for_compiling

if TYPE_CHECKING:
    from layoutgen.toolchain import Compiled


@click.command(name="compile")
@click.argument("file")
@click.option("--arch", default="sm_70", show_default=True, help="Architecture to compile for.")
@launch_options
@click.option("--ptx", default=None, help="Keep the PTX of the first kernel shown in this file.")
@click.option("--sass", default=None, help="Keep its disassembly in this file.")
@click.option("--cubin", default=None, help="Keep its cubin in this file.")
@json_option
def compile_command(
    file: str, arch: str, ptx: str | None, sass: str | None, cubin: str | None, as_json: bool, **launch: Any
) -> None:
    """Compile an emitted FILE for an architecture, without a GPU: registers, spills, shared memory, HMMA.

    Where one call launches several kernels, all of them are shown, first the one with the product; --json has it at the
    top, and every kernel in "kernels", in the order of the launches.
    """
    from layoutgen.emission import check_writable, write_atomically
    from layoutgen.profiles import check_compiled
    from layoutgen.toolchain import compile_kernel

    outputs = {name: Path(path) for name, path in (("ptx", ptx), ("sass", sass), ("cubin", cubin)) if path}
    for path in outputs.values():
        check_writable(path)
    kernel = read_for_compiling(file)
    arrays = launch_arrays(kernel.request, **launch)
    found = {name: compile_kernel(kernel, arch, arrays, name) for name in kernel.kernels}
    main = found[kernel.kernel]
    for name, path in outputs.items():
        content: str | bytes = getattr(main, name)
        write_atomically(path, content)
    for compiled in found.values():
        check_compiled(arch, compiled.shared_bytes, compiled.num_warps)
    if as_json:
        each = [compiled.as_dict() for compiled in found.values()]
        shared = ("arch", "triton", "request")
        kernels = [{key: value for key, value in one.items() if key not in shared} for one in each]
        print_json({**main.as_dict(), "kernels": kernels})
        return
    for compiled in (main, *(compiled for name, compiled in found.items() if name != kernel.kernel)):
        _print(compiled, compiled is main)
    for name, path in outputs.items():
        click.echo(f"  {name:<13} {path}" + (f", of {main.kernel}" if len(found) > 1 else ""))


def _print(compiled: Compiled, is_main: bool) -> None:
    click.echo(f"{compiled.kernel} for {compiled.arch}, Triton {compiled.triton}")
    spilled = compiled.spill_stores + compiled.spill_loads
    click.echo(f"  registers     {compiled.registers} a thread, {spilled} bytes spilled")
    click.echo(f"  shared memory {compiled.shared_bytes} bytes a block of {compiled.num_warps} warps")
    if is_main or compiled.hmma:
        emulated = "" if compiled.hmma else ": the instruction is emulated on this architecture"
        click.echo(f"  HMMA          {compiled.hmma} instructions (STEPs){emulated}")
    click.echo(f"  parameters    {len(compiled.params)}: {' '.join(p.type for p in compiled.params)}")
    differing = [agreement for agreement in compiled.agreements if not agreement.holds]
    if compiled.agreements:
        click.echo(
            f"  PTX to SASS   {len(compiled.agreements) - len(differing)} of {len(compiled.agreements)} counts agree"
        )
    for agreement in differing:
        click.echo(f"    {agreement}")
