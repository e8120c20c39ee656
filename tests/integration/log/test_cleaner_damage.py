"""A cleaner that meets files which are not as they were left: told of by their log, and only where it is not its own
work; no cleaning hangs over them, and no other log waits for them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from broker.log.cleaner.cleaner import CleaningJob, DamagedLog, LogCleaning, UncleanableLog
from broker.log.cleaner.process import OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.log import PartitionLog
from broker.log.log_manager import DiskLogStore
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog
from broker.wire.compression import Compression
from broker.wire.record_batch import CorruptBatch, iter_batches
from tests.property.log.compaction_tools import (
    COMPACTED,
    Replicas,
    append_overwriting,
    keyed,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill, open_log, open_store
from tests.support.flipped import flip

pytestmark = pytest.mark.guarantee("L3", "L6")

OTHER = TopicPartition("t", 1)
_ENOUGH_READS = 1000
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
        assert reads < _ENOUGH_READS, "it reads for ever"

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
    damaged_at: dict[Harm, int] = {_flip_a_byte: positions[1], _flip_a_magic: positions[-1]}
    assert caught.value.position == damaged_at.get(harm, 0)
    kill(store)


class _Bench:
    """A cleaner and what it told of; each of its cleanings is done when `go` is called, with `between` before reads."""

    def __init__(self, store: DiskLogStore) -> None:
        self.told: list[CorruptLog] = []
        self.started: list[str] = []
        self.reads = 0
        self.between: Callable[[int], None] = lambda reads: None
        self.cleaner = LogCleaner(store, Replicas(store.logs), self, CleanerSettings(), lambda: 1e6, self.told.append)
        self._held: list[Callable[[], None]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self.started.append(job.directory.rpartition("/")[2])
        self.reads = 0

        def read() -> None:
            self.reads += 1
            assert self.reads < _ENOUGH_READS, "it reads for ever"
            self.between(self.reads)

        self._held.append(lambda: perform(LogCleaning(job, unlimited(), read), on_event))
        return lambda: None

    def go(self) -> None:
        while self._held:
            self._held.pop(0)()

    def tick(self) -> None:
        self.cleaner.check()
        self.go()


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
    bench = _Bench(store)
    for _ in range(3):
        bench.tick()
    assert [(damage.topic_partition, damage.where) for damage in bench.told] == [(TP, str(damaged))]
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
    bench = _Bench(store)
    for _ in range(3):
        bench.tick()
    assert bench.started[:2] == [str(TP), str(OTHER)]
    assert bench.cleaner.runs == 1
    assert bench.told == []
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
    bench = _Bench(store)

    def miss(_: int) -> None:
        if bench.started[-1] == str(TP) and log.cleaning.inactive_segments(log.staged_end_offset)[0] is not oldest:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    bench.between = miss
    for _ in range(2):
        bench.tick()
    assert bench.started[:2] == [str(TP), str(OTHER)]
    assert bench.told == []
    assert store.offline_dirs == []
    kill(store)


def test_damage_that_its_log_does_not_find_again_is_tried_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the cleaner's memory is what is broken."""

    def broken(*_: object) -> None:
        raise CorruptBatch(0, "CRC32C is wrong")

    store, _ = _log(path)
    bench = _Bench(store)
    with monkeypatch.context() as patch:
        patch.setattr("broker.log.cleaner.cleaner.check_crc", broken)
        bench.tick()
    assert bench.told == []
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
        bench = _Bench(store)
        bench.tick()
        assert bench.cleaner.uncleanable.keys() == {TP}
        assert bench.told == []
        kill(store)


def _seal(batch: memoryview) -> None:
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")


def _cut_low(store: DiskLogStore) -> None:
    store.logs()[TP].truncate_to(3)


def _cut_to_a_segment(store: DiskLogStore) -> None:
    log = store.logs()[TP]
    log.truncate_to(log.segment_base_offsets[2])


def _cut_within_a_segment(store: DiskLogStore) -> None:
    log = store.logs()[TP]
    log.truncate_to(log.segment_base_offsets[1] + 1)


def _begin_anew(store: DiskLogStore) -> None:
    store.logs()[TP].truncate_fully_and_start_at(0)


def _begin_anew_later(store: DiskLogStore) -> None:
    store.logs()[TP].truncate_fully_and_start_at(100)


def _delete_records(store: DiskLogStore) -> None:
    log = store.logs()[TP]
    log.maybe_raise_log_start(log.segment_base_offsets[3])
    log.delete_old_segments(0, log.staged_end_offset)


def _delete(store: DiskLogStore) -> None:
    store.delete(TP)


def _delete_and_make_anew(store: DiskLogStore) -> None:
    store.delete(TP)
    log = store.create(TP, TOPIC_ID, {})
    append_overwriting(log, 20, Compression.GZIP)


OWN_WORK: list[Callable[[DiskLogStore], None]] = [
    _cut_low,
    _cut_to_a_segment,
    _cut_within_a_segment,
    _begin_anew,
    _begin_anew_later,
    _delete_records,
    _delete,
    _delete_and_make_anew,
]


@pytest.mark.parametrize("refilled", [False, True])
@pytest.mark.parametrize("work", OWN_WORK, ids=_named)
def test_what_the_log_does_itself_under_a_cleaning_is_never_damage(
    path: str, work: Callable[[DiskLogStore], None], refilled: bool
) -> None:
    """Before each of its reads, and behind the last."""
    for moment in range(1, _ENOUGH_READS):
        folder = f"{path}-{moment}"
        clock = Clock()
        store = open_store(folder, clock, COMPACTED)
        append_overwriting(open_log(store), 40, Compression.GZIP)
        bench = _Bench(store)
        done: list[int] = []

        def act(reads: int, store: DiskLogStore = store, clock: Clock = clock, done: list[int] = done) -> None:
            done.append(reads)
            work(store)
            clock.advance(20)  # beyond file.delete.delay.ms
            if refilled and TP in store.logs():
                append_overwriting(store.logs()[TP], 40)

        bench.between = lambda reads, moment=moment, done=done, act=act: (  # type: ignore[misc]
            act(reads) if reads == moment and not done else None
        )
        bench.tick()
        last = not done
        if last:
            act(moment)
        assert bench.cleaner._failures == {}, "it is not to wait for the others"
        for _ in range(2):
            bench.tick()
        assert bench.told == []
        assert bench.cleaner.uncleanable == {}
        assert store.offline_dirs == []
        if TP in store.logs():
            log = store.logs()[TP]
            append_overwriting(log, 40)
            before = last_values(records_of(log))
            runs = bench.cleaner.runs
            bench.tick()
            assert bench.told == []
            assert bench.cleaner.runs > runs
            assert last_values(records_of(log)) == before
        kill(store)
        shutil.rmtree(folder)
        if last:
            assert moment > 10
            return


def test_damage_that_the_choice_of_a_log_meets_is_reported(path: str) -> None:
    """After a restart, where it asks how old a segment is whose index is gone."""
    store, log = _log(path)
    damaged = _file(log, 1)
    store.close(clean=True)
    _flip_a_magic(damaged)
    os.unlink(damaged.with_suffix(".timeindex"))
    store = open_store(path, Clock(), COMPACTED | {"min.compaction.lag.ms": "1"})
    bench = _Bench(store)
    for _ in range(2):
        bench.cleaner.check()
    assert [(damage.topic_partition, damage.where) for damage in bench.told] == [(TP, str(damaged))]
    assert bench.started == []
    kill(store)
