"""The probes: what is run, what it is held to, and what was predicted of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutgen.api import Kernel
from layoutgen.atoms import atom as find_atom
from layoutgen.errors import CompilationError, LayoutgenError
from layoutgen.kernels import DESIGNS, MatmulRequest, Request
from layoutgen.kernels.request import STATISTICS_DTYPE, chosen_design
from layoutgen.probing.device import ATOM, Card, Device
from layoutgen.profiles import DEFAULT, check_feasible, load_profile, unit_of
from layoutgen.tiling import arrange
from layoutgen.toolchain import KernelFile, compile_kernel, read_kernel

Array = NDArray[Any]
SAMPLED_ROWS = 64
"""Rows of the output that are compared with float64."""

ATTENTION_TILES = ((64, 32), (128, 32), (64, 64), (128, 64), (64, 128), (32, 64))
MATMUL_TILES = (
    ((128, 128, 32), (2, 2)),
    ((64, 128, 32), (2, 2)),
    ((64, 64, 32), (2, 2)),
    ((128, 64, 32), (2, 2)),
    ((128, 256, 32), (2, 4)),
)

ATTENTION_BOUND, LSE_BOUND = 1e-3, 1e-4
"""Absolute errors for standard normal inputs."""

Report = Callable[["Row"], None]


@dataclass(frozen=True)
class Row:
    """One line of a probe's record. What does not apply is None; `note` says why a kernel did not run."""

    case: str
    max_error: float | None = None
    tflops: float | None = None
    predicted: float | None = None
    predicted_low: float | None = None
    predicted_high: float | None = None
    passed: bool = True
    note: str = ""


@dataclass(frozen=True)
class Probe:
    """A finished probe: what was asked, on which card, row by row. `predicted_for` names profile and clock."""

    kind: str
    shape: tuple[int, ...]
    card: Card
    predicted_for: str | None
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)


def probe_tile(device: Device, report: Report = lambda _: None) -> Probe:
    """Run one unit of the arrangement on integers, so that every order of summation is exact.

    Three runs: with the derived layouts every bit must be right; with two register bases exchanged it must be wrong, or
    the probe would notice nothing; and with the derived layouts again.
    """
    atom = unit_of(DEFAULT).atom.name
    m, n, k = unit_tile(atom)
    kernel = Kernel(MatmulRequest(atom, m, n, k, warps=(1, 1), out_dtype=STATISTICS_DTYPE))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (1, *shape)).astype(np.float16) for shape in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    wrong = exchange_register_bases(kernel.source)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (case, source, right) in enumerate(
            (
                ("derived layouts", kernel.source, True),
                ("register bases v0 and v1 exchanged", wrong, False),
                ("derived layouts again", kernel.source, True),
            )
        ):
            path = Path(folder) / f"tile{number}.py"
            path.write_text(source, encoding="utf-8")
            out = device.run(read_kernel(path), {"a": a, "b": b}, {"c": np.empty((1, m, n), np.float32)})["c"]
            error = float(np.abs(out.astype(np.float64) - exact).max())
            same = bool((out == exact).all())
            wanted = "bit-exact" if right else f"{int((out != exact).sum())} of {m * n} elements wrong, as they must be"
            note = wanted if same == right else ("not exact" if right else "exact, though the layouts are wrong")
            rows.append(Row(case, error, passed=same == right, note=note))
            report(rows[-1])
    return Probe("tile", (m, n, k), device.card(), None, tuple(rows))


def exchange_register_bases(source: str) -> str:
    """Exchange the first two register bases in every layout of a kernel's source.

    The layouts still agree with each other, so nothing in the compiler objects; only the instruction knows better.
    """
    pattern = r"(reg_bases=\[\n)( +\[.*?\],[^\n]*\n)( +\[.*?\],[^\n]*\n)"
    changed, count = re.subn(pattern, r"\1\3\2", source)
    if count < 2:
        raise LayoutgenError(
            f"probe tile: {count} layouts with register bases were found in the source; 4 were expected"
        )
    return changed


