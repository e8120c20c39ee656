"""What a cleaned log keeps: values, tombstones, headers, holes, epochs; and what its dir keeps of its cleaning."""

from __future__ import annotations

import pytest

from broker.log.cleaner.batches import filter_batch
from broker.log.files.checkpoints import read_offsets
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.model.log_errors import UnexpectedAppendOffset
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.integration.log.cleanings import ready_log
from tests.property.log.compaction_tools import (
    COMPACTED,
    PatientClock,
    append_overwriting,
    cleaner_for,
    headers_of,
    keyed,
    last_values,
    records_of,
)
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, fetch, kill, open_log, open_store
from tests.support.transactions import end_marker

pytestmark = pytest.mark.guarantee("L1", "L3")


def test_tombstone_of_an_open_transaction_takes_nothing(path: str) -> None:
    clock = PatientClock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    log.restore_producers()
    log.append_as_leader(keyed([(b"kept", b"value")]), 0)
    log.write()
    append_overwriting(log, 30)
    log.append_as_leader(
        keyed([(b"kept", None)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 0
    )
    log.write()
    append_overwriting(log, 30)
    bench = cleaner_for(store, clock)
    for kept in ([b"value", None], [b"value"]):
        clock.work()
        bench.cleaner.check()
        clock.work()
        assert [row.value for row in records_of(log) if row.key == b"kept"] == kept
        log.append_as_leader(end_marker(7, committed=False), 0)
        log.write()
        append_overwriting(log, 30)
    assert bench.cleaner.runs == 2
    kill(store)


def test_log_that_was_compacted_keeps_its_holes_when_it_is_not_any_more(path: str) -> None:
    store, log, bench = ready_log(path, Clock())
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
    store, log, bench = ready_log(path, Clock())
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
    store, _, bench = ready_log(path, Clock())
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
    store, log, bench = ready_log(path, Clock())
    before = {header.last_offset: header.partition_leader_epoch for header in headers_of(log)}
    epochs = log.epochs
    bench.cleaner.check()
    assert all(before[header.last_offset] == header.partition_leader_epoch for header in headers_of(log))
    assert log.epochs == epochs
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
