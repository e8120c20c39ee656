"""Time-outs of many waiting requests on one timer of the loop.

Most requests share a few time-out values, so each value has its own queue in order of arrival, and leaving early costs
one deletion: nothing stays behind for a request that got its response.
Source: kafka.utils.timer (the same duty, by a wheel).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from broker.runtime.ports import Loop, Timer

_log = logging.getLogger("broker")

T = TypeVar("T")


class Deadlines(Generic[T]):
    """`on_late(item)` is called once for every item that was not removed in time."""

    __slots__ = ("_armed_ms", "_loop", "_on_late", "_queues", "_timer")

    def __init__(self, loop: Loop, on_late: Callable[[T], None]) -> None:
        self._loop = loop
        self._on_late = on_late
        self._queues: dict[float, dict[int, tuple[float, T]]] = {}
        self._timer: Timer | None = None
        self._armed_ms = 0.0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, item: T, timeout_ms: float, now_ms: float | None = None) -> None:
        """item must not be in here yet. now_ms: the loop's time, if the caller has it at hand."""
        due = (self._loop.now_ms() if now_ms is None else now_ms) + timeout_ms
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = {}
        queue[id(item)] = (due, item)
        if self._timer is None or due < self._armed_ms:
            self._arm(due)

    def remove(self, item: T, timeout_ms: float) -> None:
        """Leave before the time; harmless when it is over."""
        queue = self._queues.get(timeout_ms)
        if queue is not None:
            queue.pop(id(item), None)
            if not queue:
                del self._queues[timeout_ms]

    def items(self) -> list[T]:
        """All that wait."""
        return [item for queue in self._queues.values() for _, item in queue.values()]

    def _arm(self, due_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ms = due_ms
        self._timer = self._loop.call_later(max(0.0, due_ms - self._loop.now_ms()), self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = self._loop.now_ms()
        late: list[T] = []
        for timeout_ms in list(self._queues):
            queue = self._queues[timeout_ms]
            for key, (due, item) in list(queue.items()):
                if due > now:
                    break
                del queue[key]
                late.append(item)
            if not queue:
                del self._queues[timeout_ms]
        for item in late:
            try:
                self._on_late(item)
            except Exception:
                # It must neither leave the other requests without a response nor the rest without a timer.
                _log.exception("a request whose time is over got no response")
        next_due = min((next(iter(queue.values()))[0] for queue in self._queues.values()), default=None)
        if next_due is not None:
            self._arm(next_due)
