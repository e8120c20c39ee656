"""One heap of cancellable timers.

Knows no clock: the caller says what time it is. Timers fire in order of their time, those of one time in the order
they were set. A cancelled timer leaves its callback at once and its place in the heap when the heap is next swept, so
that timers which are always cancelled (request time-outs) cannot pile up.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

_SWEEP_SIZE_MIN: Final = 256


class TimerHandle:
    """A scheduled call; satisfies runtime's Timer."""

    __slots__ = ("_heap", "callback", "sequence", "when_ms")

    def __init__(self, heap: TimerHeap, when_ms: float, sequence: int, callback: Callable[[], None]) -> None:
        self._heap = heap
        self.when_ms = when_ms
        self.sequence = sequence
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Take the call back; nothing happens when it is done or taken back already."""
        if self.callback is not None:
            self.callback = None
            self._heap.note_cancelled()

    def __lt__(self, other: TimerHandle) -> bool:
        return (self.when_ms, self.sequence) < (other.when_ms, other.sequence)


class TimerHeap:
    """Timers by time."""

    __slots__ = ("_cancelled", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[TimerHandle] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        """Timers that will still fire."""
        return len(self._heap) - self._cancelled

    def add(self, when_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Run callback once the clock has reached when_ms. Of equal times, first come first."""
        self._sequence += 1
        handle = TimerHandle(self, when_ms, self._sequence, callback)
        heapq.heappush(self._heap, handle)
        return handle

    def note_cancelled(self) -> None:
        """Of TimerHandle. Handles are swept out once more than half of them are cancelled."""
        self._cancelled += 1
        if self._cancelled > _SWEEP_SIZE_MIN and self._cancelled * 2 > len(self._heap):
            self._heap = [handle for handle in self._heap if handle.callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_ms(self) -> float | None:
        """When the next timer is due, None without one."""
        heap = self._heap
        while heap and heap[0].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0].when_ms if heap else None

    def pop_due(self, now_ms: float) -> Callable[[], None] | None:
        """The callback of the next timer that is due, None when there is none."""
        when_ms = self.next_ms()
        if when_ms is None or when_ms > now_ms:
            return None
        handle = heapq.heappop(self._heap)
        callback, handle.callback = handle.callback, None
        return callback
