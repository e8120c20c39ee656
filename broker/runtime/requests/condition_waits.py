"""Requests that wait for a condition, each with its own time-out. Loop thread. Source: Kafka's DelayedOperation."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.runtime.ports import Loop, Timer

_log = logging.getLogger("broker.admin")

TIMEOUT_MAX_MS = 3_600_000.0


class Waits:
    """Conditions are looked at when `check` is called; whoever can make one true calls it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._open: list[_Wait] = []

    def until(
        self,
        condition: Callable[[], bool],
        timeout_ms: float,
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Call `then` when the condition holds, or `otherwise` when the time is over; one of them, once."""
        if condition():
            then()
            return
        if timeout_ms <= 0:
            otherwise()
            return
        wait = _Wait(condition, then)
        self._open.append(wait)

        def expire() -> None:
            self._open.remove(wait)
            otherwise()

        wait.timer = self._loop.call_later(min(timeout_ms, TIMEOUT_MAX_MS), expire)

    def check(self) -> None:
        """Look at every waiting request: respond to those whose condition holds."""
        for wait in [wait for wait in self._open if wait.condition()]:
            self._open.remove(wait)
            assert wait.timer is not None
            wait.timer.cancel()
            try:
                wait.then()
            except Exception:
                # An error of this request must reach neither the caller of `check` nor the other requests that wait.
                _log.exception("the response to a request whose condition holds now failed")


class _Wait:
    __slots__ = ("condition", "then", "timer")

    def __init__(self, condition: Callable[[], bool], then: Callable[[], None]) -> None:
        self.condition = condition
        self.then = then
        self.timer: Timer | None = None
