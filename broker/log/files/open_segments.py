"""Which segments of a store are open besides the active ones, and which of them close when they are too many.

Each open segment takes a descriptor, and some memory for what its index said last. The least recently read one goes
first, and opens again at its next read; its bytes that were checked stay checked. A read's file slice is good for the
turn in which it was handed out (what waits longer is on a duplicate, see `broker.net.send`), so what was read in this
turn is not closed in it, however many there are. Not in here, so never closed: active segments, those whose files a
swap has hidden. A flush has duplicates.
All on the loop's thread, but `add` while logs are loaded.
Source: none in Kafka, whose segments stay open, and whose indexes are mapped.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, Protocol, TypeVar

_logger = logging.getLogger(__name__)

NO_DESCRIPTOR: Final = frozenset((errno.EMFILE, errno.ENFILE))
_ROOM_SEGMENTS: Final = 8

T = TypeVar("T")


class Closable(Protocol):
    """A segment whose descriptors can be given back: reading it opens them again."""

    def close(self) -> None:
        """Calls `OpenSegments.forget`."""
        ...


class OpenSegments:
    """Inactive segments that are open, the least recently read one first."""

    __slots__ = ("_brief", "_limit", "_read_in", "_told", "_turn")

    def __init__(self, limit: int = sys.maxsize, turn: Callable[[], int] = lambda: 0) -> None:
        """limit: so many stay open over a turn. turn: the loop's number of it."""
        self._limit = limit
        self._turn = turn
        self._read_in: dict[Closable, int] = {}
        self._told = False
        self._brief: list[Closable] | None = None

    def __len__(self) -> int:
        return len(self._read_in)

    def add(self, segment: Closable) -> None:
        """It is open, and may be closed again in a later turn."""
        self._read_in[segment] = self._turn()

    def opened(self, segment: Closable) -> None:
        """The same; if that makes too many, the oldest of earlier turns close."""
        self.add(segment)
        if self._brief is not None:
            self._brief.append(segment)
        if len(self._read_in) > self._limit:
            self.trim()

    def touch(self, segment: Closable) -> None:
        """It was read. Nothing for one that is not in here."""
        read_in = self._read_in
        if segment in read_in:
            del read_in[segment]
            read_in[segment] = self._turn()
            if len(read_in) > self._limit:
                self.trim()

    def forget(self, segment: Closable) -> None:
        """It was closed, or has to stay open."""
        self._read_in.pop(segment, None)

    def trim(self) -> None:
        """Close what is too much, as far as this turn allows it."""
        self._close(len(self._read_in) - self._limit)

    @contextmanager
    def briefly(self) -> Iterator[None]:
        """What opens in here closes at its end: no slice of it may be used later. Not one within another."""
        opened = self._brief = []
        try:
            yield
        finally:
            self._brief = None
            for segment in opened:
                segment.close()

    def with_room(self, action: Callable[[], T]) -> T:
        """The action, which opens files; once more where it lacked a descriptor and others could be closed."""
        try:
            return action()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not self.make_room():
                raise
        return action()

    def make_room(self) -> bool:
        """No descriptor is free: close some segments. False when there is none to close."""
        closed = self._close(_ROOM_SEGMENTS)
        if not closed and not self._told:
            _logger.error("no descriptor is free to read an older segment with; answered with errors (ulimit -n)")
        self._told = not closed
        return closed > 0

    def _close(self, count: int) -> int:
        """Up to so many; how many were."""
        if count <= 0:
            return 0
        turn = self._turn()
        oldest = [segment for segment, read_in in islice(self._read_in.items(), count) if read_in != turn]
        for segment in oldest:
            segment.close()
        return len(oldest)
