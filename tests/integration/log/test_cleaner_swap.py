"""A log while a cleaned segment takes the place of others: readers, cuts, deletions, restarts, changes of policy."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial

import pytest

from broker.log.cleaner.batches import filter_batch
from broker.log.cleaner.cleaner import CleaningJob, LogCleaning
from broker.log.cleaner.process import OnEvent, Stop, perform
from broker.log.cleaner.schedule import CleanerSettings, LogCleaner
from broker.log.cleaner.throttle import unlimited
from broker.log.files.checkpoints import read_offsets
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.log import PartitionLog
from broker.log.log_manager import DiskLogStore
from broker.model.log_errors import LogDirFailed, UnexpectedAppendOffset
from broker.wire.chunks import FileSlice
from broker.wire.compression import Compression
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.compaction_tools import (
    COMPACTED,
    Bench,
    PatientClock,
    Replicas,
    append_overwriting,
    cleaner_for,
    headers_of,
    keyed,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, fetch, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("L1", "L3")

STEPS = range(4)
"""Background jobs of one swap that are done: none, the names of .swap, those of .deleted, all."""


def _ready(path: str, clock: Clock) -> tuple[DiskLogStore, PartitionLog, Bench]:
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60, Compression.GZIP, of_an_epoch=25)
    if isinstance(clock, PatientClock):
        clock.work()
    return store, log, cleaner_for(store, clock)


def _names(path: str, *endings: str) -> list[str]:
    return [name for name in os.listdir(f"{path}/{TP}") if name.endswith(endings)]


@pytest.mark.parametrize("steps", STEPS)
def test_reads_go_on_at_every_step_also_those_that_began_before(path: str, steps: int) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    before = last_values(records_of(log))
    early = log.read(0, 500, log.staged_end_offset, True)
    assert isinstance(early, FileSlice)
    expected = os.pread(early.fd, early.length, early.position)
    bench.cleaner.check()
    clock.work(steps)
    assert last_values(records_of(log)) == before
    assert os.pread(early.fd, early.length, early.position) == expected
    clock.work()
    assert bench.cleaner.runs == 1
    assert os.pread(early.fd, early.length, early.position) == expected
    clock.advance(20)
    assert last_values(records_of(log)) == before
    assert not _names(path, ".deleted", ".swap", ".cleaned")
    kill(store)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("anew", [False, True])
def test_cut_in_the_middle_of_a_swap_comes_first(path: str, steps: int, anew: bool) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    bench.cleaner.check()
    clock.work(steps)
    if anew:
        log.truncate_fully_and_start_at(1000)
    else:
        log.truncate_to(5)
    clock.work()
    clock.advance(20)
    bench.cleaner.check()
    assert log.staged_end_offset == (1000 if anew else log.staged_end_offset) <= (1000 if anew else 5)
    assert (log.cleaning.cleaned_until or 0) <= log.staged_end_offset
    rows = records_of(log)
    assert all(record.offset < 5 for record in rows)
    info = log.append_as_leader(keyed([(b"after", b"the cut")]), 9)
    assert info.base_offset == log.staged_end_offset - 1
    log.write()
    rows = records_of(log)
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert records_of(again.logs()[TP]) == rows
    assert not _names(path, ".swap", ".cleaned")
    kill(again)


def test_tombstone_stays_as_long_as_a_value_of_a_transaction_lies_before_it(path: str) -> None:
    """Batches of transactions, of Kafka's brokers, are copied as they are: nothing supersedes what is in them."""
    clock = PatientClock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    of_transaction = encode_batch(
        [NewRecord(b"gone", b"value")],
        timestamps=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    for batch in (memoryview(bytearray(of_transaction)), keyed([(b"gone", None)]), keyed([(b"plain", None)])):
        log.append_as_leader(batch, 0)
        log.write()
    bench = cleaner_for(store, clock)
    for round_ in range(3):
        append_overwriting(log, 30)
        clock.work()
        bench.cleaner.check()
        clock.work()
        # Beyond delete.retention.ms.
        clock.advance(5000)
        assert bench.cleaner.runs == round_ + 1
    rows = records_of(log)
    assert {b"gone", b"plain"} <= {row.key for row in rows if row.offset < 5}
    assert b"gone" not in last_values(rows)
    kill(store)


@pytest.mark.parametrize("steps", STEPS)
def test_partition_deleted_in_the_middle_of_a_swap_takes_no_dir_offline(path: str, steps: int) -> None:
    clock = PatientClock()
    store, _, bench = _ready(path, clock)
    bench.cleaner.check()
    clock.work(steps)
    store.delete(TP)
    clock.work()
    clock.advance(20)
    clock.work()
    assert store.offline_dirs == []
    fresh = store.create(TP, TOPIC_ID, {})
    assert (fresh.staged_end_offset, fresh.cleaning.cleaned_until) == (0, 0)
    kill(store)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("clean", [True, False])
def test_stop_in_the_middle_of_a_swap_is_finished_by_the_next_start(path: str, steps: int, clean: bool) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    before = last_values(records_of(log))
    bench.cleaner.check()
    clock.work(steps)
    bench.cleaner.close()
    store.close(clean=clean) if clean else kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.reports[0].clean is clean
    log = again.logs()[TP]
    assert log.staged_end_offset == 60
    assert last_values(records_of(log)) == before
    assert [log.epoch_at(offset) for offset in (59,)] == [2]
    assert not _names(path, ".swap", ".cleaned", ".deleted")
    kill(again)


def test_retention_waits_for_a_swap(path: str) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    bench.cleaner.check()
    log.maybe_raise_log_start(50)
    assert log.delete_old_segments(0, 60) == 0
    clock.work()
    assert log.delete_old_segments(0, 60) > 0
    assert records_of(log)[0].offset >= 50
    kill(store)


def test_segments_deleted_during_a_cleaning_call_it_off(path: str) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    old = log.cleaning.inactive_segments(60)
    log.maybe_raise_log_start(50)
    assert log.delete_old_segments(0, 60) > 0
    told: list[bool] = []
    assert log.cleaning.swap_in(old, told.append) is False
    assert not told
    assert bench.cleaner.uncleanable == {}
    assert records_of(log)[0].offset >= 50
    kill(store)


def test_failing_dir_ends_a_swap_and_its_cleaning(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PatientClock()
    store, _, bench = _ready(path, clock)
    bench.cleaner.check()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("broker.log.swap.fsync_dir", broken)
    clock.work()
    monkeypatch.undo()
    assert store.offline_dirs == [path]
    assert bench.cleaner.runs == 0
    bench.cleaner.check()
    assert len(bench.runner.jobs) == 1
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.logs()[TP].staged_end_offset == 60
    kill(again)


def _nothing_is_hidden_after_the_swap(path: str) -> Callable[[str, str], None]:
    """`os.rename` that fails for old segments once the new one has its name."""
    rename = os.rename

    def failing(before: str, after: str) -> None:
        if after.endswith(".deleted") and not _names(path, ".swap"):
            raise OSError(errno.EIO, "Input/output error")
        rename(before, after)

    return failing


def test_swap_whose_last_step_fails_ends_its_cleaning(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = PatientClock()
    store, _, bench = _ready(path, clock)
    bench.cleaner.check()
    clock.work(2)
    assert _names(path, ".swap")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _nothing_is_hidden_after_the_swap(path))
        clock.work()
    assert store.offline_dirs == [path]
    assert bench.cleaner._running == {}, "another dir's logs would wait for it"
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert again.logs()[TP].staged_end_offset == 60
    kill(again)


def test_dir_that_fails_before_the_last_step_of_a_swap_ends_its_cleaning(path: str) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    bench.cleaner.check()
    clock.work(2)
    log.cleaning.report_io_error(OSError(errno.EIO, "Input/output error"))
    clock.work()
    assert _names(path, ".swap"), "nothing more is done in that dir"
    assert bench.cleaner._running == {}
    kill(store)


@pytest.mark.parametrize("steps", range(3))
def test_cut_that_cannot_settle_a_swap_ends_its_cleaning(
    path: str, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    clock = PatientClock()
    store, log, bench = _ready(path, clock)
    before = last_values(records_of(log))
    bench.cleaner.check()
    clock.work(steps)
    broken = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", _nothing_is_hidden_after_the_swap(path))
        patch.setattr("broker.log.swap.remove_if_there", partial(_raise, broken))
        with pytest.raises(LogDirFailed):
            log.truncate_to(5)
    clock.work()
    bench.cleaner.check()
    assert store.offline_dirs == [path]
    assert bench.cleaner._running == {}
    kill(store)
    again = open_store(path, Clock(), COMPACTED)
    assert last_values(records_of(again.logs()[TP])) == before, "nothing was cut"
    kill(again)


def _raise(error: OSError, *_: object) -> None:
    raise error


def test_log_that_was_compacted_keeps_its_holes_when_it_is_not_any_more(path: str) -> None:
    store, log, bench = _ready(path, Clock())
    bench.cleaner.check()
    rows = records_of(log)
    assert len(rows) < 20
    store.update_config(TP.topic, {"cleanup.policy": "delete"})
    assert records_of(log) == rows
    for clean in (True, False):
        store.close(clean=True) if clean else kill(store)
        store = open_store(path, Clock(), COMPACTED | {"cleanup.policy": "delete"})
        log = store.logs()[TP]
        assert log.has_holes
        assert records_of(log) == rows
    kill(store)


def test_topic_that_becomes_compacted_is_cleaned_with_all_that_was_there(path: str) -> None:
    store, log, bench = _ready(path, Clock())
    kill(store)
    store = open_store(path, Clock(), COMPACTED | {"cleanup.policy": "delete"})
    log, bench = store.logs()[TP], cleaner_for(store, Clock())
    before = last_values(records_of(log))
    bench.cleaner.check()
    assert bench.cleaner.runs == 0
    store.update_config(TP.topic, {"cleanup.policy": "compact"})
    bench.cleaner.check()
    assert bench.cleaner.runs >= 1
    assert last_values(records_of(log)) == before
    assert len(records_of(log)) < 20
    kill(store)


def test_hole_from_a_leader_is_refused_unless_the_log_is_compacted(path: str) -> None:
    plain = open_store(f"{path}-plain", Clock(), {}).create(TP, TOPIC_ID, {})
    compacted = open_log(open_store(path, Clock(), COMPACTED))
    late = memoryview(bytearray(encode_batch([NewRecord(b"k", b"v")], timestamps=1, base_offset=7, leader_epoch=3)))
    with pytest.raises(UnexpectedAppendOffset):
        plain.append_as_follower(late)
    # Set by name, it may have been another before this replica was made.
    once = open_store(f"{path}-once", Clock(), {}).create(TP, TOPIC_ID, {"cleanup.policy": "delete"})
    assert once.append_as_follower(memoryview(bytearray(late))).base_offset == 7
    compacted.append_as_follower(late)
    compacted.write()
    assert (compacted.staged_end_offset, read_header(memoryview(fetch(compacted, 0))).base_offset) == (8, 7)
    compacted.truncate_to(3)
    assert compacted.staged_end_offset == 0, "where a restart would find its end"
    for log in (plain, compacted, once):
        log.close(clean=False)


def test_checkpoint_holds_every_compacted_log_and_forgets_deleted_ones(path: str) -> None:
    store, _, bench = _ready(path, Clock())
    file = f"{path}/{CLEANER_OFFSETS}"
    assert read_offsets(file) == {TP: 0}
    bench.cleaner.check()
    cleaned = read_offsets(file)[TP]
    assert cleaned > 40
    kill(store)
    store = open_store(path, Clock(), COMPACTED)
    log = store.logs()[TP]
    assert log.cleaning.cleaned_until == cleaned
    log.truncate_to(cleaned - 5)
    assert read_offsets(file)[TP] <= cleaned - 5
    store.delete(TP)
    store.create(TP, TOPIC_ID, {})
    assert read_offsets(file) == {TP: 0}
    kill(store)


def test_tombstone_stays_for_its_retention_after_its_first_cleaning_and_then_goes(path: str) -> None:
    clock = Clock(now=1e6)
    store = open_store(path, clock, COMPACTED)
    log, bench = open_log(store), None
    log.append_as_leader(keyed([(b"gone", b"value")]), 0)
    log.append_as_leader(keyed([(b"gone", None)]), 0)
    seen: list[list[bytes | None]] = []
    for wait_ms in (0, 500, 499, 1):
        clock.advance(wait_ms)
        for _ in range(12):
            log.append_as_leader(keyed([(b"other", b"x" * 60)]), 0)
        log.write()
        bench = cleaner_for(store, clock)
        bench.cleaner.check()
        assert bench.cleaner.runs == 1
        seen.append([record.value for record in records_of(log) if record.key == b"gone"])
    assert seen == [[None], [None], [None], []]
    kill(store)


def test_last_batch_of_what_is_cleaned_stays_as_a_header_when_its_tombstones_go(path: str) -> None:
    clock = Clock(now=1e6)
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    expired = keyed([(b"gone", None)])
    header = read_header(expired)
    cleaned_before = filter_batch(header, expired, lambda record: True, False, 999_000).data
    assert cleaned_before is not None
    for batch in (bytes(keyed([(b"gone", b"v" * 520)])), cleaned_before):
        log.append_as_leader(memoryview(bytearray(batch)), 0)
    log.append_as_leader(keyed([(b"next", b"segment" * 20)]), 0)
    log.write()
    assert log.segment_base_offsets == [0, 2]
    cleaner_for(store, clock).cleaner.check()
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers_of(log)] == [(1, 1, 0), (2, 2, 1)]
    kill(store)


def test_headers_of_cleaned_batches_keep_their_epochs(path: str) -> None:
    store, log, bench = _ready(path, Clock())
    before = {header.last_offset: header.partition_leader_epoch for header in headers_of(log)}
    epochs = log.epochs
    bench.cleaner.check()
    assert all(before[header.last_offset] == header.partition_leader_epoch for header in headers_of(log))
    assert log.epochs == epochs
    kill(store)


class _HoldingRunner:
    """Cleans at once; what it has to say waits."""

    def __init__(self) -> None:
        self._said: list[Callable[[], None]] = []

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        perform(LogCleaning(job, unlimited()), lambda event: self._said.append(partial(on_event, event)))
        return lambda: None

    def tell(self, count: int = 1 << 30) -> None:
        told, self._said = self._said[:count], self._said[count:]
        for each in told:
            each()


class _LateRunner(_HoldingRunner):
    """Does nothing before it is told to: a process that is slow to start, or to find out that it is not wanted."""

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        self._said.append(lambda: perform(LogCleaning(job, unlimited()), on_event))
        return lambda: None


def _held(
    path: str, runner: _HoldingRunner | None = None
) -> tuple[DiskLogStore, PartitionLog, LogCleaner, _HoldingRunner]:
    store, log, _ = _ready(path, Clock())
    runner = runner or _HoldingRunner()
    cleaner = LogCleaner(store, Replicas(store.logs), runner, CleanerSettings(), lambda: 1e6)
    cleaner.check()
    return store, log, cleaner, runner


@pytest.mark.parametrize("refilled", [False, True])
def test_cut_before_the_first_swap_calls_the_cleaning_off(path: str, refilled: bool) -> None:
    store, log, cleaner, runner = _held(path)
    bases = log.segment_base_offsets
    log.truncate_to(bases[1] + 1)
    assert log.segment_base_offsets == bases[:2]
    while refilled and log.staged_end_offset < 60:
        # The segment that was cut is filled anew and closed: the same object, other bytes.
        log.append_as_leader(keyed([(b"k%d" % (log.staged_end_offset % 3), b"other" * 4)], codec=Compression.GZIP), 9)
        log.write()
    rows = records_of(log)
    runner.tell()
    assert records_of(log) == rows
    assert cleaner.runs == 0
    assert not cleaner.uncleanable
    assert (log.cleaning.cleaned_until or 0) <= bases[1] + 1
    assert not _names(path, ".swap", ".cleaned")
    cleaner.check()
    runner.tell()
    assert cleaner.runs == 1
    assert last_values(records_of(log)) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("told", [0, 1])
def test_topic_that_is_not_compacted_any_more_loses_nothing_to_a_cleaning_under_way(
    path: str, told: int, looked: bool
) -> None:
    store, log, cleaner, runner = _held(path)
    stops: list[str] = []
    (cleaning,) = cleaner._running.values()
    cleaning.stop = lambda: stops.append("stopped")
    runner.tell(told)
    rows = records_of(log)
    store.update_config("t", COMPACTED | {"cleanup.policy": "delete"})
    if looked:
        cleaner.check()
        assert stops == ["stopped"], "its process is not left to go on for hours"
    runner.tell()
    assert records_of(log) == rows
    assert (cleaner.runs, cleaner.uncleanable, log.cleaning.cleaned_until) == (0, {}, 0)
    assert not _names(path, ".swap", ".cleaned")
    store.update_config("t", COMPACTED)
    cleaner.check()
    runner.tell()
    assert cleaner.runs == 1
    assert last_values(records_of(log)) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_group_of_a_log_that_was_deleted_touches_nothing(path: str, anew: bool, late: bool) -> None:
    store, _, cleaner, runner = _held(path, _LateRunner() if late else None)
    store.delete(TP)
    rows = []
    if anew:
        log = store.create(TP, TOPIC_ID, {})
        append_overwriting(log, 60, Compression.GZIP)
        rows = records_of(log)
    runner.tell()
    assert store.offline_dirs == []
    assert cleaner.runs == 0
    if anew:
        assert records_of(store.logs()[TP]) == rows
        assert not _names(path, ".cleaned"), "the next cleaning would find them there"
        cleaner.check()
        runner.tell()
        assert cleaner.runs == 1
        assert store.offline_dirs == []
        assert last_values(records_of(store.logs()[TP])) == last_values(rows)
    kill(store)


@pytest.mark.parametrize("told", [1, 1 << 30])
def test_log_knows_that_values_below_a_cut_went_for_ones_beyond_it(path: str, told: int) -> None:
    store, log, cleaner, runner = _held(path)
    assert not log.lacks_values_below(1)
    runner.tell(told)
    assert (cleaner.runs == 1) is (told > 1)
    assert log.lacks_values_below(5)
    assert log.lacks_values_below(log.segment_base_offsets[-1] - 1)
    assert not log.lacks_values_below(log.segment_base_offsets[-1])
    log.truncate_fully_and_start_at(0)
    assert not log.lacks_values_below(0)
    kill(store)


@pytest.mark.parametrize(("last_base", "bases"), [(10, [0, 5]), (2**31 + 4, [0, 2**31 + 4])])
def test_cut_in_a_hole_at_the_end_of_a_segment_leaves_no_mark_beyond_the_end(
    path: str, last_base: int, bases: list[int]
) -> None:
    store = open_store(path, Clock(), COMPACTED)
    log = open_log(store)
    for base, count in ((0, 5), (last_base, 5)):
        records = [NewRecord(b"k", b"v" * 100)] * count
        log.append_as_follower(
            memoryview(bytearray(encode_batch(records, timestamps=1, base_offset=base, leader_epoch=3)))
        )
        log.write()
    log.flush()
    # The hole lies in the second segment, unless that cannot reach over it.
    assert log.segment_base_offsets == bases
    log.truncate_to(7)
    assert (log.staged_end_offset, log.log_end_offset, log.recovery_point) == (5, 5, 5)
    assert read_offsets(f"{path}/recovery-point-offset-checkpoint").get(TP, 0) <= 5
    kill(store)
    store = open_store(path, Clock(), COMPACTED)
    assert (open_log(store).staged_end_offset, store.unclean) == (5, {})
    kill(store)


def test_value_goes_only_for_one_that_is_on_disk(path: str) -> None:
    clock = PatientClock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    append_overwriting(log, 60)
    bench = cleaner_for(store, clock)
    bench.cleaner.check()
    assert not bench.runner.jobs
    clock.work()
    assert log.recovery_point >= log.segment_base_offsets[-1]
    bench.cleaner.check()
    assert bench.runner.jobs[0].first_uncleanable <= log.recovery_point
    kill(store)


def test_epochs_that_began_where_no_batch_is_left_keep_their_starts_after_a_kill(path: str) -> None:
    store = open_store(path, Clock(), COMPACTED)
    log = open_log(store)
    for base, epoch, starts in ((0, 1, ((1, 0),)), (15, 3, ((2, 5), (3, 8))), (20, 3, ())):
        for begun, start in starts:
            log.assign_epoch(begun, start)
        records = [NewRecord(b"k", b"v" * 100)] * 5
        log.append_as_follower(
            memoryview(bytearray(encode_batch(records, timestamps=1, base_offset=base, leader_epoch=epoch)))
        )
        log.write()
    entries = log.epochs
    assert entries == [(1, 0), (2, 5), (3, 8)]
    kill(store)
    store = open_store(path, Clock(), COMPACTED)
    log = store.logs()[TP]
    assert not store.reports[0].clean
    assert log.epochs == entries
    assert log.end_offset_for_epoch(1) == (1, 5)
    kill(store)
