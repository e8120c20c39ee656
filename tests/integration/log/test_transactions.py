"""Transactions of a log on disk: noted at appends, found again at a start, forgotten with what is cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.log.log import PartitionLog
from broker.model.log_errors import CorruptLog
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.log_tools import TP, Clock, append, batch, fetch, kill, open_log, open_store
from tests.support.transactions import end_marker, transactional

ONE_SEGMENT = {"segment.bytes": "100000"}
EVERYTHING = 1 << 40


@pytest.fixture
def log(path: str) -> PartitionLog:
    log = open_log(open_store(path, Clock(), ONE_SEGMENT))
    log.restore_producers()
    return log


def stable(log: PartitionLog, high_watermark: int | None = None) -> int:
    return log.last_stable_offset(log.log_end_offset if high_watermark is None else high_watermark)


def two_transactions() -> Sequence[memoryview]:
    """Offsets 0 to 4: one commits at 3, the other, begun before, stays open."""
    return transactional("a", 7), transactional("b", 8), batch(1), end_marker(8), batch(2)


@pytest.mark.parametrize("with_header", [False, True])
def test_leaders_log_is_stable_up_to_its_first_open_transaction(log: PartitionLog, with_header: bool) -> None:
    ends = []
    for data in (batch(0), *two_transactions(), end_marker(7, committed=False)):
        log.append_as_leader(data, 0, read_header(data) if with_header else None)
        log.write()
        ends.append(stable(log))
    assert ends == [1, 1, 1, 1, 1, 1, 7]


def test_transaction_that_is_staged_counts(log: PartitionLog) -> None:
    log.append_as_leader(transactional("a", 7), 0)
    assert log.last_stable_offset(1) == 0


@pytest.mark.parametrize("with_headers", [False, True])
def test_followers_log_notes_all_of_one_fetch(log: PartitionLog, path: str, with_headers: bool) -> None:
    append(log, *two_transactions(), end_marker(7))
    data = memoryview(bytearray(fetch(log, 0)))
    headers = []
    position = 0
    while position < len(data):
        headers.append(read_header(data, position))
        position += headers[-1].size
    follower = open_log(open_store(f"{path}/follower", Clock(), ONE_SEGMENT))
    follower.append_as_follower(data, headers if with_headers else None)
    follower.write()
    assert [stable(follower, mark) for mark in range(7)] == [0, 0, 0, 0, 0, 0, 6]


@pytest.mark.parametrize("snapshots_at", [[], [1], [2], [4], [5]])
def test_transactions_are_found_again_at_a_start(path: str, snapshots_at: list[int]) -> None:
    store = open_store(path, Clock(), ONE_SEGMENT)
    log = open_log(store)
    log.restore_producers()
    for data in two_transactions():
        append(log, data)
        if log.log_end_offset in snapshots_at:
            log.snapshot_producers()
    kill(store)
    log = open_log(open_store(path, Clock(), ONE_SEGMENT))
    log.restore_producers()
    assert stable(log) == 0
    append(log, end_marker(7))
    assert stable(log) == 6, "the other one's end was found, too"


@pytest.mark.parametrize(("end", "expected"), [(5, 0), (4, 0), (3, 0), (2, 0), (1, 0)])
def test_cut_of_a_marker_opens_its_transaction_again(log: PartitionLog, end: int, expected: int) -> None:
    append(log, *two_transactions(), end_marker(7))
    assert stable(log) == 6
    log.truncate_to(end)
    assert stable(log) == expected
    append(log, end_marker(7))
    committed_both = end >= 4 or end == 1
    assert stable(log) == (end + 1 if committed_both else 1)


def test_cut_of_a_whole_transaction_forgets_it(log: PartitionLog) -> None:
    append(log, batch(0), transactional("a", 7))
    assert stable(log) == 1
    log.truncate_to(1)
    append(log, batch(1))
    assert stable(log) == 2
    append(log, transactional("a", 7))
    log.truncate_fully_and_start_at(40)
    append(log, batch(1))
    assert stable(log) == 41


def test_deleted_records_hold_nobody_back(log: PartitionLog) -> None:
    append(log, *two_transactions())
    log.maybe_raise_log_start(4)
    assert stable(log) == 4
    assert stable(log, 3) == 3


def test_marker_that_is_damaged_is_found_when_the_log_is_replayed(log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7), end_marker(7))
    file = Path(path, str(TP), f"{0:020d}.log")
    data = bytearray(file.read_bytes())
    data[-8] ^= 1  # of the marker's key
    file.write_bytes(data)
    with pytest.raises(CorruptLog, match="reading its producers"):
        log.restore_producers()


@pytest.mark.parametrize("key", [b"\x00\x00\x00\x02", b"\x00\x00", None])
def test_control_batch_that_is_no_marker_changes_nothing(log: PartitionLog, key: bytes | None) -> None:
    append(log, transactional("a", 7))
    record = NewRecord(key, bytes(6))
    data = encode_batch([record], timestamps=1, producer_id=7, producer_epoch=0, transactional=True, control=True)
    append(log, memoryview(bytearray(data)))
    assert stable(log) == 0
