"""The controller's thread and its one serial queue of events.

The thread takes events one after the other, so no two decisions overlap; other threads only put events. What is to
happen later waits in a heap of the thread's own, so no other thread is ever needed. An event that finds another
controller elected makes this broker resign; an event that cannot reach ZooKeeper, or fails, has everything loaded
anew, because nobody knows what was written.
Source: kafka.controller.ControllerEventManager.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.core.controller.cluster_state import ControllerMoved, StoreUnavailable
from broker.model.timers import TimerHandle, TimerHeap

Event = Callable[[], None]

_log = logging.getLogger("broker.controller")

_FLUSH_EVENTS_MAX: Final = 50
_WAIT_S_MAX: Final = 3600.0  # what a queue waits for has to fit in the system's time


def _now_ms() -> float:
    return time.monotonic_ns() / 1e6


class ControllerEventManager:
    """Queue and thread; what an event does is known only to the code that put it."""

    def __init__(
        self,
        on_moved: Callable[[], None],
        on_failed: Callable[[], None],
        after_events: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        """All four are called on the controller's thread.

        on_moved: an event raised ControllerMoved. on_failed: an event raised anything else. after_events: the queue is
        empty, or _FLUSH_EVENTS_MAX events were handled since the last call. on_broken: the thread ends by an error.
        """
        self._on_moved = on_moved
        self._on_failed = on_failed
        self._after_events = after_events
        self._on_broken = on_broken
        self._events: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()
        self._queued: set[str] = set()
        self._delayed = TimerHeap()
        """Controller's thread only, by the monotonic clock."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._stopping = False

    def start(self) -> None:
        """Begin to handle events; what was put before is handled first."""
        self._thread.start()

    def join(self, wait_s: float) -> None:
        """Wait for the thread's end, no longer than wait_s; returns at once where it was never started."""
        if self._thread.ident is not None:
            self._thread.join(wait_s)

    def put(self, name: str, event: Event) -> None:
        """Queue an event. Any thread. name: for the log."""
        self._events.put((name, event))

    def put_once(self, name: str, event: Event) -> None:
        """As `put`, unless an event of this name waits: for those that only say "look again". Any thread."""
        with self._lock:
            if name in self._queued:
                return
            self._queued.add(name)
        self.put(name, event)

    def put_later(self, name: str, event: Event, delay_s: float) -> TimerHandle:
        """As `put_once`, in delay_s. Controller's thread."""
        return self._delayed.add(_now_ms() + delay_s * 1000, partial(self.put_once, name, event))

    def end(self) -> None:
        """The event at hand is the last one. Controller's thread."""
        self._stopping = True

    def _next(self) -> tuple[str, Event]:
        """Wait for the next event."""
        while True:
            now_ms = _now_ms()
            while (due := self._delayed.pop_due(now_ms)) is not None:
                due()
            next_ms = self._delayed.next_ms()
            try:
                wait_s = None if next_ms is None else min((next_ms - now_ms) / 1000, _WAIT_S_MAX)
                return self._events.get(timeout=wait_s)
            except queue.Empty:
                continue

    def _run(self) -> None:
        try:
            self._handle_events()
        except BaseException as error:
            _log.critical("the controller's thread ends by an error", exc_info=True)
            if not self._stopping:
                self._on_broken(error)

    def _handle_events(self) -> None:
        handled = 0
        while not self._stopping:
            name, event = self._next()
            with self._lock:
                self._queued.discard(name)
            self._handle(name, event)
            handled += 1
            if self._events.empty() or handled >= _FLUSH_EVENTS_MAX:
                handled = 0
                self._handle("metadata", self._after_events)

    def _handle(self, name: str, event: Event) -> None:
        try:
            event()
        except ControllerMoved as moved:
            _log.info("%s", moved)
            self._on_moved()
        except StoreUnavailable as unavailable:
            if not self._stopping:
                _log.warning("event %s: %s", name, unavailable)
                self._on_failed()
        except Exception:
            _log.exception("event %s failed: the controller loads its state anew", name)
            self._on_failed()
