"""Descriptors of older segments: lookups and retention take none for good, reads a bounded number."""

from __future__ import annotations

import os

import pytest

from broker.model.log_errors import CorruptLog
from broker.wire.chunks import FileSlice
from tests.integration.log.many_segments import (
    BOUND,
    MANY,
    Turns,
    open_descriptors,
    restarted_with_many_segments,
    stopped_with_many_segments,
)
from tests.property.log.log_tools import (
    TINY,
    TP,
    Clock,
    append_values,
    batch,
    fetch,
    kill,
    open_log,
    open_store,
    read_all,
)

pytestmark = pytest.mark.guarantee("L2")


def test_lookups_by_time_after_a_restart_open_the_segment_that_holds_the_result_alone(path: str) -> None:
    store, log = restarted_with_many_segments(path, Clock())
    before = open_descriptors()
    assert log.newest_timestamp() == 1449
    assert log.offset_for_timestamp(1449, 450) == (1449, 449, 0)
    assert log.offset_for_timestamp(1450, 450) is None
    assert open_descriptors() == before
    assert log.offset_for_timestamp(1300, 450) == (1300, 300, 0)
    assert open_descriptors() == before
    kill(store)


@pytest.mark.parametrize("harm", ["gone", "empty", "torn", "falling"])
def test_lookup_by_time_looks_into_a_segment_whose_time_index_cannot_be_right(path: str, harm: str) -> None:
    stopped_with_many_segments(path)
    name = f"{path}/{TP}/{300:020d}.timeindex"
    assert os.path.getsize(name) > 0
    if harm == "gone":
        os.unlink(name)
    else:
        with open(name, "r+b") as file:
            entry = file.read(12)
            file.truncate(0)
            file.seek(0)
            file.write({"empty": b"", "torn": entry[:7], "falling": entry + bytes(12)}[harm])
    store = open_store(path, Clock(), MANY)
    log = store.logs()[TP]
    assert log.offset_for_timestamp(1300, 450) == (1300, 300, 0)
    kill(store)


def test_retention_after_a_restart_leaves_nothing_open(path: str) -> None:
    stopped_with_many_segments(path)
    store = open_store(path, Clock(), MANY | {"retention.ms": "1000", "file.delete.delay.ms": "60000"})
    log = store.logs()[TP]
    before = open_descriptors()
    assert log.delete_old_segments(2300.0, 450) > 100
    assert log.log_start_offset == 300
    assert open_descriptors() == before
    kill(store)


def test_retention_keeps_what_the_batches_behind_a_torn_time_index_are_too_young_for(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"index.interval.bytes": "1"})
    append_values(store, range(40))
    second = open_log(store).segment_base_offsets[1]
    store.close(clean=True)
    # Its last entries are gone from both indexes: what is left says that all of it is older.
    for suffix, entry in ((".timeindex", 12), (".index", 8)):
        os.truncate(f"{path}/{TP}/{0:020d}{suffix}", entry)
    store = open_store(path, Clock(), TINY | {"retention.ms": "1000"})
    log = store.logs()[TP]
    assert log.delete_old_segments(2000.0 + second - 1, 40) == 0
    assert log.delete_old_segments(2000.0 + second, 40) == 1
    kill(store)


def test_reads_over_all_segments_keep_a_bounded_number_open(path: str) -> None:
    clock = Turns()
    store, log = restarted_with_many_segments(path, clock)
    before = open_descriptors()
    for _ in range(2):
        for value in range(450):
            assert batch(value, 1, 1000 + value)[61:].tobytes() in fetch(log, value, 1)
            assert open_descriptors() <= before + BOUND + 1
            clock.turn += 1
    kill(store)


@pytest.mark.parametrize("turns", [0, 1], ids=["one turn", "a turn each"])
def test_lookups_by_time_over_all_segments_leave_none_open(path: str, turns: int) -> None:
    clock = Turns()
    store, log = restarted_with_many_segments(path, clock)
    before = open_descriptors()
    for value in range(0, 400, 4):
        assert log.offset_for_timestamp(1000 + value, 450) == (1000 + value, value, 0)
        assert open_descriptors() <= before + BOUND + 1
        clock.turn += turns
    assert open_descriptors() == before
    kill(store)


def test_lookup_by_time_closes_nothing_that_a_read_of_the_same_turn_needs(path: str) -> None:
    store, log = restarted_with_many_segments(path, Turns())
    chunk = log.read(200, 1, 450, True)
    assert isinstance(chunk, FileSlice)
    assert log.offset_for_timestamp(1200, 450) == (1200, 200, 0)
    assert os.pread(chunk.fd, chunk.length, chunk.position) == fetch(log, 200, 1)
    kill(store)


