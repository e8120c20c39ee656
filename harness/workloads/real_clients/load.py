"""The application's threads: producers while there is load, members until the group has come to the end.

Decides when they begin and end. Must not know librdkafka. `run` is an observer of the run; an error of any thread is
its error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from harness.operations.history import MAIN, SETUP
from harness.workloads.base import RunContext

LOOK_S = 0.1

Work = Callable[[Callable[[], bool]], None]
"""One thread's work, as long as what it is given says so."""


class Load:
    """producers go on through the main phase, members until `end_members`."""

    def __init__(self, run: RunContext, producers: Sequence[Work], members: Sequence[Work]) -> None:
        self._run = run
        self._works = (producers, members)
        self._stop = threading.Event()
        self._members_end = threading.Event()
        self._over = (threading.Event(), threading.Event())
        self._errors: list[BaseException] = []

    def loaded(self) -> bool:
        """Whether there is load now. Any thread."""
        return self._run.history.phase == MAIN and not self._stop.is_set()

    def run(self, stop: threading.Event) -> None:
        """From the main phase on, until all threads have ended. Raises the first error of one."""
        while self._run.history.phase == SETUP and not stop.is_set():
            time.sleep(LOOK_S)
        goings = (self.loaded, lambda: not (self._stop.is_set() or self._members_end.is_set()))
        threads = [
            [
                threading.Thread(target=self._work, args=(work, going), name=f"application-{nth}", daemon=True)
                for work in works
            ]
            for nth, (works, going) in enumerate(zip(self._works, goings, strict=True))
        ]
        for thread in (*threads[0], *threads[1]):
            thread.start()
        waiting = list(zip(threads, self._over, strict=True))
        while waiting:
            if stop.is_set() or self._errors:
                self._stop.set()
            waiting = [(mine, over) for mine, over in waiting if not self._all_over(mine, over)]
            time.sleep(LOOK_S)
        if self._errors:
            raise self._errors[0]

    def _work(self, work: Work, going: Callable[[], bool]) -> None:
        try:
            work(going)
        except BaseException as error:
            self._errors.append(error)

    @staticmethod
    def _all_over(threads: Sequence[threading.Thread], over: threading.Event) -> bool:
        if any(thread.is_alive() for thread in threads):
            return False
        over.set()
        return True

    def wait_for_producers(self, sleep: Callable[[float], None], limit_s: float) -> None:
        """Return once every record has its outcome, or after limit_s: a client may hang."""
        self._wait("producers", self._over[0], sleep, limit_s)

    def end_members(self, sleep: Callable[[float], None], limit_s: float) -> None:
        """Have every consumer closed; return once they are, or after limit_s."""
        self._members_end.set()
        self._wait("members", self._over[1], sleep, limit_s)

    def _wait(self, who: str, over: threading.Event, sleep: Callable[[float], None], limit_s: float) -> None:
        end_s = time.monotonic() + limit_s
        while not over.is_set():
            if time.monotonic() >= end_s:
                self._run.history.harness("heal", error=f"{who} of the application did not end within {limit_s:g} s")
                return
            sleep(LOOK_S)
