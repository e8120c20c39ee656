"""Which job is due next, on how many lanes, and whether it still fits the night.

Pure. Decides order, retries and the time budget. Must not know how a job is carried out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from harness.nightly.jobs import Job, Result
from harness.runs.trouble import INFRASTRUCTURE, SIGNAL

LANE_CORES = 2
"""Cores for one run at a time: its brokers and its checkers keep two busy."""


def lanes_of(cores: int) -> int:
    """How many runs at a time a machine bears."""
    return max(1, cores // LANE_CORES)


@dataclass(slots=True)
class Schedule:
    """What is left of a night. results: of jobs that are done, by key. left_s: seconds until the night must have ended;
    None without a limit.

    expected_s: how long a job takes as far as is known. retries: how often a job is tried again whose nodes failed.
    """

    jobs: Iterable[Job]
    results: dict[str, Result]
    retries: int
    left_s: Callable[[], float | None]
    expected_s: Callable[[Job], float | None]
    _queue: deque[Job] = field(init=False)
    _tries: dict[str, int] = field(init=False, default_factory=dict)
    not_run: list[Job] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._queue = deque(job for job in self.jobs if not is_done(self.results.get(job.key)))

    def next(self) -> Job | None:
        """The next job that still fits; None: none does. What does not fit counts as not run."""
        while self._queue:
            job = self._queue.popleft()
            left_s, expected_s = self.left_s(), self.expected_s(job)
            if left_s is None or left_s > (expected_s or 0.0):
                return job
            self.not_run.append(job)
        return None

    def done(self, job: Job, result: Result) -> bool:
        """Take a result in; returns whether the job will be tried again, behind the others."""
        self.results[job.key] = result
        tries = self._tries[job.key] = self._tries.get(job.key, 0) + 1
        again = result.trouble == INFRASTRUCTURE and tries <= self.retries
        if again:
            self._queue.append(job)
        return again

    def broken_off(self, job: Job, result: Result) -> None:
        """Take in a result of after `give_up`: what a signal ended was not run."""
        if result.trouble == SIGNAL:
            self.not_run.append(job)
        else:
            self.results[job.key] = result

    def give_up(self) -> None:
        """Start nothing more."""
        self.not_run.extend(self._queue)
        self._queue.clear()


def is_done(result: Result | None) -> bool:
    """Whether a job needs no other run: it came to a verdict."""
    return result is not None and result.judged


def all_done(jobs: Iterable[Job], results: Mapping[str, Result]) -> bool:
    """Whether there are jobs, and none is due."""
    jobs = list(jobs)
    return bool(jobs) and all(is_done(results.get(job.key)) for job in jobs)
