"""How a run is stopped from outside, and the threads that run beside it.

Decides what Ctrl-C, SIGTERM and SIGHUP do: the first one ends the run in order, later ones are ignored while it
ends. Must not know phases. Invariant: a signal never interrupts the writing of a line of the history.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = (
    b"ending: faults are taken back, what was recorded is kept; once more changes nothing, "
    b"`highwater heal` cleans up after a kill -9\n"
)
WORKERS_END_S = 75.0
"""Longer than the slowest change of a fault: a clean stop that ends in a kill, and the start after it."""


class RunFailed(Exception):
    """The run could not be carried out; the text says in which phase and why. It is no statement about the system."""


class Aborted(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP."""


class Abort:
    """Set by a signal handler, so without a lock that the interrupted code might hold; looks like an Event to
    readers.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, a signal sets the reason and raises nothing: for steps of an ending that must not be cut short."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within `held`: signals raise again. For a block whose caller catches Aborted."""
        before, self._held = self._held, False
        try:
            yield
        finally:
            self._held = before

    @contextmanager
    def on_signals(self, must_not_raise: Callable[[], bool]) -> Iterator[None]:
        """Ctrl-C, SIGTERM and SIGHUP raise Aborted in the main thread, or, where that must not be, set the reason
        only.
        """

        def handle(number: int, _frame: FrameType | None) -> None:
            if self.reason is not None:
                # print() could be what was interrupted.
                with suppress(OSError):
                    os.write(2, b"already ending; `highwater heal` cleans up after a kill -9\n")
                return
            self.reason = signal.Signals(number).name
            with suppress(OSError):
                os.write(2, _ENDING)
            if not self._held and not must_not_raise():
                raise Aborted

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raises Aborted after a signal."""
        if self.reason is not None:
            raise Aborted

    def sleep(self, seconds: float) -> None:
        """Pause. Raises Aborted after a signal, at most 0.1 s late."""
        if self.wait(seconds):
            raise Aborted

    def is_set(self) -> bool:
        """Whether a signal has come."""
        return self.reason is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether a signal has come, after at most timeout seconds; None: only then."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while self.reason is None:
            left_s = 0.1 if end_s is None else end_s - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(0.1, left_s))
        return self.reason is not None


class Background:
    """A thread beside the main one, with a stop event of its own; keeps the error that ended it."""

    def __init__(self, name: str, work: Callable[[threading.Event], None]) -> None:
        self.name = name
        self._work = work
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._work(self._stop)
        except Exception as error:
            self._failure = error

    def start(self) -> None:
        """Begin the work on a daemon thread."""
        self._thread.start()

    def end(self) -> None:
        """Idempotent."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(WORKERS_END_S)

    @property
    def failure(self) -> Exception | None:
        """What ended its work early."""
        return self._failure

    def raise_error(self) -> None:
        """Raises RunFailed when the work ended with an error, or goes on after `end`."""
        if self._failure is not None:
            text = f"{self.name}: {type(self._failure).__name__}: {self._failure}"
            raise RunFailed(text) from self._failure
        if self._thread.is_alive():
            raise RunFailed(f"{self.name}: has not ended {WORKERS_END_S:g} s after it was stopped")
