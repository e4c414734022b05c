"""The main job end to end, as a short table: derive, prove, emit, compile for sm_70, execute on the CPU."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import layoutgen as lg
from layoutgen.cli.leaving import leave
from layoutgen.execution import Launch, run_kernel
from layoutgen.toolchain import compile_kernel, read_kernel

T = TypeVar("T")

SHAPE = 1, 2, 1, 200, 170, 96


def step(name: str, job: Callable[[], T], describe: Callable[[T], str]) -> T:
    """Do one job and print one row: its name, its time, what came of it."""
    began = time.perf_counter()
    result = job()
    print(f"  {name:<8} {time.perf_counter() - began:6.2f} s   {describe(result)}", flush=True)
    return result


def main() -> int:
    print("flash attention, head dim 96, for a V100, without one")
    step(
        "derive",
        lambda: lg.derive(block_m=64, block_n=32, warps="4x1"),
        lambda t: f"{t.atom}: accumulator {list(t.accumulator.shape)} as {list(t.shape)}, k-steps of {t.unit.shape[2]}",
    )
    kernel = step(
        "prove",
        lambda: lg.attention(head_dim=96),  # a request discharges its obligations
        lambda k: f"{sum(x.holds for x in k.proofs)} of {len(k.proofs)} obligations of the kernel hold",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = step(
            "emit", lambda: kernel.write(folder), lambda p: f"{p.name}, {len(kernel.source.splitlines())} lines"
        )
        file = read_kernel(Path(path))
        compiled = step(
            "compile",
            lambda: compile_kernel(file, "sm_70"),
            lambda c: (
                f"sm_70, Triton {c.triton}: {c.registers} registers, {c.spill_stores + c.spill_loads} bytes spilled, "
                f"{c.hmma} HMMA"
            ),
        )
        result = step(
            "execute",
            lambda: run_kernel(file, Launch(SHAPE)),
            lambda r: (
                f"V100 arithmetic, B,H,Hkv,Tq,Tk,D = {','.join(map(str, SHAPE))}: "
                f"max error {r.max_abs_error:.1e} against float64, {len(r.findings) or 'no'} findings"
            ),
        )
    good = all(verdict.holds for verdict in kernel.proofs) and compiled.hmma > 0 and result.passed
    print("all of it holds" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    leave(main())
