"""What a log needs of the process around it: a clock, later calls, a place for slow file work, descriptors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.log.files.open_segments import OpenSegments

Job = Callable[[], None]
Done = Callable[[OSError | None], None]


def wall_clock_ms() -> int:
    """Milliseconds since 1970, by a clock that somebody may set."""
    return time.time_ns() // 1_000_000


def run_inline(job: Job, done: Done) -> None:
    """Do the job here and now; for tools, tests, and brokers without a thread to spare."""
    try:
        job()
    except OSError as error:
        done(error)
    else:
        done(None)


def flush_inline(directory: str, job: Job, done: Done) -> None:
    """As run_inline, whatever the dir."""
    run_inline(job, done)


@dataclass(frozen=True, slots=True)
class Environment:
    """now_ms: monotonic. schedule(delay_ms, call): on the loop's thread, later.

    background(job, done): job on any thread, then done(its OSError or None) on the loop's thread.
    flush(dir, job, done): the same on threads of that log dir alone, several jobs at once.
    remove(job, done): the same on a thread for deletions, in the order of the calls. A shutdown waits for the deletion
    at hand only, so done may never be called. open_segments: those of all logs. wall_ms: since 1970.
    """

    now_ms: Callable[[], float]
    schedule: Callable[[float, Callable[[], None]], object]
    background: Callable[[Job, Done], None] = run_inline
    flush: Callable[[str, Job, Done], None] = flush_inline
    remove: Callable[[Job, Done], None] = run_inline
    open_segments: OpenSegments = field(default_factory=OpenSegments)
    wall_ms: Callable[[], int] = wall_clock_ms
