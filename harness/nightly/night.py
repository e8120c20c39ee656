"""One night: carries its jobs out on some lanes, and leaves results, pages and files for CI systems.

Decides what belongs to a night that was broken off and what begins a new one. Must not know how a run works. Invariant:
a result is in the history before the next job of its lane begins, so a call that was killed goes on with `resume` where
it stopped; a run that crashed is tried again on the next resume.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.nightly import outputs
from harness.nightly.history import NightHistory, NightRow, open_history
from harness.nightly.jobs import Job, Result, effective, fault_gaps, worst
from harness.nightly.retention import Keep, remove_old
from harness.nightly.runner import Runner
from harness.nightly.schedule import Schedule, all_done, is_done
from harness.nightly.shrinking import Smallest, shrink_failed
from harness.nightly.sources import Due
from harness.runs.analysis import CRASH, INVALID
from harness.runs.trouble import LAB, SIGNAL

FRESH_FROM = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """minutes: until the night must have ended; None for no limit. lanes: runs at a time. retries: of a job whose nodes
    failed. keep: which folders of good runs stay. webhook: where the outcome is posted.
    """

    seeds: int
    resume: bool = False
    fresh_seeds: bool = False
    minutes: float | None = None
    lanes: int = 1
    retries: int = 1
    keep: Keep = field(default_factory=Keep)
    webhook: str | None = None
    shrink_minutes: float = 0.0
    """How long runs that failed are shrunk, all together; 0: not at all."""


def run_night(
    due: Due,
    out: Path,
    settings: Settings,
    runner: Runner,
    *,
    say: Callable[[str], None] = print,
    clock_s: Callable[[], float] = time.monotonic,
) -> int:
    """Run what is due; returns the exit code of the worst. Ctrl-C ends the runs under way in order, and is raised again
    once what was done is kept and shown.
    """
    out.mkdir(parents=True, exist_ok=True)
    with open_history(out) as history:
        night, jobs, done = _night_of(due, settings, history)
        for job in jobs:
            if is_done(known := done.get(job.key)) and known is not None:
                say(f"{job.name} seed {job.seed}: {known.verdict()} (done before)")
        began_s = clock_s()
        limit_s = None if settings.minutes is None else settings.minutes * 60
        schedule = Schedule(
            jobs,
            done,
            settings.retries,
            lambda: None if limit_s is None else limit_s - (clock_s() - began_s),
            lambda job: history.longest_s(job.name),
        )
        lanes = _Lanes(schedule, runner, out, settings.lanes, len(jobs))
        interrupted: KeyboardInterrupt | None = None
        try:
            lanes.run(lambda job, result: _keep(history, night, job, result), say)
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
        smallest: list[Smallest] = []
        if interrupted is None and settings.shrink_minutes:
            try:
                smallest = _shrink(done, jobs, out, settings.shrink_minutes, runner, say, clock_s)
            except KeyboardInterrupt as interrupt:
                runner.end()
                interrupted = interrupt
        results = {job: done[job.key] for job in jobs if job.key in done}
        uncovered = fault_gaps(results)
        code = worst(results, uncovered)
        history.end_night(night.id, code, len(schedule.not_run))
        for text in remove_old(history, settings.keep, out):
            say(text)
        outputs.write(out, history, history.night(night.id), results, schedule.not_run, uncovered, smallest, say)
    if interrupted is not None:
        raise interrupted
    if settings.webhook is not None:
        outputs.post(settings.webhook, out, say)
    return code


def _night_of(due: Due, settings: Settings, history: NightHistory) -> tuple[NightRow, list[Job], dict[str, Result]]:
    """The night, its jobs, and what is known of them by key.

    With `resume` the last night is gone on with, unless nothing of it is left; it keeps the seeds that it began with.
    """
    earlier = history.nights(due.night.name)
    if settings.resume and earlier:
        last = earlier[-1]
        jobs = due.jobs(last.first_seed, settings.seeds)
        done = {row.key: row.result for row in history.of_night(last.id)}
        if not all_done(jobs, done):
            return last, jobs, done
    first_seed = FRESH_FROM
    if settings.fresh_seeds and earlier:
        first_seed = max(night.first_seed + night.seeds for night in earlier)
    return history.begin_night(due.night.name, first_seed, settings.seeds), due.jobs(first_seed, settings.seeds), {}


def _shrink(
    done: Mapping[str, Result],
    jobs: Sequence[Job],
    out: Path,
    minutes: float,
    runner: Runner,
    say: Callable[[str], None],
    clock_s: Callable[[], float],
) -> list[Smallest]:
    until_s = clock_s() + minutes * 60
    failed = [(job, done[job.key]) for job in jobs if job.key in done]
    failed = [(job, result) for job, result in failed if effective(job, result) == INVALID]
    return shrink_failed(failed, out, runner, lambda: clock_s() < until_s, say)


def _keep(history: NightHistory, night: NightRow, job: Job, result: Result) -> None:
    # A run that a signal ended says nothing, and is due again.
    if result.trouble != SIGNAL:
        history.record(night.id, job, result)


class _Lanes:
    """Jobs side by side, each lane on a thread; results are taken in on the caller's."""

    def __init__(self, schedule: Schedule, runner: Runner, out: Path, lanes: int, jobs: int) -> None:
        self._schedule = schedule
        self._runner = runner
        self._out = out
        self._lanes = lanes
        self._jobs = jobs
        self._ended: queue.SimpleQueue[tuple[Job, Result | BaseException]] = queue.SimpleQueue()

    def run(self, keep: Callable[[Job, Result], None], say: Callable[[str], None]) -> None:
        """Until nothing is due. Raises KeyboardInterrupt after the runs under way have ended."""
        running = 0
        try:
            while True:
                while running < self._lanes and (job := self._schedule.next()) is not None:
                    threading.Thread(target=self._carry_out, args=(job,), name=job.name, daemon=True).start()
                    running += 1
                if not running:
                    return
                job, result = self._take()
                running -= 1
                if isinstance(result, BaseException):
                    raise result
                keep(job, result)
                self._say(job, result, say)
        except BaseException:
            self._schedule.give_up()
            self._runner.end()
            for _ in range(running):
                job, result = self._take()
                if not isinstance(result, BaseException):
                    keep(job, result)
                    self._schedule.broken_off(job, result)
            raise

    def _say(self, job: Job, result: Result, say: Callable[[str], None]) -> None:
        again = self._schedule.done(job, result)
        done = sum(is_done(one) for one in self._schedule.results.values())
        text = f"[{done}/{self._jobs}] {job.name} seed {job.seed}: {result.verdict()} in {result.seconds:.0f} s"
        if result.trouble is not None:
            text += f" ({result.trouble}: {result.sentence}){'; to be tried again' if again else ''}"
        say(text)

    def _take(self) -> tuple[Job, Result | BaseException]:
        while True:
            try:
                # In steps: a wait without an end would hold signals back.
                return self._ended.get(timeout=1.0)
            except queue.Empty:
                continue

    def _carry_out(self, job: Job) -> None:
        try:
            self._ended.put((job, self._runner(job, self._out)))
        except Exception as error:
            self._ended.put((job, Result(CRASH, 0.0, f"{type(error).__name__}: {error}", None, trouble=LAB)))
        except BaseException as error:
            # Raised again where results are taken in: whoever waits there must not wait for ever.
            self._ended.put((job, error))