def probe_matmul(
    device: Device,
    size: tuple[int, int, int],
    tiles: Sequence[tuple[tuple[int, int, int], tuple[int, int]]] = MATMUL_TILES,
    design: str = "simple",
    report: Report = lambda _: None,
) -> Probe:
    """Measure C = A B for M, N, K over tiles: TFLOP/s, and the error of sampled rows against float64."""
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1, *shape), np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    chosen = rng.choice(m, min(m, SAMPLED_ROWS), replace=False)
    expected = a[0, chosen].astype(np.float64) @ b[0].astype(np.float64)
    inputs: dict[str, Array] = {"a": a, "b": b}
    outputs: dict[str, Array] = {"c": np.empty((1, m, n), np.float16)}

    # Half an ulp of fp16 for the result, and fp32 rounding of K sums.
    bound = float(np.abs(expected).max()) * (2**-11 + k * 2**-24)

    def check(result: dict[str, Array]) -> tuple[float, str]:
        error = float(np.abs(result["c"][0, chosen].astype(np.float64) - expected).max())
        return error, "" if error <= bound else f"the error exceeds {bound:.2g}"

    wanted = [
        (
            f"{design}, {'x'.join(map(str, tile))}, {warps[0]}x{warps[1]} warps",
            {"block_m": tile[0], "block_n": tile[1], "block_k": tile[2], "warps": warps},
        )
        for tile, warps in tiles
    ]
    blocks = [-(-m // tile[0]) * -(-n // tile[1]) for tile, _ in tiles]
    return _scan(
        device, "matmul", (1, m, n, k), design, wanted, inputs, outputs, check, 2.0 * m * n * k, blocks, report
    )


def probe_attention(
    device: Device,
    shape: tuple[int, int, int, int, int, int],
    tiles: Sequence[tuple[int, int]] = ATTENTION_TILES,
    design: str = "simple",
    report: Report = lambda _: None,
) -> Probe:
    """Measure attention for B, H, Hkv, Tq, Tk, D over tiles: TFLOP/s, and the error of sampled rows against float64."""
    batch, heads, kv_heads, t_q, t_k, head_dim = shape
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((batch, h, t, head_dim), np.float32).astype(np.float16)
        for h, t in ((heads, t_q), (kv_heads, t_k), (kv_heads, t_k))
    )
    chosen = rng.choice(t_q, min(t_q, SAMPLED_ROWS), replace=False)
    scale = np.float32(head_dim**-0.5)
    rounded = (q[:, :, chosen].astype(np.float32) * scale).astype(np.float16).astype(np.float64)  # as the kernel does
    keys, values = (np.repeat(x.astype(np.float64), heads // kv_heads, axis=1) for x in (k, v))
    scores = rounded @ keys.swapaxes(-1, -2)
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    expected, lse = weights @ values / total, (largest + np.log(total))[..., 0]
    outputs: dict[str, Array] = {"out": np.empty(q.shape, np.float16), "lse": np.empty(q.shape[:-1], np.float32)}

    def check(result: dict[str, Array]) -> tuple[float, str]:
        error = float(np.abs(result["out"][:, :, chosen].astype(np.float64) - expected).max())
        lse_error = float(np.abs(result["lse"][:, :, chosen].astype(np.float64) - lse).max())
        if not error <= ATTENTION_BOUND:
            return error, f"the error exceeds {ATTENTION_BOUND:.2g}"
        return error, "" if lse_error <= LSE_BOUND else f"LSE is off by {lse_error:.2g}"

    wanted = [
        (
            f"{design}, D={head_dim} {tile[0]}x{tile[1]}",
            {"head_dim": head_dim, "block_m": tile[0], "block_n": tile[1]},
        )
        for tile in tiles
    ]
    flop = 4.0 * batch * heads * t_q * t_k * head_dim
    blocks = [-(-t_q // tile[0]) * heads * batch for tile in tiles]
    inputs: dict[str, Array] = {"q": q, "k": k, "v": v}
    return _scan(device, "attention", shape, design, wanted, inputs, outputs, check, flop, blocks, report)


def _scan(
    device: Device,
    kind: str,
    shape: tuple[int, ...],
    design: str,
    wanted: Sequence[tuple[str, dict[str, Any]]],
    inputs: dict[str, Array],
    outputs: dict[str, Array],
    check: Callable[[dict[str, Array]], tuple[float, str]],
    flop: float,
    blocks: Sequence[int],
    report: Report,
) -> Probe:
    """Run, check and time each kernel; then predict it, at the clock that was seen if the card has the instruction."""
    measured: list[tuple[KernelFile | None, Row]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (case, options) in enumerate(wanted):
            try:
                path = _kernel(kind, design, options).write(Path(folder) / f"kernel{number}.py")
                file = read_kernel(path)
                error, wrong = check(device.run(file, inputs, outputs))
                seconds = device.time(file, inputs, outputs)
            except LayoutgenError as problem:
                failed = isinstance(problem, CompilationError)
                note = f"{'failed' if failed else 'refused'}: {problem}"
                measured.append((None, Row(case, passed=not failed, note=note)))
            except Exception as problem:  # what does not compile or launch on this card is a row, not the end
                lines = str(problem).strip().splitlines() or [type(problem).__name__]
                measured.append((None, Row(case, passed=False, note=lines[0])))
            else:
                row = Row(case, error, flop / seconds / 1e12, passed=not wrong, note=wrong)
                measured.append((file, row))
            report(measured[-1][1])
        card = device.card()
        arch = card.arch if not card.emulated else ATOM.native[0]
        clock = card.clock_mhz if not card.emulated else None
        rows: list[Row] = []
        used: str | None = None
        for (ran, row), count in zip(measured, blocks, strict=True):
            if ran is not None:
                predicted, profile = _predicted(row, ran, arch, clock, count)
                used = used or profile
                rows.append(predicted)
            else:
                rows.append(row)
    return Probe(kind, shape, card, used, tuple(rows))


def _kernel(family: str, design: str, options: dict[str, Any]) -> Kernel:
    make: Callable[..., Request] = chosen_design(family, DESIGNS[family], design, options)
    request = make(atom=unit_of(DEFAULT).atom.name, **options)
    check_feasible(request, load_profile(DEFAULT))
    return Kernel(request)


def unit_tile(name: str) -> tuple[int, int, int]:
    """Return rows, columns and k of what one instruction of one warp computes.

    >>> unit_tile("m8n8k4")
    (16, 16, 4)
    """
    return arrange(find_atom(name)).shape


def _predicted(row: Row, file: KernelFile, arch: str, clock: int | None, blocks: int) -> tuple[Row, str | None]:
    from layoutgen.sass.inspection import inspect

    try:
        found = inspect(file, compile_kernel(file, arch))
        one = found.predict(clock, blocks)
    except LayoutgenError as error:
        return replace(row, note=row.note or f"no prediction: {error}"), None
    used = f"{found.profile.name} ({arch}) at {one.clock_mhz} MHz"
    return replace(row, predicted=one.mean, predicted_low=one.low, predicted_high=one.high), used
