"""Worker processes that may die: Triton can abort the process inside it, and that must cost one candidate only."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

Arguments = tuple[Any, ...]


class _Worker:
    """A process that executes one call at a time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(function, other), daemon=True)
        self.process.start()
        other.close()
        self.job: int | None = None

    def give(self, job: int, arguments: Arguments) -> None:
        self.job = job
        self.pipe.send(arguments)

    def stop(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


def _serve(function: Callable[..., Any], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            arguments = pipe.recv()
            try:
                answer = (True, function(*arguments))
            except Exception as error:
                answer = (False, f"{type(error).__name__}: {error}")
            pipe.send(answer)


def run_all(
    function: Callable[..., Any], jobs: Sequence[Arguments], workers: int, skip: Callable[[int], bool] = lambda _: False
) -> Iterator[tuple[int, bool, Any]]:
    """Execute jobs in worker processes; yield (number, whether it returned, what it returned or why not) as they end.

    `skip` is asked about each job just before it would start. A worker that dies fails its job, and is replaced.
    """
    left = deque(range(len(jobs)))
    crew: list[_Worker] = []

    def next_job() -> int | None:
        while left:
            job = left.popleft()
            if not skip(job):
                return job
        return None

    def occupy(worker: _Worker) -> bool:
        job = next_job()
        if job is None:
            return False
        worker.give(job, jobs[job])
        return True

    try:
        for _ in range(min(workers, len(jobs))):
            worker = _Worker(function)
            crew.append(worker)
            if not occupy(worker):
                break
        while busy := {worker.pipe: worker for worker in crew if worker.job is not None}:
            for pipe in _ready(busy):
                worker = busy[pipe]
                job, worker.job = worker.job, None
                assert job is not None
                try:
                    returned, answer = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    worker.process.join()
                    returned, answer = False, f"the process died ({_cause(worker.process.exitcode)})"
                    worker.pipe.close()
                    crew.remove(worker)
                    worker = _Worker(function)
                    crew.append(worker)
                yield job, returned, answer
                occupy(worker)
    finally:
        for worker in crew:
            worker.stop()


def _ready(pipes: Iterable[Connection]) -> list[Connection]:
    return [pipe for pipe in wait(list(pipes)) if isinstance(pipe, Connection)]


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit status {code}"