def test_segments_that_roll_turn_by_turn_close_without_being_notified(path: str) -> None:
    clock = Turns()
    store = open_store(path, clock, MANY)
    open_log(store)
    before = open_descriptors()
    for value in range(200):
        append_values(store, range(value, value + 1))
        clock.turn += 1
        assert open_descriptors() <= before + BOUND + 1
    kill(store)


def test_flush_of_segments_that_were_closed_leaves_none_open(path: str) -> None:
    patient = Turns(patient=True)
    store = open_store(path, patient, MANY)
    append_values(store, range(60))
    kill(store)
    for job, _ in patient.waiting:
        job()  # too late for the log, and it gives its descriptors back
    clock = Turns(bound=0)
    store = open_store(path, clock, MANY)
    log = store.logs()[TP]
    clock.next_turn(store)
    before = open_descriptors()
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 60
    assert open_descriptors() == before
    kill(store)


def test_slices_of_one_turn_are_good_to_its_end_however_many_segments_they_are_of(path: str) -> None:
    clock = Turns()
    store, log = restarted_with_many_segments(path, clock)
    before = open_descriptors()
    slices = [log.read(base, 1 << 20, 450, True) for base in log.segment_base_offsets[:100]]
    store.close_unread()
    content = b""
    for chunk in slices:
        assert isinstance(chunk, FileSlice)
        content += os.pread(chunk.fd, chunk.length, chunk.position)
    clock.next_turn(store)
    assert open_descriptors() <= before + BOUND
    assert content == b"".join(read_all(log))[: len(content)]
    kill(store)


def test_segments_that_were_rolled_do_not_stay_open_and_are_flushed_all_the_same(path: str) -> None:
    clock = Turns()
    store = open_store(path, clock, MANY)
    log = open_log(store)
    before = open_descriptors()
    for value in range(200):
        append_values(store, range(value, value + 1))
        clock.next_turn(store)
    assert len(log.segment_base_offsets) > 90
    assert open_descriptors() <= before + BOUND
    log.flush()
    assert len(read_all(log)) == 200
    store.close(clean=True)
    store = open_store(path, Clock(), MANY)
    assert [report.reason for report in store.reports] == [""]
    assert store.logs()[TP].offset_for_timestamp(1100, 200) == (1100, 100, 0)
    kill(store)


def test_segment_that_a_cut_makes_active_stays_open(path: str) -> None:
    clock = Turns(bound=0)
    store = open_store(path, clock, TINY)
    append_values(store, range(40))
    log = open_log(store)
    third = log.segment_base_offsets[2]
    fetch(log, third, 1)
    log.truncate_to(third + 1)
    clock.next_turn(store)
    append_values(store, range(third + 1, third + 10))
    clock.next_turn(store)
    append_values(store, range(third + 10, third + 11))
    assert len(read_all(log)) == third + 11
    kill(store)


def test_closed_segment_that_is_not_trusted_any_more_is_checked_when_it_opens_again(path: str) -> None:
    clock = Turns(bound=0)
    store = open_store(path, clock, TINY)
    append_values(store, range(40))
    log = open_log(store)
    assert log.segment_base_offsets[1] > 1
    fetch(log, 0, 1)
    clock.next_turn(store)
    with open(f"{path}/{TP}/{0:020d}.log", "r+b") as file:
        file.seek(70)
        byte = file.read(1)
        file.seek(70)
        file.write(bytes([byte[0] ^ 1]))
    fetch(log, 0, 1)
    clock.next_turn(store)
    log.forget_checked()
    with pytest.raises(CorruptLog):
        fetch(log, 0, 1)
    kill(store)


def test_bytes_that_are_read_for_no_response_leave_no_segment_open(path: str) -> None:
    store, log = restarted_with_many_segments(path, Turns())
    before = open_descriptors()
    for value in range(450):
        data = log.read_bytes(value, 1, 450, True)
        assert data[61:] == batch(value, 1, 1000 + value)[61:]
        assert open_descriptors() == before
    chunk = log.read(200, 1, 450, True)
    assert isinstance(chunk, FileSlice)
    assert log.read_bytes(200, 1, 450, True) == os.pread(chunk.fd, chunk.length, chunk.position)
    assert log.read_bytes(449, 1, 450, True) == fetch(log, 449, 1)
    assert bytes(log.read_bytes(450, 1, 450, True)) == b""
    kill(store)
