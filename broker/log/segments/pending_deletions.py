"""Segments that are gone from a log but not yet from the disk.

Their names change at once; their descriptors stay open, because reads that were answered with a slice of the file may
still be on their way out. They are closed on the loop after the delay, and only then the files are removed, elsewhere:
see `broker.log.segments.removal`. Files that a stop leaves have a name that the next start removes.
Source: LocalLog.deleteSegmentFiles.
"""

from __future__ import annotations

from broker.log.environment import Environment
from broker.log.files.names import DELETED_SUFFIX, SUFFIXES, set_aside
from broker.log.segments.removal import remove_files
from broker.log.segments.segment import Segment


class PendingDeletions:
    """The deleted segments of one log."""

    __slots__ = ("_environment", "_segments")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._segments: dict[Segment, list[str]] = {}

    def add(self, segment: Segment, delay_ms: float) -> None:
        """Hide the files now, remove them after the delay. Raises OSError."""
        segment.rename(DELETED_SUFFIX)
        self.add_hidden(segment, delay_ms)

    def add_hidden(self, segment: Segment, delay_ms: float) -> None:
        """The same for one whose files are hidden already. Raises OSError."""
        self._segments[segment] = [set_aside(segment.path(suffix) + DELETED_SUFFIX) for suffix in SUFFIXES]
        self._environment.schedule(delay_ms, lambda: self._remove(segment))

    def close(self) -> None:
        """No read is in flight. The files are the next start's business, or go with all of the log."""
        for segment in self._segments:
            segment.close()
        self._segments.clear()

    def _remove(self, segment: Segment) -> None:
        paths = self._segments.pop(segment, None)
        if paths is not None:
            segment.close()
            remove_files(self._environment, paths)
