"""The event loop: one thread, and a turn that batches system calls.

A turn, in this order:
1. poll; every ready socket is read once and all its complete frames are dispatched;
2. due timers, then `call_soon` and thread-safe callbacks that were there when the phase began;
3. the before-send hooks in the order they were added (log writes, completions, event log);
4. one send per sender that requested it. So a hundred requests that arrive together cost one write per log and one send
   per connection.

An exception in a timer, a callback or a socket's handler is logged with its name, and the loop goes on. One in a
before-send hook is not survived: what the sends after it would confirm may not be on disk. The loop stops and `run`
raises it. No code but the senders' own runs in phase 4; their callbacks to other code wait for the next turn. Why
turns: docs/adr/0001. The thread door is Loop.call_soon_threadsafe in runtime.ports.
"""

from __future__ import annotations

import logging
import math
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from broker.model.timers import TimerHandle, TimerHeap

_log = logging.getLogger(__name__)

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
FAILED: Final = select.EPOLLERR | select.EPOLLHUP
_EVENTS_PER_TURN_MAX: Final = 1024


class Sender(Protocol):
    """Something with output. `flush_output` is called once in the send phase after `want_send`."""

    def flush_output(self) -> None:
        """Send what the socket takes now. What it raises is logged, and the other senders still send."""
        ...


def _name(callback: Callable[..., object]) -> str:
    return getattr(callback, "__qualname__", None) or repr(callback)


class EpollLoop:
    """Satisfies runtime's Loop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, READABLE)
        self._handlers: dict[int, Callable[[int], None]] = {self._wake_fd: self._on_wake}
        self._timers = TimerHeap()
        self._soon: deque[Callable[[], None]] = deque()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._wake_written = False
        self._before_send: list[Callable[[], None]] = []
        self._senders: list[Sender] = []
        self._stopping = False
        self._turn = 0

    @property
    def turn(self) -> int:
        """Its number: what holds until the turn's end holds while this stays the same."""
        return self._turn

    def now_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call in phase 2 of this turn, or of the next one when that phase has begun."""
        self._soon.append(callback)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Call in phase 2 of the first turn that begins delay_ms from now or later."""
        return self._timers.add(self.now_ms() + delay_ms, callback)

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """As call_soon, from any thread or signal handler."""
        self._from_threads.append(callback)
        # Several threads may write at once; that only wakes the loop once more than needed.
        if not self._wake_written:
            self._wake_written = True
            os.eventfd_write(self._wake_fd, 1)

    def add_before_send(self, hook: Callable[[], None]) -> None:
        """Run hook in phase 3 of every turn, after those added before it."""
        self._before_send.append(hook)

    def want_send(self, sender: Sender) -> None:
        """Request one flush_output in the next send phase; the sender must request it once only."""
        self._senders.append(sender)

    def register(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """handler gets the epoll events, in phase 1."""
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        """events: of select.EPOLL*, in place of those that the descriptor was registered with. Raises OSError."""
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """No more events of this descriptor; nothing happens where it is not registered."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def run(self) -> None:
        """Turn until `stop`; raises what a before-send hook raised."""
        self._stopping = False
        while not self._stopping:
            self.run_once()

    def stop(self) -> None:
        """End `run` after the turn that is under way; from other threads through call_soon_threadsafe."""
        self._stopping = True

    def close(self) -> None:
        """Give back the loop's own descriptors; the sockets are their owners'."""
        self._epoll.close()
        os.close(self._wake_fd)

    def run_once(self, timeout_ms_max: float | None = None) -> None:
        """One turn; waits for an event at most until the next timer, or timeout_ms_max."""
        self._turn += 1
        due_ms = self._timers.next_ms()
        ready = self._epoll.poll(self._poll_seconds(due_ms, timeout_ms_max), _EVENTS_PER_TURN_MAX)
        # Before the handlers: what they arm is for a later turn, however long they take. A slice is good for this one.
        now_ms = 0.0 if due_ms is None else self.now_ms()
        for fd, events in ready:
            handler = self._handlers.get(fd)
            if handler is not None:  # else an earlier handler of this turn closed it
                try:
                    handler(events)
                except Exception:
                    _log.exception("socket handler %s failed", _name(handler))
        if due_ms is not None and now_ms >= due_ms:
            while (due := self._timers.pop_due(now_ms)) is not None:
                self._call(due)
        if self._soon or self._from_threads:
            self._run_callbacks()
        for hook in self._before_send:
            hook()
        if self._senders:
            senders, self._senders = self._senders, []
            for sender in senders:
                try:
                    sender.flush_output()
                except Exception:
                    _log.exception("sender %r failed", sender)

    def _poll_seconds(self, due_ms: float | None, timeout_ms_max: float | None) -> float:
        if self._soon or self._senders or self._from_threads or self._stopping:
            return 0
        if due_ms is None:
            return -1 if timeout_ms_max is None else timeout_ms_max / 1000
        wait_ms = max(0.0, due_ms - self.now_ms())
        if timeout_ms_max is not None:
            wait_ms = min(wait_ms, timeout_ms_max)
        return math.ceil(wait_ms) / 1000

    def _run_callbacks(self) -> None:
        for _ in range(len(self._soon)):
            self._call(self._soon.popleft())
        for _ in range(len(self._from_threads)):
            self._call(self._from_threads.popleft())

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            _log.exception("callback %s failed", _name(callback))

    def _on_wake(self, _: int) -> None:
        # In this order: whoever saw the flag set before it is cleared has appended before phase 2 looks, and whoever
        # sees it cleared writes the descriptor again. Read last, it would swallow that write.
        os.eventfd_read(self._wake_fd)
        self._wake_written = False
