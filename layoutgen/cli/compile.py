"""layoutgen compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from layoutgen.cli.options import json_option, launch_arrays, launch_options, print_json, read_for_compiling


@click.command(name="compile")
@click.argument("file")
@click.option("--arch", default="sm_70", show_default=True, help="Architecture to compile for.")
@launch_options
@click.option("--ptx", default=None, help="Keep the PTX in this file.")
@click.option("--sass", default=None, help="Keep the disassembly in this file.")
@click.option("--cubin", default=None, help="Keep the cubin in this file.")
@json_option
def compile_command(
    file: str, arch: str, ptx: str | None, sass: str | None, cubin: str | None, as_json: bool, **launch: Any
) -> None:
    """Compile an emitted FILE for an architecture, without a GPU: registers, spills, shared memory, HMMA."""
    from layoutgen.emission import check_writable, write_atomically
    from layoutgen.profiles import check_compiled
    from layoutgen.toolchain import compile_kernel

    outputs = {name: Path(path) for name, path in (("ptx", ptx), ("sass", sass), ("cubin", cubin)) if path}
    for path in outputs.values():
        check_writable(path)
    kernel = read_for_compiling(file)
    compiled = compile_kernel(kernel, arch, launch_arrays(kernel.request, **launch))
    for name, path in outputs.items():
        content: str | bytes = getattr(compiled, name)
        write_atomically(path, content)
    check_compiled(arch, compiled.shared_bytes, compiled.num_warps)
    result: dict[str, Any] = compiled.as_dict()
    if as_json:
        print_json(result)
        return
    click.echo(f"{compiled.kernel} for {compiled.arch}, Triton {compiled.triton}")
    spilled = compiled.spill_stores + compiled.spill_loads
    click.echo(f"  registers     {compiled.registers} a thread, {spilled} bytes spilled")
    click.echo(f"  shared memory {compiled.shared_bytes} bytes a block of {compiled.num_warps} warps")
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
    for name, path in outputs.items():
        click.echo(f"  {name:<13} {path}")
