"""Logs of any length that take no disk: segments that are one batch each, nearly all of it a hole.

Writes Kafka's file layout for brokers that are stopped. The batches have right headers and wrong checksums, so the logs
serve to measure what grows with size (start, recovery, memory, appends at their end) and not to be read.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from pathlib import Path

SEGMENT_BYTES = (1 << 30) - 4096
RECORDS_PER_SEGMENT = 1000
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def batch_header(base_offset: int, records: int, total_bytes: int, timestamp_ms: int) -> bytes:
    """The 61 bytes before the records of a batch of that whole length, without producer and with a CRC of 0."""
    length, magic, epoch, last = total_bytes - 12, 2, 0, records - 1
    return _HEADER.pack(base_offset, length, epoch, magic, 0, 0, last, timestamp_ms, timestamp_ms, -1, -1, -1, records)


def write_sparse_log(folder: Path, total_bytes: int) -> int:
    """Replace the segments of a partition by sparse ones of that length in all, and an empty last; returns the LEO."""
    for path in folder.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    now_ms = int(time.time() * 1000)
    base = 0
    while total_bytes > 0:
        size = min(SEGMENT_BYTES, total_bytes)
        _segment(folder, base, batch_header(base, RECORDS_PER_SEGMENT, size, now_ms), size)
        base += RECORDS_PER_SEGMENT
        total_bytes -= size
    _segment(folder, base, b"", 0)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return base


def _segment(folder: Path, base: int, start: bytes, size: int) -> None:
    name = f"{base:020d}"
    with (folder / f"{name}.log").open("wb") as file:
        file.write(start)
        file.truncate(size)
    (folder / f"{name}.index").touch()
    (folder / f"{name}.timeindex").touch()


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
