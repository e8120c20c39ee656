"""Indexes of aborted transactions that are doubted: after cuts, swaps, lost files, and want of descriptors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.log.cleaner.writer import CleanedWriter
from broker.log.indexes.transaction_indexes import Doubt
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.log_errors import NoDescriptorFree, ProducersUnread
from broker.wire.record_batch import iter_batches
from tests.property.log.compaction_tools import COMPACTED, PatientClock, cleaner_for, keyed, records_of
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append, batch, kill, open_log, open_store
from tests.support.committed_reader import read_committed
from tests.support.transactions import end_marker, transactional

CONFIG = {"segment.bytes": "500", "file.delete.delay.ms": "10"}
HALF = b"half an entry"


def opened(path: str, clock: Clock | None = None) -> tuple[LogManager, PartitionLog]:
    store = open_store(path, clock or Clock(), CONFIG)
    log = open_log(store)
    log.restore_producers()
    return store, log


def abort(log: PartitionLog, producer: int) -> None:
    append(log, transactional("aborted", producer), end_marker(producer, committed=False))


def fill(log: PartitionLog, segments: int) -> None:
    while len(log.segment_base_offsets) < segments:
        append(log, batch(1))


def shown(log: PartitionLog) -> list[int]:
    return [offset for offset, _ in read_committed(log, log.log_start_offset, 100_000)]


def index(path: str, base: int) -> Path:
    return Path(path, str(TP), f"{base:020d}.txnindex")


def damage(path: str, base: int) -> None:
    with index(path, base).open("ab") as file:
        file.write(HALF)


def find_no_descriptor(*_: object) -> memoryview:
    """A read while none is free."""
    raise NoDescriptorFree(errno.EMFILE, "no descriptor")


def cleaned(log: PartitionLog, path: str, bases: list[int]) -> None:
    """A `.cleaned` segment of these, as it were nothing to clean."""
    log.allow_holes()
    writer = CleanedWriter(log.path, bases[0], 4096)
    for base in bases:
        data = memoryview(Path(path, str(TP), f"{base:020d}.log").read_bytes())
        for position, header in iter_batches(data, verify_crc=True):
            writer.add(data[position : position + header.size], header.last_offset, header.max_timestamp)
        writer.add_aborted(index(path, base).read_bytes() if index(path, base).exists() else b"")
    writer.finish(1)


def test_index_of_a_segment_that_a_repair_keeps_unread_is_kept(path: str) -> None:
    store, log = opened(path)
    append(log, batch(0))
    abort(log, 7)
    fill(log, 5)
    bases = log.segment_base_offsets
    log.flush()
    store.checkpoint_recovery_points()
    kill(store)
    for suffix in ("log", "index", "timeindex"):
        os.unlink(f"{path}/{TP}/{bases[1]:020d}.{suffix}")
    store = open_store(path, Clock(), CONFIG)
    assert TP in store.offline_logs
    log = store.restore(TP, TOPIC_ID, {})
    log.restore_producers()
    assert log.log_end_offset == bases[1]
    assert 1 not in shown(log)


def lose_tail(path: str, from_batch: int) -> None:
    """Offset 1 aborted in the first segment; an empty one behind it, up to which all is flushed, and a kill.

    Then the first segment loses its batches from that one on.
    """
    store, log = opened(path)
    append(log, batch(0))
    abort(log, 7)
    fill(log, 2)
    log.truncate_to(log.segment_base_offsets[1])
    log.flush()
    store.checkpoint_recovery_points()
    kill(store)
    segment = Path(path, str(TP), f"{0:020d}.log")
    positions = [position for position, _ in iter_batches(memoryview(segment.read_bytes()), verify_crc=True)]
    os.truncate(segment, positions[from_batch])


def test_index_of_a_segment_that_lost_its_last_batch_is_kept(path: str) -> None:
    lose_tail(path, -1)
    _, log = opened(path)
    assert shown(log) == [0, *range(3, log.log_end_offset)]


def test_entry_of_a_lost_tail_is_forgotten_in_a_segment_that_is_kept_unread(path: str) -> None:
    lose_tail(path, 2)
    _, log = opened(path)
    assert log.log_end_offset == 2
    append(log, end_marker(7))
    assert shown(log) == [0, 1]


def test_index_below_what_a_start_checks_is_kept(path: str) -> None:
    store, log = opened(path)
    abort(log, 7)
    fill(log, 3)
    log.flush()
    store.checkpoint_recovery_points()
    append(log, batch(1))
    kill(store)
    before = index(path, 0).stat().st_ino
    _, log = opened(path)
    assert index(path, 0).stat().st_ino == before
    assert shown(log) == [*range(2, log.log_end_offset)]


def test_clean_stop_leaves_no_doubt_behind(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start after it reads nothing, and would believe what a power failure left."""
    store, log = opened(path)
    append(log, batch(0))
    abort(log, 7)
    kill(store)
    index(path, 0).unlink()
    store = open_store(path, Clock(), CONFIG)
    log = open_log(store)

    with monkeypatch.context() as patch:
        patch.setattr(log._producer_state, "_read", find_no_descriptor)
        with pytest.raises(ProducersUnread):
            log.restore_producers()
    store.close(clean=True)
    store, log = opened(path)
    assert store.reports[0].clean
    assert shown(log) == [0]


