"""A cleaner that meets files which are not as they were left: no cleaning hangs over them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.cleaner import CleaningJob, DamagedLog, LogCleaning
from broker.log.cleaner_throttle import unlimited
from broker.log.log import PartitionLog
from broker.log.store import DiskLogStore
from broker.wire.record_batch import iter_batches
from tests.property.log.compaction_tools import (
    COMPACTED,
    append_overwriting,
)
from tests.property.log.log_tools import Clock, kill, open_log, open_store

_ENOUGH_READS = 1000
_MAGIC_AT = 16
"""Of a batch: base offset 8, length 4, leader epoch 4."""

Harm = Callable[[Path], None]


def _job(log: PartitionLog, io_buffer_bytes: int) -> CleaningJob:
    segments = log.inactive_segments(log.leo)
    return CleaningJob(
        directory=log.path,
        bases=[segment.base_offset for segment in segments],
        sizes=[segment.size for segment in segments],
        first_dirty=0,
        first_uncleanable=log.segment_base_offsets[-1],
        now_ms=1000,
        delete_retention_ms=0,
        segment_bytes=2000,
        index_bytes_max=1 << 20,
        interval_bytes=4096,
        io_buffer_bytes=io_buffer_bytes,
    )


def _stops_at_last() -> Callable[[], None]:
    """For a cleaning that would read for ever."""
    reads = 0

    def check() -> None:
        nonlocal reads
        reads += 1
        assert reads < _ENOUGH_READS, "it reads for ever"

    return check


def _positions(path: Path) -> list[int]:
    return [position for position, _ in iter_batches(memoryview(path.read_bytes()), verify_crc=False)]


def _flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def _cut_in_a_batch(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


def _cut_in_a_header(path: Path) -> None:
    os.truncate(path, _positions(path)[-1] + 40)


def _cut_between_batches(path: Path) -> None:
    os.truncate(path, _positions(path)[-2])


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _flip_a_byte(path: Path) -> None:
    _flip(path, _positions(path)[1] + 70)


def _flip_a_magic(path: Path) -> None:
    _flip(path, _positions(path)[-1] + _MAGIC_AT)


def _repeat_an_offset(path: Path) -> None:
    """No CRC covers it, and nothing is wrong with this batch alone."""
    first, second, *_ = _positions(path)
    content = bytearray(path.read_bytes())
    content[second : second + 8] = content[first : first + 8]
    path.write_bytes(content)


CUTS: list[Harm] = [_cut_in_a_batch, _cut_in_a_header, _cut_between_batches, _empty]
FLIPS: list[Harm] = [_flip_a_byte, _flip_a_magic, _repeat_an_offset]


def _named(harm: Harm) -> str:
    return harm.__name__.strip("_")  # type: ignore[attr-defined,no-any-return]


def _file(log: PartitionLog, place: int) -> Path:
    return Path(log.inactive_segments(log.leo)[place].path(".log"))


def _log(path: str) -> tuple[DiskLogStore, PartitionLog]:
    store = open_store(path, Clock(), COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60)
    assert len(log.segment_base_offsets) > 5
    return store, log


@pytest.mark.parametrize("io_buffer_bytes", [100, 256, 1 << 19])
@pytest.mark.parametrize("harm", CUTS, ids=_named)
def test_cleaning_of_a_file_that_became_shorter_ends(path: str, harm: Harm, io_buffer_bytes: int) -> None:
    store, log = _log(path)
    job = _job(log, io_buffer_bytes)
    harm(_file(log, 1))
    with pytest.raises(DamagedLog, match="it ends at") as caught:
        list(LogCleaning(job, unlimited(), _stops_at_last()).run())
    assert caught.value.base == job.bases[1]
    kill(store)


@pytest.mark.parametrize("harm", FLIPS, ids=_named)
def test_cleaning_says_where_the_damage_is(path: str, harm: Harm) -> None:
    store, log = _log(path)
    job = _job(log, 1 << 19)
    positions = _positions(_file(log, 1))
    harm(_file(log, 1))
    with pytest.raises(DamagedLog) as caught:
        list(LogCleaning(job, unlimited()).run())
    assert caught.value.base == job.bases[1]
    assert caught.value.position == {_flip_a_byte: positions[1], _flip_a_magic: positions[-1]}.get(harm, 0)
    kill(store)
