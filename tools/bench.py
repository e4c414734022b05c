"""Figures of the library itself: start of the command line, derive + prove + emit, and the default kernel's code.

Times are wall-clock medians on the machine at hand; the code's figures are ptxas's.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import layoutgen as lg
from layoutgen.cli.leaving import leave
from layoutgen.emission import render
from layoutgen.kernels import AttentionRequest

ROUNDS = 7


def median(job: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def start_command_line() -> None:
    command = Path(sys.executable).with_name("layoutgen")
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)


def derive_prove_emit() -> None:
    """One kernel from nothing; requests keep what they derived, so each round makes its own."""
    request = AttentionRequest(head_dim=96, atom="m8n8k4", block_m=64, block_n=32)
    assert all(verdict.holds for verdict in request.proofs)
    render(request)


def main() -> None:
    rows = [
        ("layoutgen --help", f"{median(start_command_line):.3f} s", "0.4 s"),
        ("derive + prove + emit, after import", f"{median(derive_prove_emit):.3f} s", "0.3 s"),
    ]
    compiled = lg.attention(head_dim=96).compile("sm_70")
    rows += [
        ("attention D 96, 64x32, 4 warps: HMMA STEPs", str(compiled.hmma), "384"),
        ("the same: bytes spilled", str(compiled.spill_stores + compiled.spill_loads), "0"),
        ("the same: registers a thread", str(compiled.registers), "170 at most"),
    ]
    for what, got, wanted in rows:
        print(f"{what:<46} {got:>8}   (wanted: {wanted})")


if __name__ == "__main__":
    main()
    leave(0)
