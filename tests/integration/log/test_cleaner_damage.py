"""A cleaner that meets files which are not as they were left: their log tells of them, no cleaning hangs over them, and
no other log waits for them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from broker.log.cleaner.cleaner import CleaningJob, DamagedLog, LogCleaning, UncleanableLog
from broker.log.cleaner.throttle import unlimited
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.wire.record_batch import CorruptBatch, iter_batches
from tests.integration.log.held_cleaner import ENOUGH_READS, HeldCleaner
from tests.property.log.compaction_tools import COMPACTED, append_overwriting, keyed, last_values, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_log, open_store
from tests.support.flipped import flip

pytestmark = pytest.mark.guarantee("L3", "L6")

OTHER = TopicPartition("t", 1)
_MAGIC_AT = 16
"""Of a batch: base offset 8, length 4, leader epoch 4."""

Harm = Callable[[Path], None]


def _job(log: PartitionLog, io_buffer_bytes: int) -> CleaningJob:
    segments = log.cleaning.inactive_segments(log.staged_end_offset)
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
        assert reads < ENOUGH_READS, "it reads for ever"

    return check


def _positions(path: Path) -> list[int]:
    return [position for position, _ in iter_batches(memoryview(path.read_bytes()), verify_crc=False)]


def _cut_in_a_batch(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


def _cut_in_a_header(path: Path) -> None:
    os.truncate(path, _positions(path)[-1] + 40)


def _cut_between_batches(path: Path) -> None:
    os.truncate(path, _positions(path)[-2])


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _flip_a_byte(path: Path) -> None:
    flip(path, _positions(path)[1] + 70, 0x10)


def _flip_a_magic(path: Path) -> None:
    flip(path, _positions(path)[-1] + _MAGIC_AT, 0x10)


def _repeat_an_offset(path: Path) -> None:
    """No CRC covers it, and nothing is wrong with this batch alone."""
    first, second, *_ = _positions(path)
    content = bytearray(path.read_bytes())
    content[second : second + 8] = content[first : first + 8]
    path.write_bytes(content)


CUTS: list[Harm] = [_cut_in_a_batch, _cut_in_a_header, _cut_between_batches, _empty]
FLIPS: list[Harm] = [_flip_a_byte, _flip_a_magic, _repeat_an_offset]


def _named(harm: Harm) -> str:
    return harm.__name__.strip("_")


def _file(log: PartitionLog, place: int) -> Path:
    return Path(log.cleaning.inactive_segments(log.staged_end_offset)[place].path(".log"))


def _log(path: str) -> tuple[LogManager, PartitionLog]:
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
    damaged_at: dict[Harm, int] = {_flip_a_byte: positions[1], _flip_a_magic: positions[-1]}
    assert caught.value.position == damaged_at.get(harm, 0)
    kill(store)


@pytest.mark.parametrize("harm", [*CUTS, *FLIPS, Path.unlink], ids=_named)
def test_damage_that_a_cleaning_meets_is_reported_and_keeps_no_other_log_from_its_cleaning(
    path: str, harm: Harm
) -> None:
    store, log = _log(path)
    other = store.create(OTHER, TOPIC_ID, {})
    append_overwriting(other, 60)
    # The damaged one is the dirtier, each time.
    other.cleaning.note_cleaned(other.segment_base_offsets[len(other.segment_base_offsets) // 2])
    damaged = _file(log, 1)
    harm(damaged)
    bench = HeldCleaner(store)
    for _ in range(3):
        bench.tick()
    assert [(damage.topic_partition, damage.where) for damage in bench.damages] == [(TP, str(damaged))]
    assert bench.cleaner.uncleanable.keys() == {TP}
    assert bench.started == [str(TP), str(OTHER)]
    assert bench.cleaner.runs == 1
    assert store.offline_dirs == []
    kill(store)


def test_log_whose_folder_is_away_is_not_reported_and_keeps_no_other_from_its_cleaning(path: str) -> None:
    """It may lie on a disk that is not mounted: what is made anew in its place would hide it."""
    store, log = _log(path)
    append_overwriting(store.create(OTHER, TOPIC_ID, {}), 60)
    before = last_values(records_of(log))
    os.rename(log.path, f"{path}-away")
    bench = HeldCleaner(store)
    for _ in range(3):
        bench.tick()
    assert bench.started[:2] == [str(TP), str(OTHER)]
    assert bench.cleaner.runs == 1
    assert bench.damages == []
    assert bench.cleaner.uncleanable == {}
    assert store.offline_dirs == []
    os.rename(f"{path}-away", log.path)
    bench.tick()
    assert bench.cleaner.runs == 2
    assert last_values(records_of(log)) == before
    kill(store)


def test_cleaning_that_misses_a_file_behind_its_first_swap_keeps_no_other_from_its_own(path: str) -> None:
    """One that is there when its log looks."""
    store, log = _log(path)
    append_overwriting(store.create(OTHER, TOPIC_ID, {}), 60)
    oldest = log.cleaning.inactive_segments(log.staged_end_offset)[0]
    bench = HeldCleaner(store)

    def miss(_: int) -> None:
        if bench.started[-1] == str(TP) and log.cleaning.inactive_segments(log.staged_end_offset)[0] is not oldest:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    bench.between = miss
    for _ in range(2):
        bench.tick()
    assert bench.started[:2] == [str(TP), str(OTHER)]
    assert bench.damages == []
    assert store.offline_dirs == []
    kill(store)


def test_damage_that_its_log_does_not_find_again_is_tried_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the cleaner's memory is what is broken."""

    def broken(*_: object) -> None:
        raise CorruptBatch(0, "CRC32C is wrong")

    store, _ = _log(path)
    bench = HeldCleaner(store)
    with monkeypatch.context() as patch:
        patch.setattr("broker.log.cleaner.cleaner.check_crc", broken)
        bench.tick()
    assert bench.damages == []
    assert bench.cleaner.uncleanable == {}
    assert bench.cleaner.runs == 0
    bench.tick()
    assert bench.cleaner.runs == 1
    kill(store)