def test_clean_stop_that_cannot_settle_a_doubt_is_unclean_for_this_log(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, log = opened(path)
    append(log, batch(0))
    abort(log, 7)
    log._local.aborted.distrust(Doubt(0))

    monkeypatch.setattr(log._producer_state, "_read", find_no_descriptor)
    store.close(clean=True)
    monkeypatch.undo()
    store, log = opened(path)
    assert not store.reports[0].clean
    assert shown(log) == [0]


def test_cleaner_that_finds_no_descriptor_to_settle_a_doubt_with_comes_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    log.restore_producers()
    fill(log, 3)
    log._local.aborted.distrust(Doubt(0))
    cleaner = cleaner_for(store, clock).cleaner
    with monkeypatch.context() as patch:
        patch.setattr(log._producer_state, "_read", find_no_descriptor)
        cleaner.check()
    assert (cleaner.runs, cleaner.uncleanable) == (0, {}), "nothing is wrong with the log"
    cleaner.check()
    assert cleaner.runs == 1


def test_index_that_a_cut_removes_is_gone_for_good_with_the_next_flush(path: str, synced: list[str]) -> None:
    _, log = opened(path)
    fill(log, 2)
    base = log.segment_base_offsets[1]
    log.truncate_to(base)
    abort(log, 7)
    log.flush()
    log.truncate_to(base)
    assert not index(path, base).exists()
    synced.clear()
    append(log, batch(1))
    log.flush()
    assert str(TP) in synced


def test_doubt_about_a_segment_that_was_merged_meanwhile_is_about_all_of_the_new_one(path: str) -> None:
    _, log = opened(path)
    abort(log, 7)
    fill(log, 2)
    abort(log, 8)
    fill(log, 3)
    expected = shown(log)
    bases = log.segment_base_offsets
    cleaned(log, path, bases[:2])
    log._local.aborted.distrust(Doubt(bases[1], bases[1] + 1))
    assert log.cleaning.swap_in(log.cleaning.inactive_segments(log.log_end_offset), lambda _: None)
    assert log.segment_base_offsets == [0, bases[2]]
    assert shown(log) == expected
    assert index(path, 0).stat().st_size == 2 * 34


@pytest.mark.parametrize("steps", range(3))
def test_index_damaged_under_a_swap_is_derived_and_leaves_no_stray_file(path: str, steps: int) -> None:
    clock = PatientClock()
    _, log = opened(path, clock)
    producer = 7
    while len(log.segment_base_offsets) < 4:
        abort(log, producer)
        producer += 1
    clock.work()
    bases = log.segment_base_offsets
    cleaned(log, path, bases[1:3])
    damage(path, bases[0])
    damage(path, bases[2])
    old = log.cleaning.inactive_segments(log.log_end_offset)[1:]
    assert log.cleaning.swap_in(old, lambda _: None)
    clock.work(steps)
    assert shown(log) == []
    clock.work()
    clock.advance(20)
    assert shown(log) == []
    found = sorted(name for name in os.listdir(f"{path}/{TP}") if "txnindex" in name)
    assert found == [f"{base:020d}.txnindex" for base in log.segment_base_offsets]


def test_damage_of_several_indexes_is_mended_within_one_read(path: str) -> None:
    _, log = opened(path)
    producer = 7
    while len(log.segment_base_offsets) < 3:
        abort(log, producer)
        producer += 1
    append(log, batch(1), batch(2))
    for base in log.segment_base_offsets:
        damage(path, base)
    log.truncate_to(log.log_end_offset - 1)
    assert shown(log) == [log.log_end_offset - 1]


def test_damage_of_one_index_reads_no_segment_behind_its_own(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = opened(path)
    abort(log, 7)
    fill(log, 6)
    damage(path, 0)
    read: list[int] = []
    real = log._producer_state._read

    def record(offset: int, max_bytes: int, limit: int, one: bool) -> memoryview:
        read.append(limit)
        return real(offset, max_bytes, limit, one)

    monkeypatch.setattr(log._producer_state, "_read", record)
    assert shown(log)[0] == 2
    assert set(read) == {log.segment_base_offsets[1]}


def test_index_that_somebody_removed_is_derived_again(path: str) -> None:
    store, log = opened(path)
    abort(log, 7)
    append(log, batch(1))
    index(path, 0).unlink()
    assert shown(log) == [2]
    assert not store.offline_dirs
    assert index(path, 0).exists()


def test_new_segment_takes_over_no_index_of_its_name(path: str) -> None:
    _, log = opened(path)
    fill(log, 2)
    before = log.log_end_offset
    # As a power failure may bring it back: the marker of an abort at the next segment's base.
    for base in range(before, before + 10):
        index(path, base).write_bytes(HALF)
    fill(log, 3)
    base = log.segment_base_offsets[2]
    assert base < before + 10
    assert not index(path, base).exists()


def test_reader_behind_the_last_aborted_transaction_opens_no_index(path: str) -> None:
    _, log = opened(path)
    abort(log, 7)
    append(log, batch(1))
    assert shown(log) == [2]
    index(path, 0).unlink()
    chunk = log.read(2, 1000, log.log_end_offset, True)
    assert log.aborted_transactions(2, chunk) == ()
    assert not index(path, 0).exists(), "else it would have been found gone, and derived again"


def test_abort_below_the_log_start_is_found_again_and_the_log_is_cleaned(path: str) -> None:
    """The cleaner reads whole segments, deleted records too, and refuses a marker that no index has."""
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    log.restore_producers()
    abort(log, 7)
    append(log, keyed([(b"k", b"1")]), keyed([(b"k", b"2")]))
    log.maybe_raise_log_start(3)
    store.checkpoint_log_start_offsets()
    kill(store)
    store = open_store(path, clock, COMPACTED)
    log = open_log(store)
    log.restore_producers()
    assert index(path, 0).exists()
    while len(log.segment_base_offsets) < 3:
        append(log, keyed([(b"k", b"3")]))
    cleaner_for(store, clock).cleaner.check()
    assert records_of(log)[0].value == b"3"
