"""How far an analysis is, in a file for whoever waits for it: `23 61`, jobs done and jobs in all.

Decides what is written when; `0` in all means that nobody knows yet how many there will be. Must not know what a job
is. A file that cannot be written costs no verdict.
"""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")


class Progress:
    """Safe to use from many threads. file: replaced whole; None: nobody waits."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._all = 0
        self._known = False
        self._done = 0

    def watch(self, job: Future[_T]) -> Future[_T]:
        """One more job, done when the future is; returns the future."""
        with self._lock:
            self._all += 1
        job.add_done_callback(lambda _: self.done())
        return job

    def rest(self, jobs: int) -> None:
        """So many more jobs, each of which will call `done`, and then no more."""
        with self._lock:
            self._all += jobs
            self._known = True
            self._write()

    def done(self) -> None:
        """A job is done."""
        with self._lock:
            self._done += 1
            self._write()

    def _write(self) -> None:
        """Caller holds the lock: what is written later says more."""
        if self._file is None:
            return
        part = self._file.with_name(self._file.name + ".part")
        with contextlib.suppress(OSError):
            part.write_text(f"{self._done} {self._all if self._known else 0}\n", encoding="ascii")
            os.replace(part, self._file)
