"""What a sweep has done, in a file: so that it can be stopped and go on, and its records say all of it.

The sweep takes hours. Each line of the log is a value in JSON: the code that was swept, a test that passed, or the
result of one run. A test that passed is not run again while the code is the same. When a session ends, the records in
docs/measurements are written from all results of tests that passed.
"""

from __future__ import annotations

import datetime
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

MOST = "LAYOUTGEN_SWEEP_EXAMPLES"
"""The variable that holds how many random examples a test of the sweep takes at most, where time is short."""
RECORDS = Path(__file__).parents[1] / "docs" / "measurements"


def in_parts(test: Any) -> Any:
    """Make of a test of random examples a sweep of twenty, each with its own: of a sweep that stops little is lost."""
    for mark in (
        pytest.mark.parametrize("part", range(20), indirect=True),
        pytest.mark.usefixtures("part"),
        pytest.mark.sweep,
    ):
        test = mark(test)
    return test


def examples(count: int) -> int:
    """Return how many random examples a test of the sweep takes that has time for `count`."""
    return min(count, int(os.environ.get(MOST, count)))


class SweepLog:
    """The log of a sweep of one state of the code; what another state left in the file is dropped.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log"
    >>> log = SweepLog(path, "one")
    >>> log.result("a test", "matmul", 0.5)
    >>> log.passed("a test")
    >>> SweepLog(path, "one").done, SweepLog(path, "another").done
    ({'a test'}, set())
    """

    def __init__(self, path: Path, code: str) -> None:
        self.path = path
        lines: list[dict[str, Any]] = []
        if path.exists():
            # The last line is cut short where a session was killed.
            whole = path.read_text().rpartition("\n")[0]
            lines = [json.loads(line) for line in whole.splitlines()]
        if lines[:1] != [{"code": code}]:
            lines = [{"code": code}]
        self.lines = lines
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    @property
    def done(self) -> set[str]:
        return {line["passed"] for line in self.lines if "passed" in line}

    def passed(self, test: str) -> None:
        self._add({"passed": test})

    def result(self, test: str, family: str, share: float) -> None:
        self._add({"test": test, "family": family, "share": share})

    def _add(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def records(self) -> dict[str, str]:
        """Return the text of the record of each family, from the tests that passed."""
        import triton

        shares: dict[str, list[float]] = {}
        tests: dict[str, Counter[str]] = {}
        most = f", at most {os.environ[MOST]} random examples each" if MOST in os.environ else ""
        for line in self.lines:
            if line.get("test") in self.done:
                shares.setdefault(line["family"], []).append(line["share"])
                tests.setdefault(line["family"], Counter())[line["test"].split("/")[-1]] += 1
        return {
            family: "\n".join(
                [
                    f"# Sweep of emitted {family.replace('_', ', ')} kernels on the CPU",
                    "",
                    f"`make sweep`, {datetime.date.today()}, Triton {triton.__version__}: random requests, shapes,",
                    "strides, orders, inputs and alignments, executed from PTX in V100 arithmetic with every access",
                    "watched. A run that finds anything, or that exceeds the error bound, fails the sweep.",
                    "",
                    f"{len(found)} runs; the largest share of its error bound that an error took: {max(found):.3f}.",
                    "",
                    f"Code {self.lines[0]['code'][:12]} (`layoutgen.tuning.cache.code_digest(())`).",
                    f"These parts ran and passed{most}:",
                    "",
                    *(f"- `{test}`: {count}" for test, count in sorted(tests[family].items())),
                ]
            )
            + "\n"
            for family, found in shares.items()
        }

    def write_records(self, folder: Path = RECORDS) -> None:
        for family, text in self.records().items():
            (folder / f"sweep_{family}.md").write_text(text)
