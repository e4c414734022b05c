"""The log of a sweep: what passed is not run again, and records speak of tests that passed."""

import os
import subprocess
import sys
from pathlib import Path

from layoutgen.tuning.cache import code_digest
from tests.sweep_log import SweepLog

ROOT = Path(__file__).parents[1]


def test_a_log_that_was_cut_short_goes_on(tmp_path):
    path = tmp_path / "log"
    log = SweepLog(path, "code")
    log.result("first", "matmul", 0.25)
    log.result("first", "matmul", 0.5)
    log.passed("first")
    log.result("second", "matmul", 0.75)
    with path.open("a") as file:
        file.write('{"passed": "sec')
    again = SweepLog(path, "code")
    assert again.done == {"first"}
    (text,) = again.records().values()
    assert "2 runs; the largest share of its error bound that an error took: 0.500." in text
    again.passed("second")
    again.write_records(tmp_path)
    assert "3 runs; " in (tmp_path / "sweep_matmul.md").read_text()


def test_other_code_starts_anew(tmp_path):
    SweepLog(tmp_path / "log", "code").passed("first")
    assert SweepLog(tmp_path / "log", "changed").done == set()


def test_what_passed_is_not_run_again(tmp_path):
    log, file, test = tmp_path / "log", "tests/proofs/test_catalogue.py", "test_the_whole_grid_is_proved"
    words = [sys.executable, "-m", "pytest", "-m", "sweep", file, "-p", "no:cacheprovider", "--collect-only"]

    def collected():
        told = os.environ | {"LAYOUTGEN_SWEEP": str(log)}
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=told, check=False).stdout

    assert f"{file}::{test}" in collected()
    SweepLog(log, code_digest(())).passed(f"{file}::{test}")
    assert test not in collected()
