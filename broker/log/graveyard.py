"""Segments that are gone from a log but not yet from the disk.

Their names change at once; their descriptors stay open, because reads that were answered with a slice of the file may
still be on their way out. Source: LocalLog.deleteSegmentFiles.
"""

from __future__ import annotations

from broker.log.environment import Environment
from broker.log.files import DELETED_SUFFIX, SUFFIXES, remove_if_there
from broker.log.segment import Segment


class Graveyard:
    """The deleted segments of one log."""

    __slots__ = ("_environment", "_segments")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._segments: list[Segment] = []

    def take(self, segment: Segment, delay_ms: float) -> None:
        """Hide the files now, remove them after the delay. Raises OSError."""
        segment.rename(DELETED_SUFFIX)
        self.bury(segment, delay_ms)

    def bury(self, segment: Segment, delay_ms: float) -> None:
        """The same for one whose files are hidden already."""
        self._segments.append(segment)
        self._environment.schedule(delay_ms, lambda: self._remove(segment))

    def clear(self) -> None:
        """Remove all now; no read is in flight."""
        for segment in list(self._segments):
            self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        if segment not in self._segments:
            return
        self._segments.remove(segment)
        segment.close()
        for suffix in SUFFIXES:
            remove_if_there(segment.path(suffix) + DELETED_SUFFIX)
