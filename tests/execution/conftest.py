"""The record of a sweep, kept in docs/measurements."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "sweep_execution.md"


@pytest.fixture(scope="session")
def record_sweep() -> Iterator[Callable]:
    """Count the runs of each family and the largest share of its bound that an error took; write them at the end."""
    runs: dict[str, list[float]] = {}
    yield lambda family, result: runs.setdefault(family, []).append(result.bound_share)
    import triton

    lines = [
        "# Sweep of emitted kernels on the CPU",
        "",
        f"`make sweep`, {datetime.date.today()}, Triton {triton.__version__}: random requests, shapes, strides,",
        "orders, inputs and alignments, executed from PTX in V100 arithmetic with every access watched. A run that",
        "finds anything, or that exceeds the error bound, fails the sweep.",
        "",
        "| family | runs | largest share of the error bound |",
        "|---|---|---|",
        *(f"| {family} | {len(shares)} | {max(shares):.3f} |" for family, shares in sorted(runs.items())),
    ]
    RECORD.write_text("\n".join(lines) + "\n")
