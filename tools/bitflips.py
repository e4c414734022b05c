"""Flip single bits of a kernel's machine code and count how many a run at the level sass would notice.

    python tools/bitflips.py [FLIPS] [SEED]     # the table in docs/sass_execution.md

A flip is noticed when decoding refuses it, the executor stops, anything is found, or an output bit differs from what
the unchanged code gives; the share is of those flips that change the decoded instruction at all.
The scheduling bits (105 to 125 of every instruction) say nothing about values and are
flipped apart, for the check of control codes.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from layoutgen.cpu import launch_code
from layoutgen.errors import LayoutgenError
from layoutgen.execution import Launch
from layoutgen.execution.inputs import OUTPUTS, place
from layoutgen.execution.levels import bits
from layoutgen.execution.machine_code import read_code
from layoutgen.sass import decode
from layoutgen.sass.hazards import warnings
from layoutgen.toolchain import Build, build_kernel, read_kernel
from layoutgen.toolchain.binaries import disassemble
from layoutgen.toolchain.compile import entry_parameters
from layoutgen.toolchain.elf import sections

GENERATED = Path(__file__).parents[1] / "generated"
KERNELS = {"matmul_64x64x32": (1, 70, 75, 45), "attention_d40_64x32": (1, 2, 1, 70, 45, 40)}
CONTROL_BITS = range(105, 126)
STEP_LIMIT = 20_000
"""Several times what the unchanged kernels take, so that a broken loop ends soon."""


def types_of(build: Build) -> tuple[str, ...]:
    return tuple(parameter.type for parameter in entry_parameters(build.ptx, build.kernel))


def outcome(build: Build, placed: dict, cubin: bytes, expected: list[np.ndarray] | None) -> str | list[np.ndarray]:
    """How a flip shows itself; without `expected` the outputs."""
    try:
        code = read_code(cubin, build.kernel, build.arch, types_of(build))
    except LayoutgenError:
        return "refused by the decoder"
    if expected is not None and code == read_code(build.cubin, build.kernel, build.arch, types_of(build)):
        return "decoded alike"
    tensors = {name: argument.tensor(name) for name, argument in placed.items()}
    arguments = [tensors.get(name, value) for name, value in build.arguments]
    try:
        report = launch_code(
            code, build.grid, build.num_warps, arguments, shared_bytes=build.shared_bytes, step_limit=STEP_LIMIT
        )
    except LayoutgenError:
        return "stopped the run"
    outputs = [bits(tensor.array) for name, tensor in tensors.items() if name in OUTPUTS]
    if expected is None:
        return outputs
    if not report.clean:
        return "a finding"
    same = all((a == b).all() for a, b in zip(outputs, expected, strict=True))
    return "not noticed" if same else "other bits"


def flips(build: Build, kind: str, count: int) -> list[bytes]:
    """Cubins with one bit of a random instruction before the padding flipped."""
    code = sections(build.cubin)[f".text.{build.kernel}"]
    start = build.cubin.index(code)
    text = disassemble(build.cubin, build.kernel, build.arch)
    program = decode(build.kernel, build.arch, text, build.cubin)
    used = [i.address for i in program.instructions if i.opcode != "NOP" and i.target != i.address]
    places = [n for n in range(128) if (n in CONTROL_BITS) == (kind == "control")]
    found = []
    for _ in range(count):
        bit = random.choice(places)
        changed = bytearray(build.cubin)
        changed[start + random.choice(used) + bit // 8] ^= 1 << bit % 8
        found.append(bytes(changed))
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    random.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print("| kernel | bits | flips | noticed | " + " | ".join(KINDS) + " |\n|---|---|---|---|" + "---|" * len(KINDS))
    for name, shape in KERNELS.items():
        kernel = read_kernel(GENERATED / f"{name}.py")
        placed = place(kernel.request, Launch(shape), np.random.default_rng(0))
        build = build_kernel(kernel, "sm_70", {key: argument.array for key, argument in placed.items()})
        expected = outcome(build, placed, build.cubin, None)
        assert isinstance(expected, list)
        seen = Counter(str(outcome(build, placed, cubin, expected)) for cubin in flips(build, "operation", count))
        show(name, "operation", count, seen)
        seen = Counter(flagged(build, cubin) for cubin in flips(build, "control", count))
        show(name, "control", count, seen)


KINDS = (
    "decoded alike",
    "refused by the decoder",
    "stopped the run",
    "a finding",
    "other bits",
    "control code warning",
)


def flagged(build: Build, cubin: bytes) -> str:
    changed = dataclasses.replace(build, cubin=cubin)
    try:
        text = disassemble(changed.cubin, build.kernel, build.arch)
        program = decode(build.kernel, build.arch, text, changed.cubin)
    except LayoutgenError:
        return "refused by the decoder"
    return "control code warning" if warnings(program) else "not noticed"


def show(name: str, kind: str, count: int, seen: Counter[str]) -> None:
    noticed = count - seen["not noticed"]
    print(
        f"| {name} | {kind} | {count} | {100 * noticed / count:.0f} % | "
        + " | ".join(str(seen[k]) for k in KINDS)
        + " |"
    )


if __name__ == "__main__":
    main()
