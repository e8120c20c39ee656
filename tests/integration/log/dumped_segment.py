"""The files of one segment, where batches lie in it, and where fields lie in a batch."""

from __future__ import annotations

from pathlib import Path

from broker.wire.record_batch import iter_batches
from tests.support.dump import Dumped

BATCHES = 60
LENGTH_AT, MAGIC_AT, COUNT_AT = 8, 16, 57


def name(suffix: str) -> str:
    return f"{0:020d}{suffix}"


def positions(log: Path) -> list[int]:
    return [position for position, _ in iter_batches(memoryview(log.read_bytes()), verify_crc=True)]


def put(file: Path, position: int, data: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[position : position + len(data)] = data
    file.write_bytes(content)


def shallow(said: Dumped) -> list[int]:
    return [int(line["baseOffset"]) for line in said.batches]
