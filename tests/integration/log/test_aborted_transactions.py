"""The files of aborted transactions: made by an abort, on disk with its records, made anew where they are damaged."""

from __future__ import annotations

import logging
import os

import pytest

from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from tests.property.log.log_tools import TP, Clock, append, batch, kill, open_log, open_store
from tests.support.committed_reader import read_committed
from tests.support.transactions import end_marker, transactional

CONFIG = {"segment.bytes": "500"}


@pytest.fixture
def store(path: str) -> LogManager:
    return open_store(path, Clock(), CONFIG)


@pytest.fixture
def log(store: LogManager) -> PartitionLog:
    log = open_log(store)
    log.restore_producers()
    return log


def index(path: str, base: int = 0) -> str:
    return f"{path}/{TP}/{base:020d}.txnindex"


def test_only_an_abort_makes_an_index(log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7), end_marker(7), end_marker(8, committed=False))
    assert not os.path.exists(index(path)), "nothing was aborted: the second had no transaction"
    log.append_as_leader(transactional("b", 7, 1), 0)
    log.append_as_leader(end_marker(7, committed=False), 0)
    assert not os.path.exists(index(path)), "the records are not written either"
    log.write()
    assert os.path.getsize(index(path)) == 34


def test_staged_abort_that_is_dropped_leaves_no_entry(log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7))
    log.append_as_leader(end_marker(7, committed=False), 0)
    log.discard_staged()
    log.truncate_to(1)
    append(log, end_marker(7))
    assert not os.path.exists(index(path))
    assert read_committed(log, 0, 1000) == [(0, b"a")]


def test_new_index_is_durable_with_its_segment(log: PartitionLog, path: str, synced: list[str]) -> None:
    append(log, batch(0))
    log.flush()
    synced.clear()
    append(log, transactional("a", 7), end_marker(7, committed=False))
    log.flush()
    assert str(TP) in synced, "the folder has a new name"
    synced.clear()
    while len(log.segment_base_offsets) == 1:
        append(log, batch(1))
    log.flush()
    assert f"{0:020d}.txnindex" in synced
    assert synced.index(f"{0:020d}.log") < synced.index(str(TP))


def test_clean_stop_syncs_the_index_of_the_active_segment(
    store: LogManager, log: PartitionLog, synced: list[str]
) -> None:
    append(log, transactional("a", 7), end_marker(7, committed=False))
    synced.clear()
    store.close(clean=True)
    assert f"{0:020d}.txnindex" in synced


def test_log_that_is_emptied_where_it_begins_has_no_aborted_transactions(log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7), end_marker(7, committed=False))
    log.truncate_fully_and_start_at(0)
    assert not os.path.exists(index(path))
    append(log, transactional("b", 7), end_marker(7))
    assert read_committed(log, 0, 1000) == [(0, b"b")]


def test_deleted_segment_takes_its_index_along(log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7), end_marker(7, committed=False))
    while len(log.segment_base_offsets) == 1:
        append(log, batch(1))
    second = log.segment_base_offsets[1]
    log.maybe_raise_log_start(second)
    assert log.delete_old_segments(0, log.log_end_offset) == 1
    assert not os.path.exists(index(path))
    assert log.aborted_transactions(second, log.read(second, 1000, log.log_end_offset, True)) == ()


@pytest.mark.parametrize("damage", ["half an entry", "version"])
def test_damaged_index_is_derived_from_the_log_and_reported(
    log: PartitionLog, path: str, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    append(log, transactional("a", 7), batch(0), end_marker(7, committed=False))
    with open(index(path), "r+b") as file:
        whole = file.read()
        file.seek(0)
        file.write(b"\1" + whole[1:] if damage == "version" else whole + b"\0")
    with caplog.at_level(logging.WARNING):
        assert [offset for offset, _ in read_committed(log, 0, 1000)] == [1]
    assert "index of aborted transactions of segment 0 is damaged" in caplog.text
    with open(index(path), "rb") as file:
        assert file.read() == whole
    append(log, transactional("c", 7, 1), end_marker(7, committed=False))
    assert [offset for offset, _ in read_committed(log, 0, 1000)] == [1]


def test_start_after_a_kill_derives_indexes_anew(store: LogManager, log: PartitionLog, path: str) -> None:
    append(log, transactional("a", 7), end_marker(7, committed=False), batch(0))
    kill(store)
    os.unlink(index(path))
    log = open_log(open_store(path, Clock(), CONFIG))
    log.restore_producers()
    assert [offset for offset, _ in read_committed(log, 0, 1000)] == [2]
    assert os.path.getsize(index(path)) == 34
