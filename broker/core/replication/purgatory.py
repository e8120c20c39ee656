"""Requests that wait: appends for the watermark, fetches for bytes. Who is woken by what.

Consumers' waits are kept apart from followers': an HW advance must not wake followers, an append must wake the
followers of that partition (they are what raises HW), and nothing that waits on an idle partition costs anything.
Holds no timers and no clocks: the driver owns them.
Source: kafka.server.DelayedProduce, DelayedFetch.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class OffsetWaiters(Generic[T]):
    """Things that wait for an offset of one partition to be reached, smallest first.

    Appends come in order; only the repeat of an earlier append has to find its place.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[int, T]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, required_offset: int, waiter: T) -> None:
        """waiter is handed out once `reach(offset)` is called with offset ≥ required_offset."""
        queue = self._queue
        if queue and queue[-1][0] > required_offset:
            place = len(queue) - 1
            while place and queue[place - 1][0] > required_offset:
                place -= 1
            queue.insert(place, (required_offset, waiter))
        else:
            queue.append((required_offset, waiter))

    def reach(self, offset: int) -> list[T]:
        """Take out all that waited for at most offset, smallest first, then in order of arrival."""
        queue = self._queue
        reached: list[T] = []
        while queue and queue[0][0] <= offset:
            reached.append(queue.popleft()[1])
        return reached

    def take_all(self) -> list[T]:
        """Take out everything, in order of offset: the role is gone."""
        taken = [waiter for _, waiter in self._queue]
        self._queue.clear()
        return taken


class Watchers(Generic[T]):
    """Waits keyed by partition; one wait may watch many partitions, and one of them for several reasons."""

    __slots__ = ("_again", "_by_key")

    def __init__(self) -> None:
        self._by_key: dict[object, dict[int, T]] = {}
        self._again: dict[tuple[object, int], int] = {}
        """How often a waiter watches a key beyond the first time, where it does."""

    def watch(self, key: object, waiter: T) -> None:
        """Let an event of `key` wake this waiter, until it has been unwatched as often as it was watched."""
        waiters = self._by_key.get(key)
        if waiters is None:
            waiters = self._by_key[key] = {}
        if id(waiter) in waiters:
            again = (key, id(waiter))
            self._again[again] = self._again.get(again, 0) + 1
        waiters[id(waiter)] = waiter

    def unwatch(self, key: object, waiter: T) -> None:
        """Undo one `watch`; nothing happens where the waiter does not watch `key`."""
        waiters = self._by_key.get(key)
        if waiters is None:
            return
        again = (key, id(waiter))
        if (count := self._again.pop(again, 0)) > 0:
            if count > 1:
                self._again[again] = count - 1
            return
        waiters.pop(id(waiter), None)
        if not waiters:
            del self._by_key[key]

    def of(self, key: object) -> list[T]:
        """Those that watch key now; a copy, so that completing one may unwatch it."""
        waiters = self._by_key.get(key)
        return list(waiters.values()) if waiters else []

    def keys_watched(self) -> int:
        """How many keys have a waiter: 0 once every wait has ended."""
        return len(self._by_key)
