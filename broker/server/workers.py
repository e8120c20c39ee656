"""File work off the loop's thread: a thread for slow work, in order, one for deletions, several per log dir for
flushes.

Threads that a start needs are there once it is done. Further ones, started as load rises, are optional: on a host that
gives no more (pids.max, RLIMIT_NPROC) flushes are slower, and nothing fails.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from broker.log.environment import Done, Job

_log = logging.getLogger("broker")

_FLUSH_THREADS_PER_DIR: Final = 8


class WorkerLoop(Protocol):
    """What the workers need of the loop."""

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Run the callback on the loop's thread; any thread."""
        ...


def run_job(loop: WorkerLoop, job: Job, done: Done) -> None:
    """Runs on a worker's thread; `done` is called on the loop."""
    try:
        job()
    except OSError as error:
        loop.call_soon_threadsafe(partial(done, error))
    else:
        loop.call_soon_threadsafe(partial(done, None))


class Threads:
    """Threads that share a queue: one from the beginning, others when all are busy. Loop thread, but for `_run`."""

    def __init__(self, name: str, threads_max: int) -> None:
        """Raises OSError where not even one thread is to be had."""
        self._name = name
        self._max = threads_max
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._short = False
        self._closed = False
        try:
            self._start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, f"no thread for {name} can be started: {error}") from error

    def submit(self, job: Callable[[], None]) -> None:
        """Run it on one of the threads. What it raises is logged. Not after `close`."""
        assert not self._closed
        with self._lock:
            self._unfinished += 1
            busy = self._unfinished > len(self._threads)
        self._jobs.put(job)
        if busy and len(self._threads) < self._max:
            try:
                self._start()
                self._short = False
            except RuntimeError as error:
                if not self._short:
                    _log.warning("%s: %d threads of %d: %s", self._name, len(self._threads), self._max, error)
                self._short = True

    def close(self, drop: bool = False) -> None:
        """Wait for all submitted jobs; drop: only for those that run, the others are dropped. Idempotent."""
        self._closed = True
        while drop and not self._jobs.empty():
            with suppress(queue.Empty):
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                _log.exception("a job of %s failed", self._name)
            with self._lock:
                self._unfinished -= 1


class FileWorker:
    """File work off the loop, in the order of the calls; `done` is called on the loop."""

    def __init__(self, loop: WorkerLoop, name: str = "log-files") -> None:
        """Raises OSError."""
        self._loop = loop
        self._threads = Threads(name, 1)

    def run(self, job: Job, done: Done) -> None:
        """Queue a job; done gets None, or the OSError that the job raised."""
        self._threads.submit(partial(run_job, self._loop, job, done))

    def close(self) -> None:
        """Wait for all submitted jobs. Idempotent."""
        self._threads.close()


class DeletionWorker(FileWorker):
    """Deletions, beside all other file work, which so never waits behind some thousand large files that are removed."""

    def __init__(self, loop: WorkerLoop) -> None:
        """Raises OSError."""
        super().__init__(loop, "log-deletions")
        self._closed = False

    def run(self, job: Job, done: Done) -> None:
        """Queue a deletion; after `close` it is left to the next start."""
        if not self._closed:
            super().run(job, done)

    def close(self) -> None:
        """Wait for the file at hand; the next start removes the others. Idempotent."""
        self._closed = True
        self._threads.close(drop=True)


class FlushWorkers:
    """Flushes of group commit: some threads per log dir, because an fsync of one file does not block one of another
    file.
    """

    def __init__(self, loop: WorkerLoop, directories: Iterable[str]) -> None:
        """directories: log.dirs; jobs name their real paths. Raises OSError."""
        self._loop = loop
        self._threads: dict[str, Threads] = {}
        for path in {os.path.realpath(directory) for directory in directories}:
            self._threads[path] = Threads("log-flush", _FLUSH_THREADS_PER_DIR)

    def run(self, directory: str, job: Job, done: Done) -> None:
        """Queue a flush for this log dir's threads; `done` as in `FileWorker`."""
        self._threads[directory].submit(partial(run_job, self._loop, job, done))

    def close(self) -> None:
        """Wait for all submitted jobs. Idempotent."""
        for threads in self._threads.values():
            threads.close()
