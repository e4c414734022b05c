"""The record of a sweep, kept in docs/measurements."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RECORDS = Path(__file__).parents[2] / "docs" / "measurements"


@pytest.fixture(scope="session")
def record_sweep() -> Iterator[Callable]:
    """Count the runs of each family and the largest share of its bound that an error took; write them at the end."""
    runs: dict[str, list[float]] = {}
    yield lambda family, result: runs.setdefault(family, []).append(result.bound_share)
    import triton

    for family, shares in runs.items():
        lines = [
            f"# Sweep of emitted {family} kernels on the CPU",
            "",
            f"`make sweep`, {datetime.date.today()}, Triton {triton.__version__}: random requests, shapes, strides,",
            "orders, inputs and alignments, executed from PTX in V100 arithmetic with every access watched. A run that",
            "finds anything, or that exceeds the error bound, fails the sweep.",
            "",
            f"{len(shares)} runs; the largest share of its error bound that an error took: {max(shares):.3f}.",
        ]
        (RECORDS / f"sweep_{family}.md").write_text("\n".join(lines) + "\n")
