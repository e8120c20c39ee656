"""Which segments of a store are open besides the active ones, and which are closed when there are too many.

Each open segment takes a descriptor, and some memory for what its index said last. The least recently read segment is
closed first, and opened again at its next read; bytes whose CRC was checked are not checked again. A read's file slice
is valid for the loop turn in which it was handed out (a response that waits longer uses a duplicate descriptor, see
`broker.net.send`), so segments read in the current turn stay open, however many they are. Active segments, and those
whose files a swap has hidden, are not in this table and are never closed. A flush uses duplicates.
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

    __slots__ = ("_brief", "_limit", "_read_in", "_reported", "_turn")

    def __init__(self, limit: int = sys.maxsize, turn: Callable[[], int] = lambda: 0) -> None:
        """limit: so many stay open over a turn. turn: the loop's number of it."""
        self._limit = limit
        self._turn = turn
        self._read_in: dict[Closable, int] = {}
        self._reported = False
        self._brief: list[Closable] | None = None

    def __len__(self) -> int:
        return len(self._read_in)

    def add(self, segment: Closable) -> None:
        """Note that a segment is open; it may be closed in a later turn."""
        self._read_in[segment] = self._turn()

    def opened(self, segment: Closable) -> None:
        """As `add`; where there are too many, the least recently read ones of earlier turns are closed."""
        self.add(segment)
        if self._brief is not None:
            self._brief.append(segment)
        if len(self._read_in) > self._limit:
            self.trim()

    def touch(self, segment: Closable) -> None:
        """Note that a segment was read; nothing where it is not in this table."""
        read_in = self._read_in
        if segment in read_in:
            del read_in[segment]
            read_in[segment] = self._turn()
            if len(read_in) > self._limit:
                self.trim()

    def forget(self, segment: Closable) -> None:
        """Remove a segment that was closed, or that has to stay open."""
        self._read_in.pop(segment, None)

    def trim(self) -> None:
        """Close segments above the limit, except those that were read in this turn."""
        self._close(len(self._read_in) - self._limit)

    @contextmanager
    def briefly(self) -> Iterator[None]:
        """Segments that open within this context are closed at its end, so no slice of theirs may be used later. Not
        nested.
        """
        opened = self._brief = []
        try:
            yield
        finally:
            self._brief = None
            for segment in opened:
                segment.close()

    def with_room(self, action: Callable[[], T]) -> T:
        """Run an action that opens files; again where no descriptor was free and other segments could be closed."""
        try:
            return action()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not self.make_room():
                raise
        return action()

    def make_room(self) -> bool:
        """No descriptor is free: close some segments. False when there is none to close."""
        closed = self._close(_ROOM_SEGMENTS)
        if not closed and not self._reported:
            _logger.error(
                "no file descriptor is free to open an older segment: reads of it fail until one is (ulimit -n)"
            )
        self._reported = not closed
        return closed > 0

    def _close(self, count: int) -> int:
        """Close up to `count` segments; returns how many were closed."""
        if count <= 0:
            return 0
        turn = self._turn()
        oldest = [segment for segment, read_in in islice(self._read_in.items(), count) if read_in != turn]
        for segment in oldest:
            segment.close()
        return len(oldest)
