"""An `.index` or `.timeindex`: its entries, and what they say against the log beside it.

An offset index names the last offset of the batch at a position. Kafka before 3.9.1 may name, for several batches
appended at once (a follower's fetch), the last offset of all: reported as a mismatch, as Kafka's tool does, but nothing
is wrong, since a lookup still begins early enough.
Timestamps are compared with batch headers, which is what the broker goes by; Kafka's tool opens the batches, and calls
a header that the cleaner left without records a mismatch. Source: OffsetIndex, TimeIndex, DumpLogSegments.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from broker.dump.index_reader import BadIndex, Log, check_size, entries
from broker.dump.report import Finding, Report
from broker.log.files.batch_scan import BadBatch, BatchAt
from broker.log.files.names import LOG_SUFFIX, segment_path
from broker.log.indexes import offset_index, time_index
from broker.log.indexes.time_index import NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """verify_only: entries are checked, not printed. sanity_only: only what a broker checks at its start."""

    verify_only: bool = False
    sanity_only: bool = False


class IndexDump:
    """One index file's dump; base class of the two kinds."""

    entry = offset_index.ENTRY

    def __init__(self, path: str, base_offset: int, options: IndexOptions, report: Report) -> None:
        self._path = path
        self._absolute = os.path.abspath(path)
        self._base_offset = base_offset
        self._options = options
        self._report = report

    def run(self) -> None:
        """Raises OSError where the index itself cannot be read."""
        fd = os.open(self._path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            try:
                check_size(size, self.entry)
            except BadIndex as bad:
                self._report.problem(self._path, str(bad))
            self._with_log(entries(fd, self.entry))
        except BadIndex as bad:
            self._report.problem(self._path, str(bad))
        finally:
            os.close(fd)

    def _with_log(self, found: Iterator[tuple[int, int, int]]) -> None:
        first = next(found, None)
        if first is None:
            self._report_empty()
            return
        path = segment_path(os.path.dirname(self._absolute), self._base_offset, LOG_SUFFIX)
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            self._report.problem(self._path, f"cannot be checked against {path}: {error.strerror}")
            self._dump(chain((first,), found), None)
            return
        try:
            self._dump(chain((first,), found), Log(fd))
        finally:
            os.close(fd)

    def _dump(self, found: Iterator[tuple[int, int, int]], log: Log | None) -> None:
        if not self._options.sanity_only:
            self._check_all(found, log)
            return
        first = next(found)
        last = deque(found, maxlen=1)
        reason = self._insanity(first[1:], (last[0] if last else first)[1:], log)
        if reason:
            self._report.problem(self._path, f"{reason}; a broker makes the index anew at its start")
        else:
            self._report.line(f"{self._path} passed sanity check.")

    def _report_empty(self) -> None:
        """Kafka's tool says nothing of an empty time index."""

    def _line(self, text: str) -> None:
        if not self._options.verify_only:
            self._report.line(text)

    def _check_all(self, found: Iterator[tuple[int, int, int]], log: Log | None) -> None:
        raise NotImplementedError

    def _insanity(self, first: tuple[int, int], last: tuple[int, int], log: Log | None) -> str:
        """What a broker's check at its start says against these two entries; "" for nothing."""
        raise NotImplementedError


class OffsetIndexDump(IndexDump):
    """Entries (relative offset, position)."""

    def _report_empty(self) -> None:
        self._report.line(f"{self._path} is empty.")

    def _check_all(self, found: Iterator[tuple[int, int, int]], log: Log | None) -> None:
        rising = True
        before = (-1, -1)
        end = (0, 0, -1 if log is None else log.size)
        for (at, relative, position), (_, _, next_position) in pairwise(chain(found, (end,))):
            self._line(f"offset: {self._base_offset + relative} position: {position}")
            if relative <= before[0] or position <= before[1]:
                rising = False
                old = f"offset {self._base_offset + before[0]}, position {before[1]}"
                self._report.problem(self._path, f"at position {at}: an entry after {old} must be above it in both")
            before = (relative, position)
            if log is not None:
                self._check(at, self._base_offset + relative, position, next_position if rising else position, log)

    def _check(self, at: int, offset: int, position: int, next_position: int, log: Log) -> None:
        try:
            batch = log.batch_at(position)
        except BadBatch as bad:
            self._report.problem(self._path, f"at position {at}: no batch where offset {offset} points: {bad}")
            return
        if batch.last_offset != offset:
            harmless = batch.last_offset < offset and _one_ends_at(offset, log.batches(position, next_position))
            self._report.pair(Finding.INDEX_MISMATCH, self._absolute, offset, batch.last_offset, harmless=harmless)

    def _insanity(self, first: tuple[int, int], last: tuple[int, int], log: Log | None) -> str:
        if last[0] < 0:
            return f"its last offset is {self._base_offset + last[0]}, below {self._base_offset}"
        if log is not None and not 0 < last[1] < log.size:
            return f"its last entry points to position {last[1]} of a log of {log.size} bytes"
        return ""


class TimeIndexDump(IndexDump):
    """Entries (timestamp, relative offset)."""

    entry = time_index.ENTRY

    def _check_all(self, found: Iterator[tuple[int, int, int]], log: Log | None) -> None:
        batches: Iterator[BatchAt] | None = None if log is None else log.batches()
        batch: BatchAt | None = None
        last_timestamp = NO_TIMESTAMP
        last_offset = self._base_offset - 1
        for at, timestamp, relative in found:
            offset = self._base_offset + relative
            self._line(f"timestamp: {timestamp} offset: {offset}")
            if timestamp <= last_timestamp:
                self._report.pair(Finding.TIME_ORDER, self._absolute, timestamp, last_timestamp)
            last_timestamp = timestamp
            if offset < last_offset:
                self._report.problem(self._path, f"at position {at}: offset {offset} after {last_offset}, must rise")
                continue
            last_offset = offset
            if batches is None:
                continue
            try:
                while batch is None or batch.last_offset < offset:
                    batch = next(batches)
            except StopIteration:
                self._report.pair(Finding.OFFSET_NOT_FOUND, self._absolute, offset, -1)
                continue
            except BadBatch as bad:
                self._report.problem(
                    self._path, f"cannot be checked from offset {offset} on, the log is damaged: {bad}"
                )
                batches = None
                continue
            self._check(timestamp, offset, batch)

    def _check(self, timestamp: int, offset: int, batch: BatchAt) -> None:
        if batch.last_offset != offset:
            self._report.pair(Finding.OFFSET_NOT_FOUND, self._absolute, offset, batch.last_offset)
        elif batch.max_timestamp != timestamp:
            self._report.pair(Finding.TIME_MISMATCH, self._absolute, timestamp, batch.max_timestamp)

    def _insanity(self, first: tuple[int, int], last: tuple[int, int], log: Log | None) -> str:
        if first[0] < 0 or first[1] < 0 or last[0] < first[0] or last[1] < first[1]:
            return (
                f"its entries do not rise from timestamp {first[0]}, offset {self._base_offset + first[1]} "
                f"to timestamp {last[0]}, offset {self._base_offset + last[1]}"
            )
        return ""


def _one_ends_at(offset: int, batches: Iterator[BatchAt]) -> bool:
    try:
        return next((batch.last_offset for batch in batches if batch.last_offset >= offset), -1) == offset
    except BadBatch:
        return False
