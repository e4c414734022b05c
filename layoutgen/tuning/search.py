"""The search itself: prune, evaluate in parallel, rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from layoutgen.errors import LayoutgenError
from layoutgen.tuning.cache import Cache
from layoutgen.tuning.candidates import Candidate
from layoutgen.tuning.evaluate import evaluate
from layoutgen.tuning.pool import run_all

Report = Callable[["Outcome", int, int], None]
"""Called with an outcome, how many are done, and how many there are."""


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate: "predicted", "failed", or "pruned"; `cached` when it was known already."""

    candidate: Candidate
    status: str
    result: dict[str, Any]
    cached: bool = False

    @property
    def tflops(self) -> float:
        return float(self.result.get("tflops", 0.0))


@dataclass(frozen=True)
class Tuned:
    """The outcomes of a search, best prediction first; then the failed and the pruned."""

    outcomes: tuple[Outcome, ...]

    @property
    def best(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.status == "predicted")

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)


def tune(
    candidates: Sequence[Candidate],
    cache: Cache,
    *,
    keep: int = 5,
    workers: int | None = None,
    scheduler: str | None = None,
    report: Report = lambda _outcome, _done, _all: None,
) -> Tuned:
    """Evaluate candidates, best bound first, and rank them by prediction.

    A candidate whose bound lies below the `keep` best predictions so far cannot be among the best, and is pruned. Each
    result is in the cache before the next is waited for: an interrupted search goes on where it was. `scheduler` is the
    address of a Dask cluster that evaluates instead of `workers` processes here (default: one per core).
    """
    done: dict[int, Outcome] = {}
    total = len(candidates)

    def threshold() -> float:
        best = sorted((o.tflops for o in done.values() if o.status == "predicted"), reverse=True)
        return best[keep - 1] if len(best) >= keep else 0.0

    def note(number: int, outcome: Outcome) -> None:
        done[number] = outcome
        report(outcome, len(done), total)

    for number, candidate in enumerate(candidates):
        known = cache.get(candidate.request)
        if known is not None:
            note(number, Outcome(candidate, known["status"], known, cached=True))

    def hopeless(number: int) -> bool:
        if candidates[number].bound >= threshold():
            return False
        note(number, Outcome(candidates[number], "pruned", {"bound_tflops": candidates[number].bound}))
        return True

    left = [number for number in range(total) if number not in done]
    jobs = [(candidates[n].request.as_dict(), cache.arch, cache.profile, cache.clock_mhz) for n in left]
    count = workers or os.cpu_count() or 1
    runner = _dask(scheduler) if scheduler else run_all
    for position, returned, answer in runner(evaluate, jobs, count, lambda position: hopeless(left[position])):
        candidate = candidates[left[position]]
        result = answer if returned else {"status": "failed", "request": candidate.request.as_dict(), "reason": answer}
        cache.put(candidate.request, result)
        note(left[position], Outcome(candidate, result["status"], result))
    ranks = {"predicted": 0, "failed": 1, "pruned": 2}
    ordered = sorted(done.items(), key=lambda item: (ranks[item[1].status], -item[1].tflops, item[0]))
    return Tuned(tuple(outcome for _, outcome in ordered))


def _dask(address: str) -> Callable[..., Iterator[tuple[int, bool, Any]]]:
    """Return a runner that hands the jobs to a Dask cluster, as many at a time as it has threads."""
    try:
        dask: Any = import_module("distributed")
    except ImportError as error:
        raise LayoutgenError("tune --scheduler: needs Dask; install layoutgen[dask]") from error

    def run(
        function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], _workers: int, skip: Callable[[int], bool]
    ) -> Iterator[tuple[int, bool, Any]]:
        try:
            client = dask.Client(address, timeout="10s")
        except (OSError, ValueError) as error:
            raise LayoutgenError(f"tune --scheduler {address}: no Dask scheduler answers there") from error
        with client:
            room = max(1, sum(client.nthreads().values()))
            waiting = iter(range(len(jobs)))
            numbers: dict[Any, int] = {}

            def submit() -> Any:
                for number in waiting:
                    if not skip(number):
                        future = client.submit(function, *jobs[number], pure=False)
                        numbers[future.key] = number
                        return future
                return None

            first = [future for future in (submit() for _ in range(room)) if future is not None]
            running = dask.as_completed(first)
            for future in running:
                problem = future.exception()
                answer = future.result() if problem is None else f"{type(problem).__name__}: {problem}"
                yield numbers.pop(future.key), problem is None, answer
                following = submit()
                if following is not None:
                    running.add(following)

    return run
