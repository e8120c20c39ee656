"""Cleans one log: reads whole inactive segments, writes `.cleaned` ones beside them. Touches no file of the log itself.

Two passes: the dirty part's keys into the offset map, then every segment from the log's first to the end of the mapped
part, in groups that each become one segment. Each finished group is handed out as a `CleanedGroup`, so that the owner
of the log can put it in place while the next is written. Runs on another thread or in another process.
The CRC of every batch is checked; a wrong one ends the cleaning, and nothing of that group is kept. A file that is
missing, or shorter than the job says, may have been removed or cut by the log's owner meanwhile: only the owner can
know, and checks the log again (`damage_proof`).
Records that were aborted are neither mapped nor kept. The first cleaning that passes a marker and nothing of its
transaction drops the index's entry of it, and gives the marker a delete horizon, like a tombstone. A marker with the
epoch of a producer of which no batch is known stays.
Source: kafka Cleaner (LogCleaner.scala: doClean, buildOffsetMap, cleanSegments, cleanInto).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.compaction import SegmentFacts, group_segments, keeps_empty, keeps_record
from broker.log.cleaner.batches import Filtered, delete_horizon_ms, filter_batch, without_records
from broker.log.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from broker.log.cleaner.passed_transactions import PassedTransactions, UnknownAbort
from broker.log.cleaner.throttle import Throttle
from broker.log.cleaner.writer import CleanedWriter
from broker.log.files.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, segment_path
from broker.log.indexes.aborted_txn import AbortedTxn, TransactionIndexDamaged, decode, encode
from broker.model.ids import Offset
from broker.wire.control_records import marker_of
from broker.wire.raw_records import RawRecord, payload_of, raw_records
from broker.wire.record_batch import (
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    read_header,
)

CheckDone = Callable[[], None]


class CleaningStopped(Exception):
    """The cleaning was called off from outside; nothing is wrong."""


class UncleanableLog(Exception):
    """Bytes that cannot be right, or cannot be read here: this log is not cleaned any more."""


class DamagedLog(UncleanableLog):
    """A file that ends too early, or bytes that no broker wrote, unless the log's owner has cut the file meanwhile.

    base: of the segment. position: where the bad batch begins, or a good one that the next contradicts.
    """

    def __init__(self, base: Offset, position: int, reason: str) -> None:
        super().__init__(reason)
        self.base = base
        self.position = position


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """Everything a cleaning has to know. Times are wall clock ms.

    bases, sizes: of the segments below first_uncleanable, rising. producers: active producer id → last offset of its
    newest batch. epochs: producer id → epoch of those of which a marker alone is known. aborted: the transactions with
    records below first_uncleanable and a marker at or beyond it.
    """

    directory: str
    bases: Sequence[Offset]
    sizes: Sequence[int]
    first_dirty: Offset
    first_uncleanable: Offset
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes_max: int
    interval_bytes: int
    dedupe_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")
    producers: Mapping[int, Offset] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)
    aborted: Sequence[AbortedTxn] = ()


class CleanedGroup(NamedTuple):
    """These neighbouring segments are replaced by the cleaned one with the first one's base."""

    bases: tuple[Offset, ...]


