"""The segments of one log, by base offset; the last one is active. Pure bookkeeping.

A segment that a start finds is a base offset alone until it is used: a thousand old segments cost a start next to
nothing (L2 of docs/guarantees.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from broker.log.files.open_segments import OpenSegments
from broker.log.segments.segment import Segment
from broker.model.ids import Offset


class Segments:
    """Never empty once a log is open. Base offsets rise strictly."""

    __slots__ = ("_bases", "_gaps", "_keeper", "_list", "_make")

    def __init__(self, bases: Sequence[Offset] = (), make: Callable[[Offset], Segment] | None = None) -> None:
        """bases: of segments that are on disk, rising. make gives one of them when it is first used."""
        self._list: list[Segment | None] = [None] * len(bases)
        self._bases = list(bases)
        self._make = make
        self._gaps = False
        self._keeper: OpenSegments | None = None

    def allow_gaps(self) -> None:
        """Offsets may be missing from now on, in all segments that are there."""
        self._gaps = True
        for segment in self.made():
            segment.allow_gaps()

    def keep_within(self, open_segments: OpenSegments) -> None:
        """From now on open segments but the active one are in `open_segments`, which may close them."""
        self._keeper = open_segments
        for segment in self.made():
            segment.keeper = open_segments
            if segment.is_open and segment is not self._list[-1]:
                open_segments.add(segment)

    def hold_open(self, segment: Segment) -> None:
        """Let nobody close it: its files are about to have other names."""
        if segment.keeper is not None:
            segment.keeper.forget(segment)
            segment.keeper = None

    def release(self, segment: Segment) -> None:
        """Undo `hold_open`: the names stay after all."""
        segment.keeper = self._keeper
        if self._keeper is not None and segment.is_open:
            self._keeper.opened(segment)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._between(0, len(self._list)))

    def made(self) -> Iterator[Segment]:
        """Segments that were used since the start: of the others nothing is open or known."""
        return (segment for segment in self._list if segment is not None)

    @property
    def bases(self) -> list[Offset]:
        """Base offsets, rising."""
        return list(self._bases)

    @property
    def first(self) -> Segment:
        """The oldest; a log always has one."""
        return self.at(0)

    @property
    def active(self) -> Segment:
        return self._list[-1] or self.at(len(self._list) - 1)

    def floor(self, offset: Offset) -> int:
        """Place of the segment that would hold offset; the first one for offsets below it."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def at(self, place: int) -> Segment:
        """By place, 0 the oldest; a segment that nobody needed so far is made now. Raises IndexError."""
        segment = self._list[place]
        if segment is None:
            assert self._make is not None
            segment = self._list[place] = self._make(self._bases[place])
            segment.keeper = self._keeper
            if self._gaps:
                segment.allow_gaps()
        return segment

    def end_of(self, place: int, leo: Offset) -> Offset:
        """Base of the next segment, or leo for the active one."""
        return self._bases[place + 1] if place + 1 < len(self._bases) else leo

    def add(self, segment: Segment) -> None:
        """Append the new active segment; the one before may give its descriptors back."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        segment.keeper = self._keeper
        before = self._list[-1] if self._list else None
        if before is not None:
            self.release(before)
        self._list.append(segment)
        self._bases.append(segment.base_offset)

    def above(self, offset: Offset) -> list[Segment]:
        """Segments that begin beyond offset, but never the first."""
        return self._between(self.floor(offset) + 1, len(self._list))

    def drop_after(self, offset: Offset) -> None:
        """Forget all segments whose base offset lies above `offset`. Their files stay."""
        keep = self.floor(offset) + 1
        del self._list[keep:]
        del self._bases[keep:]

    def drop_first(self, count: int) -> list[Segment]:
        """Take away the oldest; the active one stays."""
        assert count < len(self._list)
        gone = self._between(0, count)
        del self._list[:count]
        del self._bases[:count]
        return gone

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new` where these neighbours are; it begins where the first of them does. Not for the active one."""
        place = self.floor(old[0].base_offset)
        assert self._between(place, place + len(old)) == list(old)
        assert new.base_offset == self._bases[place]
        assert place + len(old) < len(self._list)
        new.keeper = self._keeper
        self._list[place : place + len(old)] = [new]
        self._bases[place : place + len(old)] = [new.base_offset]

    def replace_all(self, segment: Segment) -> None:
        """Hold this segment alone, as a log that is emptied does."""
        segment.keeper = self._keeper
        self._list = [segment]
        self._bases = [segment.base_offset]

    def _between(self, first: int, end: int) -> list[Segment]:
        return [self.at(place) for place in range(first, end)]


@contextmanager
def closed_on_failure(segments: Segments) -> Iterator[None]:
    """A log that cannot be opened holds no descriptors."""
    try:
        yield
    except BaseException:
        for segment in segments.made():
            segment.close()
        raise
