"""Figures of the library itself: start of the command line, derive + prove + emit, and the default kernel's code.

Times are wall-clock medians of this run, of whole processes where a command is named; the code's figures are ptxas's.
"""

import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import layoutgen as lg
from layoutgen.cli.leaving import leave
from layoutgen.emission import render

ROUNDS = 7


def median(job: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def command(*words: str) -> Callable[[], object]:
    """Return a job that runs a layoutgen command to its end."""
    program = str(Path(sys.executable).with_name("layoutgen"))
    return lambda: subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def derive_prove_emit() -> None:
    """One kernel from nothing; requests keep what they derived, so each round makes its own."""
    request = dataclasses.replace(lg.attention(head_dim=96).request)
    assert all(verdict.holds for verdict in request.proofs)
    render(request)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(lg.attention(head_dim=96).write(folder))
        small, large = (("run", path, "--shape", shape) for shape in ("1,1,1,100,100,96", "2,4,4,512,512,96"))
        command(*small)()  # compiles
        command(*large)()
        rows = [
            ("layoutgen --help", f"{median(command('--help')):.3f} s", "0.4 s"),
            ("derive + prove + emit, after import", f"{median(derive_prove_emit):.3f} s", "0.3 s"),
            ("run attention B,H,T,D = 1,1,100,96, PTX compiled", f"{median(command(*small)):.2f} s", "2 s"),
            ("run attention B,H,T,D = 2,4,512,96, PTX compiled", f"{median(command(*large), 1):.1f} s", "60 s"),
        ]
    compiled = lg.attention(head_dim=96).compile("sm_70")
    rows += [
        ("attention D 96, 64x32, 4 warps: HMMA STEPs", str(compiled.hmma), "384"),
        ("the same: bytes spilled", str(compiled.spill_stores + compiled.spill_loads), "0"),
        ("the same: registers a thread", str(compiled.registers), "170 at most"),
    ]
    for what, got, wanted in rows:
        print(f"{what:<50} {got:>8}   (wanted: {wanted})")


if __name__ == "__main__":
    main()
    leave(0)