@dataclass(slots=True)
class CleaningStats:
    """end: where the next cleaning's dirty part begins, known once the map is built."""

    end: Offset = -1
    keys: int = 0
    map_full: bool = False
    records_read: int = 0
    records_kept: int = 0
    keyless: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class LogCleaning:
    """One run over one log."""

    def __init__(self, job: CleaningJob, throttle: Throttle, check_done: CheckDone = lambda: None) -> None:
        """check_done: raises CleaningStopped when nobody wants the result any more."""
        self.stats = CleaningStats()
        self._job = job
        self._throttle = throttle
        self._check_done = check_done
        self._aborted: list[AbortedTxn] = []

    def run(self) -> Iterator[CleanedGroup]:
        """Raises CleaningStopped, UncleanableLog (among it DamagedLog), OSError."""
        job = self._job
        try:
            self._aborted = [*job.aborted, *(entry for base in job.bases for entry in self._aborted_in(base))]
            offsets = self._build_map()
            self.stats.end = offsets.latest_offset + 1
            self.stats.keys = offsets.entries
            segments = [
                SegmentFacts(base, size, self._size_of(base, INDEX_SUFFIX), self._size_of(base, TIME_INDEX_SUFFIX))
                for base, size in zip(job.bases, job.sizes, strict=True)
                if base < self.stats.end
            ]
            after = [base for base in job.bases if base >= self.stats.end]
            bound = after[0] if after else job.first_uncleanable
            passed = PassedTransactions(self._aborted)
            for group in group_segments(segments, job.segment_bytes, job.index_bytes_max, bound):
                yield self._clean_group(group, offsets, passed)
        except UnknownAbort as error:
            raise UncleanableLog(f"{job.directory}: {error}") from error
        except CorruptBatch as error:
            raise UncleanableLog(f"{job.directory}: {error.reason}") from error

    # The map

    def _build_map(self) -> OffsetMap:
        job = self._job
        dirty = [
            (base, size, job.bases[place + 1] if place + 1 < len(job.bases) else job.first_uncleanable)
            for place, (base, size) in enumerate(zip(job.bases, job.sizes, strict=True))
        ]
        dirty = [row for row in dirty if row[2] > job.first_dirty]
        offsets = OffsetMap(self._map_bytes(dirty), job.load_factor)
        offsets.latest_offset = job.first_dirty - 1
        passed = PassedTransactions(self._aborted)
        for base, size, next_base in dirty:
            if not self._map_segment(offsets, base, size, passed):
                self.stats.map_full = True
                break
            # Also past a hole at the segment's end.
            offsets.latest_offset = next_base - 1
        return offsets

    def _map_bytes(self, dirty: Sequence[tuple[Offset, int, Offset]]) -> int:
        """At most what the job allows, and what all dirty records could need: hashing touches all of the table."""
        records = sum(next_base - max(base, self._job.first_dirty) for base, _, next_base in dirty)
        enough = (int((records + 1) / self._job.load_factor) + 2) * ENTRY_BYTES
        return min(self._job.dedupe_bytes, enough)

    def _map_segment(self, offsets: OffsetMap, base: Offset, size: int, passed: PassedTransactions) -> bool:
        """False when the map is full before the segment's end."""
        first_dirty = self._job.first_dirty
        for header, batch in self._batches(base, size):
            if header.is_control:
                passed.end(header, marker_of(header, batch))
            elif not passed.aborts(header) and header.last_offset >= first_dirty:
                for record in raw_records(header, payload_of(header, batch)):
                    if record.key is None or record.offset < first_dirty:
                        continue
                    if not offsets.put(record.key, record.offset):
                        return False
            if header.last_offset >= first_dirty:
                offsets.latest_offset = header.last_offset
        return True

    # The copy

    def _clean_group(
        self, group: Sequence[SegmentFacts], offsets: OffsetMap, passed: PassedTransactions
    ) -> CleanedGroup:
        job, stats = self._job, self.stats
        writer = CleanedWriter(job.directory, group[0].base_offset, job.interval_bytes)
        try:
            for segment in group:
                for header, batch in self._batches(segment.base_offset, segment.size):
                    if header.is_control:
                        found = self._marker(header, batch, passed, writer)
                    else:
                        found = self._data(header, batch, offsets, passed)
                    stats.records_read += header.record_count
                    if found.data is not None:
                        stats.records_kept += found.records
                        stats.bytes_written += len(found.data)
                        self._throttle.used(len(found.data))
                        writer.add(found.data, header.last_offset, found.max_timestamp)
            newest = segment_path(job.directory, group[-1].base_offset, LOG_SUFFIX)
            writer.finish(os.stat(newest).st_mtime_ns)
        except BaseException:
            writer.discard()
            raise
        return CleanedGroup(tuple(segment.base_offset for segment in group))

    def _marker(
        self, header: BatchHeader, batch: memoryview, passed: PassedTransactions, writer: CleanedWriter
    ) -> Filtered:
        job = self._job
        ended = passed.end(header, marker_of(header, batch))
        if ended.entry is not None:
            writer.add_aborted(encode([ended.entry]))
        horizon = delete_horizon_ms(header)
        last_of_producer = job.epochs.get(header.producer_id) == header.producer_epoch
        if not ended.removable or keeps_empty(header.last_offset + 1, job.first_uncleanable, last_of_producer):
            return Filtered(batch, header.record_count, header.max_timestamp)
        if (horizon is not None and horizon <= job.now_ms) or not header.record_count:
            return without_records(header, keep_empty=False)
        new_horizon_ms = job.now_ms + job.delete_retention_ms
        return filter_batch(header, batch, lambda _: True, False, new_horizon_ms, removable_marker=True)

    def _data(self, header: BatchHeader, batch: memoryview, offsets: OffsetMap, passed: PassedTransactions) -> Filtered:
        job = self._job
        until = offsets.latest_offset
        last_of_producer = header.producer_id >= 0 and job.producers.get(header.producer_id) == header.last_offset
        keep_empty = keeps_empty(header.last_offset + 1, job.first_uncleanable, last_of_producer)
        if passed.aborts(header):
            return without_records(header, keep_empty)
        horizon = delete_horizon_ms(header)
        if header.base_offset > until:
            # Not mapped: every record stays, and tombstones get no delete horizon yet.
            return Filtered(batch, header.record_count, header.max_timestamp)

        def keeps(record: RawRecord) -> bool:
            if record.key is None:
                if record.offset > until:
                    return True
                self.stats.keyless += 1
                return False
            newest = offsets.get(record.key)
            return keeps_record(record.offset, until, newest, record.has_value, horizon, job.now_ms)

        return filter_batch(header, batch, keeps, keep_empty, job.now_ms + job.delete_retention_ms)

    # Reading

    def _batches(self, base: Offset, size: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Batches of a segment's first `size` bytes, their CRCs checked. A view is good until the next one is drawn."""
        path = segment_path(self._job.directory, base, LOG_SUFFIX)
        buffer_bytes = max(self._job.io_buffer_bytes, HEADER_SIZE)
        expected = base
        before = 0
        """Where the batch before lies."""
        fd = os.open(path, os.O_RDONLY)
        try:
            position = 0
            while position < size:
                self._check_done()
                wanted = min(buffer_bytes, size - position)
                data = os.pread(fd, wanted, position)
                if len(data) < wanted:
                    raise DamagedLog(base, position, f"{path}: it ends at {position + len(data)}, it had {size} bytes")
                view = memoryview(data)
                at = 0
                while len(view) - at >= HEADER_SIZE:
                    length = int.from_bytes(view[at + 8 : at + 12], "big") + LENGTH_PREFIX_SIZE
                    if length > size - position - at:
                        raise DamagedLog(
                            base, position + at, f"{path}: batch of {length} bytes at {position + at} in {size} bytes"
                        )
                    if length > len(view) - at:
                        break
                    batch = view[at : at + length]
                    header = _checked(path, base, position + at, batch)
                    if header.base_offset < expected:
                        raise DamagedLog(
                            base,
                            before,
                            f"{path}: base offset {header.base_offset} at {position + at}, after {expected - 1}",
                        )
                    expected = header.last_offset + 1
                    before = position + at
                    yield header, batch
                    at += length
                self.stats.bytes_read += at
                self._throttle.used(at)
                position += at
                if at:
                    buffer_bytes = max(self._job.io_buffer_bytes, HEADER_SIZE)
                elif len(view) < HEADER_SIZE:
                    # The file's last bytes, too few for a batch: raises.
                    _checked(path, base, position, view)
                else:
                    # One batch is larger than the buffer.
                    buffer_bytes = int.from_bytes(view[8:12], "big") + LENGTH_PREFIX_SIZE
        finally:
            os.close(fd)

    def _aborted_in(self, base: Offset) -> list[AbortedTxn]:
        """The index of a segment's aborted transactions, whole and sound."""
        path = segment_path(self._job.directory, base, TXN_INDEX_SUFFIX)
        try:
            with open(path, "rb") as file:
                data = file.read()
            return list(decode(base, data))
        except FileNotFoundError:
            return []
        except TransactionIndexDamaged as damage:
            raise DamagedLog(base, 0, f"{path}: {damage}") from damage

    def _size_of(self, base: Offset, suffix: str) -> int:
        try:
            return os.stat(segment_path(self._job.directory, base, suffix)).st_size
        except FileNotFoundError:
            return 0


def _checked(path: str, base: Offset, position: int, batch: memoryview) -> BatchHeader:
    """Raises UncleanableLog for batches of before Kafka 0.11, DamagedLog for bytes that are no batch."""
    try:
        header = read_header(batch)
        check_crc(batch, 0, header)
    except UnsupportedMagic as error:
        raise UncleanableLog(f"{path}: at position {position}: {error.reason}") from error
    except CorruptBatch as error:
        raise DamagedLog(base, position, f"{path}: at position {position}: {error.reason}") from error
    return header
