"""Mine the fewest cycles between dependent instructions, and measure which mutations of control codes are flagged.

python tools/hazards.py            # both tables, as docs/sass_execution.md has them
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from layoutgen.sass import Program, decode
from layoutgen.sass.hazards import LATENCY, Checker, least_distances
from layoutgen.toolchain import compile_kernel, read_kernel

GENERATED = Path(__file__).parents[1] / "generated"
ARCHITECTURES = ("sm_70", "sm_75")
SAMPLES = 6


def programs() -> list[Program]:
    found = []
    for path in sorted(GENERATED.glob("*.py")):
        for arch in ARCHITECTURES:
            compiled = compile_kernel(read_kernel(path), arch)
            found.append(decode(compiled.kernel, arch, compiled.sass, compiled.cubin))
    return found


def mutants(program: Program, kind: str) -> list[tuple[int, object]]:
    """(instruction number, its control code after the mutation) of every mutation of a kind."""
    found = []
    for number, instruction in enumerate(program.instructions):
        control = instruction.control
        if kind == "a wait bit dropped":
            for dropped in control.wait:
                found.append((number, replace(control, wait=tuple(b for b in control.wait if b != dropped))))
        elif kind == "a write barrier dropped" and control.write is not None:
            found.append((number, replace(control, write=None)))
        elif kind == "a read barrier dropped" and control.read is not None:
            found.append((number, replace(control, read=None)))
        elif kind == "a stall of 2 or more set to 1" and control.stall >= 2:
            found.append((number, replace(control, stall=1)))
        elif kind == "a stall of 4 or more less 1" and control.stall >= 4:
            found.append((number, replace(control, stall=control.stall - 1)))
    return found


KINDS = (
    "a wait bit dropped",
    "a write barrier dropped",
    "a read barrier dropped",
    "a stall of 2 or more set to 1",
    "a stall of 4 or more less 1",
)


def flagged(program: Program, number: int, control: object) -> bool:
    instructions = list(program.instructions)
    instructions[number] = replace(instructions[number], control=control)
    return bool(Checker(replace(program, instructions=tuple(instructions))).hazards(LATENCY))


def main() -> None:
    random.seed(0)
    checked = programs()
    least: dict[tuple[str, str], int] = {}
    for program in checked:
        for key, cycles in least_distances(program).items():
            least[key] = min(cycles, least.get(key, cycles))
    count = sum(len(program.instructions) for program in checked)
    alarms = sum(len(Checker(program).hazards(LATENCY)) for program in checked)
    print(f"{len(checked)} kernels, {count} instructions: {alarms} flagged")
    print("\n| producer | consumer | fewest cycles | in LATENCY |\n|---|---|---|---|")
    for (producer, consumer), cycles in sorted(least.items()):
        print(f"| {producer} | {consumer} | {cycles} | {LATENCY.get((producer, consumer), '-')} |")
    print("\n| mutation | mutants | flagged |\n|---|---|---|")
    for kind in KINDS:
        chosen = []
        for program in checked:
            found = mutants(program, kind)
            chosen += [(program, *mutant) for mutant in random.sample(found, min(SAMPLES, len(found)))]
        seen = sum(flagged(*mutant) for mutant in chosen)
        print(f"| {kind} | {len(chosen)} | {100 * seen / len(chosen):.0f} % |")


if __name__ == "__main__":
    main()