def test_log_that_cannot_be_cleaned_for_other_reasons_is_served_on(path: str) -> None:
    """Batches as before Kafka 0.11, records that contradict their header under a good CRC: they were written so."""
    for number, kind in enumerate(("old", "record")):
        store = open_store(f"{path}-{number}", Clock(), COMPACTED)
        log = open_log(store)
        if kind == "record":
            wrong = keyed([(b"key", b"value" * 30)])
            wrong[61] = 2  # its length
            _seal(wrong)
            log.append_as_leader(wrong, 0)
        append_overwriting(log, 60)
        if kind == "old":
            content = bytearray(_file(log, 1).read_bytes())
            content[_MAGIC_AT] = 1
            _file(log, 1).write_bytes(content)
        with pytest.raises(UncleanableLog) as caught:
            list(LogCleaning(_job(log, 1 << 19), unlimited()).run())
        assert not isinstance(caught.value, DamagedLog)
        bench = HeldCleaner(store)
        bench.tick()
        assert bench.cleaner.uncleanable.keys() == {TP}
        assert bench.damages == []
        kill(store)


def _seal(batch: memoryview) -> None:
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")


def test_damage_that_the_choice_of_a_log_meets_is_reported(path: str) -> None:
    """After a restart, where it asks how old a segment is whose index is gone."""
    store, log = _log(path)
    damaged = _file(log, 1)
    store.close(clean=True)
    _flip_a_magic(damaged)
    os.unlink(damaged.with_suffix(".timeindex"))
    store = open_store(path, Clock(), COMPACTED | {"min.compaction.lag.ms": "1"})
    bench = HeldCleaner(store)
    for _ in range(2):
        bench.cleaner.check()
    assert [(damage.topic_partition, damage.where) for damage in bench.damages] == [(TP, str(damaged))]
    assert bench.started == []
    kill(store)
