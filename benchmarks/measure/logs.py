"""The logs of a topic on the disks of its replicas: how far they reach, whether they are equal, out of the page cache.

Works on Kafka's file layout (folder topic-partition, segments <base offset>.log of batches of magic 2), which both
systems write. Must not know who wrote the files. A segment may end at another batch on another replica, so logs are
compared as the joined bytes of their segments.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_BATCH_START = struct.Struct(">qi")
_LAST_OFFSET_DELTA_AT = 23
_BATCH_HEADER_BYTES = 61
_COMPARED_BYTES = 4 << 20


def segments(folder: Path) -> list[Path]:
    """Segment files of one partition, by base offset."""
    return sorted(folder.glob("*.log"))


def size_bytes(folder: Path) -> int:
    """Length of the log; 0 when the folder is not there yet."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    total += entry.stat().st_size
    except FileNotFoundError:
        return 0
    return total


def sizes(data_folders: Sequence[Path], topic: str, partitions: int) -> list[list[int]]:
    """Per partition the length of its log on each replica."""
    return [replica_sizes(data_folders, topic, p) for p in range(partitions)]


def replica_sizes(data_folders: Sequence[Path], topic: str, partition: int) -> list[int]:
    """The length of its log on each replica."""
    return [size_bytes(data / f"{topic}-{partition}") for data in data_folders]


def all_equal(of: Sequence[Sequence[int]]) -> bool:
    """Whether the replicas of every partition are equally long."""
    return all(len(set(lengths)) == 1 for lengths in of)


def end_offset(folder: Path) -> int:
    """The log's LEO: one past the last offset of its last whole batch. Raises ValueError at bytes that are no batch."""
    end = 0
    for segment in segments(folder):
        if segment.stat().st_size == 0:
            end = max(end, int(segment.stem))
            continue
        with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            end = max(end, _end_of_batches(data, segment))
    return end


def _end_of_batches(data: mmap.mmap, segment: Path) -> int:
    at, end = 0, int(segment.stem)
    while at < len(data):
        if len(data) - at < _BATCH_HEADER_BYTES:
            raise ValueError(f"{segment}: {len(data) - at} bytes at {at} are no batch")
        base, length = _BATCH_START.unpack_from(data, at)
        if at + _BATCH_START.size + length > len(data):
            raise ValueError(f"{segment}: the batch at {at} wants {length} bytes, the file ends before")
        (delta,) = struct.unpack_from(">i", data, at + _LAST_OFFSET_DELTA_AT)
        end = base + delta + 1
        at += _BATCH_START.size + length
    return end


@dataclass(frozen=True, slots=True)
class Difference:
    partition: int
    text: str


def first_difference(data_folders: Sequence[Path], topic: str, partitions: int) -> Difference | None:
    """The first partition whose replicas differ in a byte; None when all are equal."""
    for partition in range(partitions):
        folders = [data / f"{topic}-{partition}" for data in data_folders]
        at = 0
        for chunks in zip(*(_chunks(folder) for folder in folders), strict=False):
            if any(chunk != chunks[0] for chunk in chunks[1:]):
                return Difference(partition, f"replicas differ within {len(chunks[0])} bytes from byte {at}")
            at += len(chunks[0])
        lengths = [size_bytes(folder) for folder in folders]
        if set(lengths) != {at}:
            return Difference(partition, f"replicas are {lengths} bytes long, {at} were compared")
    return None


def _chunks(folder: Path) -> Iterator[bytes]:
    """The log in pieces of a fixed size, whatever its segments."""
    held = b""
    for segment in segments(folder):
        with segment.open("rb", buffering=0) as file:
            while True:
                # At most what the piece lacks: equal logs must give equal pieces.
                data = file.read(_COMPARED_BYTES - len(held))
                if not data:
                    break
                held += data
                if len(held) == _COMPARED_BYTES:
                    yield held
                    held = b""
    if held:
        yield held


def drop_from_cache(data_folders: Sequence[Path], topic: str) -> None:
    """Write back and then forget the cached pages of a topic's files, so that the next read comes from the disk."""
    for data in data_folders:
        for path in sorted(data.glob(f"{topic}-*/*.log")):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
