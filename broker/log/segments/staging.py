"""Batches that have offsets but are not in the file yet, and when they need a new segment. No I/O.

`stamp_…` and `read_…` look at batch headers only: at most one unpack and one pack per batch.
Source: UnifiedLog.append, LogSegment.shouldRoll.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence, Sized
from typing import NamedTuple

from broker.log.config import LogConfig
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.log.segments.log_file import INT32_MAX
from broker.model.ids import Epoch, Offset, TopicPartition
from broker.model.log_errors import UnexpectedAppendOffset
from broker.wire.record_batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, CorruptBatch

# Batch length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp: from byte 8 on.
_FRONT = struct.Struct(">iibIhiqq")
_FRONT_AT = 8
_BASE = struct.Struct(">q")
_STAMP = struct.Struct(">qii")  # base offset, batch length, leader epoch


StagedBatch = tuple[Offset, Offset, int, int]
"""(base offset, last offset, max timestamp, bytes)."""


class ParsedBatches(NamedTuple):
    """What the headers of one append say. epochs: (epoch, start) of each that is not the log's latest.

    Where compaction left a hole before an epoch's first batch, the epoch began somewhere in it, nobody here knows
    where: the start is that of the hole. Offsets of the hole that another replica still holds are superseded, or were
    never committed; a later start would vouch for both (docs/adr/0016-cleaning.md).
    """

    batches: list[StagedBatch]
    max_timestamp: int
    epochs: list[tuple[Epoch, Offset]]


def stamp_one(view: memoryview, offset: Offset, epoch: Epoch, header: BatchHeader) -> StagedBatch:
    """Write base offset and epoch into the only batch of a writable view, whose header is known.

    Raises CorruptBatch unless the batch fills the view exactly.
    """
    length, delta = header.batch_length, header.last_offset_delta
    size = length + LENGTH_PREFIX_SIZE
    if size != len(view) or delta < 0:
        raise _ill_sized(0, len(view), size, delta)
    _STAMP.pack_into(view, 0, offset, length, epoch)
    return offset, offset + delta, header.max_timestamp, size


def stamp_batches(view: memoryview, offset: Offset, epoch: Epoch) -> ParsedBatches:
    """Write base offsets from `offset` on, and the epoch, into every batch of a writable view.

    Raises CorruptBatch unless whole batches fill the view exactly.
    """
    total = len(view)
    staged: list[StagedBatch] = []
    base = offset
    position = 0
    newest = -1
    while position < total:
        if total - position < HEADER_SIZE:
            raise _too_short(position, total)
        length, _, _, _, _, delta, _, timestamp = _FRONT.unpack_from(view, position + _FRONT_AT)
        size = length + LENGTH_PREFIX_SIZE
        if not HEADER_SIZE <= size <= total - position or delta < 0:
            raise _ill_sized(position, total, size, delta)
        _STAMP.pack_into(view, position, offset, length, epoch)
        last = offset + delta
        staged.append((offset, last, timestamp, size))
        if timestamp > newest:
            newest = timestamp
        offset = last + 1
        position += size
    if not staged:
        raise CorruptBatch(0, "no batch to append")
    return ParsedBatches(staged, newest, [(epoch, base)])


def read_batches(
    topic_partition: TopicPartition,
    view: memoryview,
    expected: Offset,
    latest: Epoch,
    gaps: bool,
    headers: Sequence[BatchHeader] | None = None,
) -> ParsedBatches:
    """The batches of a view as their leader wrote them. They must begin at `expected` and have no holes.

    latest: the log's latest epoch. gaps: a compacted log may skip offsets, never go back. headers: of all batches in
    order, if the caller has them at hand. Raises UnexpectedAppendOffset, CorruptBatch.
    """
    total = len(view)
    staged: list[StagedBatch] = []
    epochs: list[tuple[Epoch, Offset]] = []
    position = 0
    newest = -1
    known = iter(headers or ())
    while position < total:
        header = next(known, None)
        if header is not None:
            base, length, epoch, _, _, _, delta, _, timestamp, _, _, _, _ = header
        elif total - position < HEADER_SIZE:
            raise _too_short(position, total)
        else:
            (base,) = _BASE.unpack_from(view, position)
            length, epoch, _, _, _, delta, _, timestamp = _FRONT.unpack_from(view, position + _FRONT_AT)
        size = length + LENGTH_PREFIX_SIZE
        if not HEADER_SIZE <= size <= total - position or delta < 0:
            raise _ill_sized(position, total, size, delta)
        if base != expected and (base < expected or not gaps):
            raise UnexpectedAppendOffset(topic_partition, base, expected)
        last = base + delta
        staged.append((base, last, timestamp, size))
        if epoch != latest and epoch >= 0:
            epochs.append((epoch, expected))
            latest = epoch
        if timestamp > newest:
            newest = timestamp
        expected = last + 1
        position += size
    if not staged:
        raise CorruptBatch(0, "no batch to append")
    return ParsedBatches(staged, newest, epochs)


def _too_short(position: int, total: int) -> CorruptBatch:
    return CorruptBatch(position, f"{total - position} bytes are too few for a batch header")


def _ill_sized(position: int, total: int, size: int, delta: int) -> CorruptBatch:
    return CorruptBatch(position, f"{size} bytes, last offset delta {delta}: {total - position} bytes are left")


class StagedRun:
    """Staged bytes that go to one segment.

    roll_at: first start a segment with this base offset, and keep `snapshot` as the producer state there.
    The views are the caller's memory, valid until they are written. aborted: transactions whose markers it holds.
    """

    __slots__ = ("aborted", "batches", "roll_at", "snapshot", "views")

    def __init__(self, roll_at: Offset | None, snapshot: bytes | None = None) -> None:
        self.roll_at = roll_at
        self.snapshot = snapshot
        self.views: list[memoryview] = []
        self.batches: list[StagedBatch] = []
        self.aborted: list[AbortedTxn] = []


class Staging:
    """Runs in write order, and the segment as it will be once they are written."""

    __slots__ = ("_base", "_created_ms", "_first_timestamp", "_jitter_ms", "_size", "runs")

    def __init__(self) -> None:
        self.runs: list[StagedRun] = []
        self.aim(0, 0, -1, 0.0)

    def aim(self, base_offset: Offset, size: int, first_timestamp: int, created_ms: float) -> None:
        """Drop what is staged; the next batch goes behind `size` bytes of the segment with this base."""
        self.runs.clear()
        self._base = base_offset
        self._size = size
        self._first_timestamp = first_timestamp
        self._created_ms = created_ms
        self._jitter_ms = 0

    def must_roll(
        self, size: int, timestamp: int, last: Offset, config: LogConfig, now_ms: Callable[[], float], indexed: Sized
    ) -> bool:
        """Whether the next `size` bytes, with this max timestamp and last offset, need a segment of their own.

        now_ms: the clock, read only where batches without timestamps leave nothing else. indexed: the offset index
        of the active segment.
        """
        held = self._size
        if held == 0:
            return last - self._base > INT32_MAX
        first = self._first_timestamp
        return (
            held + size > config.segment_bytes
            or (timestamp - first if first >= 0 else now_ms() - self._created_ms) > config.segment_ms
            or last - self._base > INT32_MAX
            or (held >= config.index_safe_bytes and self._entries(indexed) >= config.index_entries_max)
        )

    def _entries(self, indexed: Sized) -> int:
        """The most index entries that the segment can have."""
        if not self.runs:
            return len(indexed)
        run = self.runs[-1]
        return len(run.batches) + (len(indexed) if run.roll_at is None else 0)

    def begin_segment(self, base_offset: Offset, snapshot: bytes | None, now_ms: float, jitter_ms: int = 0) -> None:
        """jitter_ms: the segment is rolled this much before segment.ms is over, so that not all logs roll at once."""
        self.runs.append(StagedRun(base_offset, snapshot))
        self._base = base_offset
        self._size = 0
        self._created_ms = now_ms - jitter_ms
        self._jitter_ms = jitter_ms

    def add(self, view: memoryview, batches: Sequence[StagedBatch], size: int) -> None:
        """Keep whole batches, `size` bytes in all, for the turn's write; a run ends where a segment does."""
        runs = self.runs
        if not runs:
            runs.append(StagedRun(None))
        if self._size == 0:
            self._first_timestamp = batches[0][2] - self._jitter_ms
        run = runs[-1]
        run.views.append(view)
        run.batches += batches
        self._size += size
