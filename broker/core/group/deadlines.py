"""When each member must have shown itself next.

Moving a deadline later, which each heartbeat does, costs a dict entry and leaves the heap alone: `next_ms` may be too
early, never too late. Source: kafka.coordinator.group.DelayedHeartbeat, for what a deadline means.
"""

from __future__ import annotations

import heapq
from typing import Final

_SWEEP_SIZE_MIN: Final = 64


class Deadlines:
    """member id → monotonic ms."""

    __slots__ = ("_due", "_heap", "_scheduled")

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._scheduled: dict[str, float] = {}
        """Time of the one heap entry that counts for a member; never later than its deadline."""
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._due

    def set(self, member_id: str, deadline_ms: float) -> None:
        """In place of the deadline that the member had."""
        self._due[member_id] = deadline_ms
        scheduled = self._scheduled.get(member_id)
        if scheduled is None or deadline_ms < scheduled:
            self._schedule(member_id, deadline_ms)

    def _schedule(self, member_id: str, when_ms: float) -> None:
        self._scheduled[member_id] = when_ms
        heapq.heappush(self._heap, (when_ms, member_id))
        if len(self._heap) > _SWEEP_SIZE_MIN and len(self._heap) > 2 * len(self._scheduled):
            self._heap = [(when, of) for of, when in self._scheduled.items()]
            heapq.heapify(self._heap)

    def remove(self, member_id: str) -> None:
        """The member owes nothing more."""
        self._due.pop(member_id, None)
        self._scheduled.pop(member_id, None)

    def clear(self) -> None:
        """Nobody owes anything."""
        self._due.clear()
        self._scheduled.clear()
        self._heap.clear()

    def next_ms(self) -> float | None:
        """No deadline ends before that; None without one."""
        heap = self._heap
        while heap and self._scheduled.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: float) -> str | None:
        """A member whose deadline is not after now, the earliest first; it has none from then on."""
        while (when_ms := self.next_ms()) is not None and when_ms <= now_ms:
            _, member_id = heapq.heappop(self._heap)
            del self._scheduled[member_id]
            due_ms = self._due[member_id]
            if due_ms <= when_ms:
                del self._due[member_id]
                return member_id
            self._schedule(member_id, due_ms)
        return None
