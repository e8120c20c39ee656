"""Logs of any length that take no disk: batches whose records are holes, with right headers, checksums and indexes.

Writes Kafka's file layout for brokers that are stopped. The batches' records are zeros, so the logs serve to measure
what grows with length (start, recovery, memory, appends at their end) and not to be consumed.
"""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

BATCH_BYTES = 64 << 20
SEGMENT_BATCHES = 15
RECORDS = 1000
"""Offsets a batch."""

_HEADER = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_NO_PRODUCERS = struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
_CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def batch_header(base_offset: int, timestamp_ms: int) -> bytes:
    """The 61 bytes before the records of a batch that is BATCH_BYTES long and zero from there on."""
    covered = _COVERED.pack(0, RECORDS - 1, timestamp_ms, timestamp_ms, -1, -1, -1, RECORDS)
    return _HEADER.pack(base_offset, BATCH_BYTES - 12, 0, 2, _checksum(covered)) + covered


@functools.cache
def _checksum(covered: bytes) -> int:
    # Neither base offset nor epoch is covered, so all batches of a log have the same.
    return crc32c(bytes(BATCH_BYTES - _HEADER.size - len(covered)), crc32c(covered))


def write_sparse_log(folder: Path, batches: int) -> int:
    """Replace the segments of a partition by that many batches, and an empty last segment; returns the LEO."""
    for path in folder.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    now_ms = int(time.time() * 1000)
    for first in range(0, batches, SEGMENT_BATCHES):
        _segment(folder, first * RECORDS, min(SEGMENT_BATCHES, batches - first), now_ms)
    _segment(folder, batches * RECORDS, 0, now_ms)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    # What a clean stop leaves: without it a start replays the whole log for its producers.
    (folder / f"{batches * RECORDS:020d}.snapshot").write_bytes(_NO_PRODUCERS)
    return batches * RECORDS


def _segment(folder: Path, base: int, batches: int, timestamp_ms: int) -> None:
    with (folder / f"{base:020d}.log").open("wb") as file:
        for number in range(batches):
            file.seek(number * BATCH_BYTES)
            file.write(batch_header(base + number * RECORDS, timestamp_ms))
        file.truncate(batches * BATCH_BYTES)
    # As a broker indexes: every batch but the first, by its last offset.
    entries = (_INDEX_ENTRY.pack((n + 1) * RECORDS - 1, n * BATCH_BYTES) for n in range(1, batches))
    (folder / f"{base:020d}.index").write_bytes(b"".join(entries))
    newest = _TIME_ENTRY.pack(timestamp_ms, RECORDS - 1) if batches else b""
    (folder / f"{base:020d}.timeindex").write_bytes(newest)


def set_checkpoints(data: Path, topic: str, partition: int, offset: int) -> None:
    """Let the log folder's checkpoints say that the partition is flushed and committed up to that offset."""
    for name in _CHECKPOINTS:
        path = data / name
        path.write_text(with_entry(path.read_text() if path.exists() else "0\n0\n", topic, partition, offset))


def with_entry(checkpoint: str, topic: str, partition: int, offset: int) -> str:
    """An offset checkpoint's text with this entry in it, once. Source: kafka's CheckpointFile, version 0."""
    entries: Sequence[str] = checkpoint.splitlines()[2:]
    kept = [entry for entry in entries if entry.rsplit(" ", 1)[0] != f"{topic} {partition}"]
    kept.append(f"{topic} {partition} {offset}")
    return "\n".join(["0", str(len(kept)), *kept]) + "\n"
