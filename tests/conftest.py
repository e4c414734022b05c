"""Settings of all tests, and the log of the sweep."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.sweep_log import SweepLog

# Cores may be shared with anything: a slow example is no failure. The examples are the same in every run, so that a
# failure is the change's; the sweep draws new ones.
settings.register_profile("layoutgen", deadline=None, derandomize="LAYOUTGEN_SWEEP" not in os.environ)
settings.load_profile("layoutgen")

LOG = pytest.StashKey[SweepLog]()


def pytest_configure(config: pytest.Config) -> None:
    """With LAYOUTGEN_SWEEP=FILE, as `make sweep` has it, the session continues the sweep of that log."""
    if path := os.environ.get("LAYOUTGEN_SWEEP"):
        from layoutgen.tuning.cache import code_digest

        config.stash[LOG] = SweepLog(Path(path), code_digest(()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if log := config.stash.get(LOG, None):
        done = [item for item in items if item.nodeid in log.done]
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item not in done]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    outcome = yield
    log = item.config.stash.get(LOG, None)
    if log and call.when == "call" and outcome.get_result().passed:  # type: ignore[attr-defined]
        log.passed(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if log := session.config.stash.get(LOG, None):
        log.write_records()


@pytest.fixture(scope="session")
def record_sweep(request: pytest.FixtureRequest) -> Callable:
    """(family, result) -> the run counts in the record of the family, if a sweep is logged and the test passes."""
    log = request.config.stash.get(LOG, None)

    def record(family, result):
        if log:
            test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
            log.result(test, family, result.bound_share)

    return record


@pytest.fixture(scope="session")
def part(request: pytest.FixtureRequest) -> int:
    """Which part of a sweep a test is; see tests.sweep_log.in_parts."""
    return request.param
