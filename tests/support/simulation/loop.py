"""A broker's event loop in virtual time, with the turns of `broker.net.loop`."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.model.timers import TimerHandle, TimerHeap
from tests.support.simulation.fibers import Process

_TURN_MS = 0.2
_LATE_MS = 0.001  # so that sums of times, which are rounded, do not come too early


class Sender(Protocol):
    """Something with output, sent at the end of a turn."""

    def flush_output(self) -> None: ...


class SimulatedLoop:
    """Satisfies runtime's Loop, and what the composition root uses of EpollLoop."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.turn = 0
        self._scheduler = process.scheduler
        self._running = False
        self._due = False
        self._armed_ms = float("inf")
        self._arrived: deque[Callable[[], None]] = deque()
        self._soon: deque[Callable[[], None]] = deque()
        self._timers = TimerHeap()
        self._before_send: list[Callable[[], None]] = []
        self._senders: list[Sender] = []

    def now_ms(self) -> float:
        return self._scheduler.now_ms

    def run(self) -> None:
        """From now on there are turns."""
        self._running = True
        self._wake()
        self._arm()

    def stop(self) -> None:
        """No more turns."""
        self._running = False

    def arrive(self, call: Callable[[], None]) -> None:
        """Something can be read: the next turn begins with it."""
        self._arrived.append(call)
        self._wake()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)
        self._wake()

    call_soon_threadsafe = call_soon

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        handle = self._timers.add(self.now_ms() + delay_ms, callback)
        self._arm()
        return handle

    def add_before_send(self, hook: Callable[[], None]) -> None:
        self._before_send.append(hook)

    def want_send(self, sender: Sender) -> None:
        self._senders.append(sender)
        self._wake()

    def _wake(self) -> None:
        if self._running and not self._due:
            self._due = True
            self.process.call(self._scheduler.rng.random() * _TURN_MS, self._turn)

    def _arm(self) -> None:
        next_ms = self._timers.next_ms()
        if self._running and next_ms is not None and next_ms < self._armed_ms:
            self._armed_ms = next_ms
            self.process.call(max(next_ms - self.now_ms(), 0.0) + _LATE_MS, self._on_timer)

    def _on_timer(self) -> None:
        self._armed_ms = float("inf")
        next_ms = self._timers.next_ms()
        if next_ms is not None and next_ms <= self.now_ms():
            self._wake()  # its end looks for the next timer
        else:
            self._arm()

    def _turn(self) -> None:
        self._due = False
        if not self._running:
            return
        self.turn += 1
        for _ in range(len(self._arrived)):
            self._call(self._arrived.popleft())
        now_ms = self.now_ms()
        while (due := self._timers.pop_due(now_ms)) is not None:
            self._call(due)
        for _ in range(len(self._soon)):
            self._call(self._soon.popleft())
        for hook in self._before_send:
            self._call(hook)
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.flush_output()
        if self._arrived or self._soon or self._senders:
            self._wake()
        self._arm()

    def _call(self, callback: Callable[[], None]) -> None:
        if not self.process.alive:
            return
        try:
            callback()
        except Exception:
            self._scheduler.failures.append(f"{self.process.name}: in a turn:\n{traceback.format_exc()}")
