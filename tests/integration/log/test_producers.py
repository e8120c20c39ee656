"""The producer state of a log on disk: rebuilt from snapshots and batches, cut with the log, left at rolls."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.log import PartitionLog
from broker.log.producers import ProducerStateManager
from tests.property.log.compaction_tools import keyed
from tests.property.log.log_tools import TP, Clock, append, batch, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("idempotent-producers")

ONE_SEGMENT = {"segment.bytes": "100000"}


def send(log: PartitionLog, sequence: int) -> None:
    log.append_as_leader(keyed([(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence), 0)
    log.write()


def newest(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(producer, sequence, offset) of each producer's last batch."""
    return [
        (producer, entry.batches[-1].last_sequence, entry.batches[-1].last_offset) for producer, entry in log.producers
    ]


@pytest.mark.parametrize(("damaged", "first_read"), [([], 30), ([30], 20), ([20, 30], 10), ([10, 20, 30], 0)])
def test_damaged_snapshot_costs_what_lies_behind_the_one_before(path: str, damaged: list[int], first_read: int) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    log = open_log(store)
    log.restore_producers()
    for sequence in range(35):
        if sequence in (10, 20, 30):
            log.snapshot_producers()
        send(log, sequence)
    for offset in damaged:
        Path(path, str(TP), f"{offset:020d}.snapshot").write_bytes(b"")
    read_at: list[int] = []

    def read(offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool) -> memoryview:
        read_at.append(offset)
        return log.read_bytes(offset, max_bytes, limit_offset, min_one_batch)

    started = ProducerStateManager(log._local, read)
    started.restore()
    assert read_at[0] == first_read
    assert [(entry.batches[-1].last_offset, producer) for producer, entry in started.states] == [(34, 7)]
    kill(store)


@pytest.mark.parametrize("snapshot_at", [None, 3])
def test_who_wrote_deleted_records_is_known_after_a_start(path: str, snapshot_at: int | None) -> None:
    """DeleteRecords moves the log's start beyond the newest snapshot, in a segment that stays."""
    store = open_store(path, Clock(), ONE_SEGMENT)
    log = open_log(store)
    log.restore_producers()
    for sequence in range(5):
        if sequence == snapshot_at:
            log.snapshot_producers()
        send(log, sequence)
    append(log, *map(batch, range(10)))
    log.maybe_raise_log_start(12)
    store.checkpoint_log_start_offsets()
    before = newest(log)
    kill(store)
    log = open_log(open_store(path, Clock(), ONE_SEGMENT))
    assert log.log_start_offset == 12
    log.restore_producers()
    assert newest(log) == before == [(7, 4, 4)]


def test_transaction_that_began_below_the_log_start_is_open_after_a_start(path: str) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    log = open_log(store)
    log.restore_producers()
    append(log, keyed([(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, *map(batch, range(10)))
    log.maybe_raise_log_start(4)
    store.checkpoint_log_start_offsets()
    assert log.last_stable_offset(11) == 4
    kill(store)
    log = open_log(open_store(path, Clock(), ONE_SEGMENT))
    log.restore_producers()
    assert log.last_stable_offset(11) == 4


def test_log_notes_what_is_appended_and_forgets_what_is_cut(path: str) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    log = open_log(store)
    log.restore_producers()
    for sequence in range(20):
        send(log, sequence)
    assert newest(log) == [(7, 19, 19)]
    log.truncate_to(17)
    assert newest(log) == [(7, 16, 16)], "by what is remembered"
    log.truncate_to(5)
    assert newest(log) == [(7, 4, 4)], "by what the batches say"
    log.truncate_fully_and_start_at(40)
    assert newest(log) == []
    log.append_as_follower(_at(40, 90))
    assert newest(log) == [(7, 90, 40)]
    kill(store)


def _at(offset: int, sequence: int) -> memoryview:
    data = keyed([(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence)
    data[:8] = offset.to_bytes(8, "big")
    return data


def test_roll_before_the_producers_were_restored_leaves_no_snapshot(path: str) -> None:
    """Such a snapshot would say that none of the batches before it had a producer."""
    store = open_store(path, Clock(), {"segment.bytes": "700"})
    log = open_log(store)
    for sequence in range(20):
        send(log, sequence)
    assert len(log.segment_base_offsets) > 1
    log.snapshot_producers()
    assert log.snapshots.offsets() == []
    log.restore_producers()
    for sequence in range(20, 40):
        send(log, sequence)
    assert log.snapshots.offsets() == [base for base in log.segment_base_offsets if base >= 20]
    assert newest(log) == [(7, 39, 39)]
    kill(store)
