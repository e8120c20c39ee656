"""Requests that wait for something, until their senders give them up.

A sender that gets no response in its time closes the connection and sends the same again. While ZooKeeper is away that
goes on, so a request that is given up is dropped when the next one comes, not when its turn does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Entry:
    __slots__ = ("do", "wanted")

    def __init__(self, do: Callable[[], None], wanted: Callable[[], bool]) -> None:
        self.do: Callable[[], None] = do
        self.wanted: Callable[[], bool] = wanted

    def drop(self) -> None:
        """Holding `take` keeps nothing of the request in memory."""
        self.do = _nothing
        self.wanted = _never


class AbandonableRequests:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []

    def put(self, do: Callable[[], None], wanted: Callable[[], bool]) -> Callable[[], None]:
        """What to call when its turn has come: runs the request once, if it is still wanted. Drops all that are not."""
        entry = _Entry(do, wanted)
        with self._lock:
            kept = [entry]
            for other in self._entries:
                if other.wanted():
                    kept.append(other)
                else:
                    other.drop()
            self._entries = kept

        def take() -> None:
            with self._lock:
                if entry in self._entries:
                    self._entries.remove(entry)
                do, wanted = entry.do, entry.wanted()
                entry.drop()
            if wanted:
                do()

        return take


def _nothing() -> None: ...


def _never() -> bool:
    return False
