"""What is staged, written and flushed, and system calls that fail or write short."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.log.environment import Done, Environment, Job
from broker.log.log_manager import LogManager
from broker.log.segments.segment import Segment
from broker.log.segments.staging import StagedBatch
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from broker.wire.record_batch import CorruptBatch
from tests.property.log.log_tools import (
    TINY,
    Clock,
    append_values,
    batch,
    fetch,
    kill,
    open_log,
    open_store,
    read_all,
)


def test_log_roll_requests_producer_state_at_the_offset_where_the_segment_ends(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    log._local.snapshot_at_roll = lambda offset: f"up to {offset}".encode()
    append_values(store, range(20))
    base = log.segment_base_offsets[-1]
    assert log.snapshots.latest(log.staged_end_offset) == (base, f"up to {base}".encode())
    log.truncate_to(base - 1)
    offset, _ = log.snapshots.latest(log.staged_end_offset) or (-1, b"")
    assert 0 < offset <= base - 1
    kill(store)


def test_log_staged_batches_are_not_read_nor_looked_up_before_write(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(3), epoch=1)
    log = open_log(store)
    log.append_as_leader(batch(9), 2)
    assert (log.staged_end_offset, log.log_end_offset, log.dirty) == (4, 3, True)
    assert log.read(3, 1 << 20, 4, True) == b""
    assert log.end_offset_for_epoch(2) == (2, 3)
    log.write()
    assert log.end_offset_for_epoch(2) == (2, 4)
    assert len(fetch(log, 3)) > 0
    kill(store)


@pytest.mark.parametrize("damage", [lambda view: view[:-1], lambda view: view[:30], lambda view: view[:0]])
def test_log_append_of_a_broken_view_stages_nothing(path: str, damage: object) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    for append in (lambda view: log.append_as_leader(view, 1), log.append_as_follower):
        with pytest.raises(CorruptBatch):
            append(damage(batch(1)))  # type: ignore[operator]
        assert (log.staged_end_offset, log.dirty, log.latest_epoch) == (0, False, -1)
    kill(store)


def test_log_short_write_is_completed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(path, Clock(), {})
    log = open_log(store)
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, views, at: real(fd, [views[0][:50]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at, real=os.pwrite: real(fd, data[:33], at))
    views = [batch(value) for value in range(5)]
    for view in views:
        log.append_as_leader(view, 0)
    log.write()
    monkeypatch.undo()
    assert read_all(log) == [bytes(view) for view in views]
    kill(store)


def test_log_many_views_go_beyond_iov_max(path: str) -> None:
    store = open_store(path, Clock(), {})
    log = open_log(store)
    for value in range(2500):
        log.append_as_leader(batch(value), 0)
    log.write()
    assert len(read_all(log)) == 2500
    kill(store)


@pytest.mark.guarantee("L8")
@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_log_failed_system_call_takes_the_dir_offline_for_good(
    path: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[LogDirFailed] = []
    store = open_store(path, Clock(), on_dir_failed=failures.append)
    log = open_log(store)
    append_values(store, range(3))

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "disk on fire")

    def write_and_flush() -> None:
        log.write()
        log.flush()

    log.append_as_leader(batch(9), 0)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(LogDirFailed, match="disk on fire") as caught:
        write_and_flush()
    monkeypatch.undo()
    assert caught.value.errno == errno.EIO
    assert failures == [caught.value]
    assert log.recovery_point == 0
    for again in (log.write, log.flush, lambda: log.append_as_leader(batch(1), 0), lambda: log.read(0, 1, 3, True)):
        if again == log.write and not log.dirty:
            continue
        with pytest.raises(LogDirFailed):
            again()
    assert store.logs() == {}
    store.close(clean=True)
    assert not os.path.exists(f"{path}/.kafka_cleanshutdown")


@pytest.mark.patches
@pytest.mark.parametrize("reached", [False, True])
def test_log_write_that_breaks_off_is_damage(path: str, reached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file by then, behind the log's end, must not have anything appended to it."""
    store = open_store(path, Clock(), {})
    log = open_log(store)
    append_values(store, range(3))
    real = Segment.add_all

    def break_off(segment: Segment, batches: list[StagedBatch]) -> None:
        if reached:
            real(segment, batches)
        raise ValueError("an error that nobody thought of")

    log.append_as_leader(batch(9), 0)
    monkeypatch.setattr(Segment, "add_all", break_off)
    with pytest.raises(CorruptLog, match="an error that nobody thought of"):
        log.write()
    assert (log.log_end_offset, log.staged_end_offset, log.dirty) == (3, 3, False)
    kill(store)


@pytest.mark.guarantee("L8")
def test_store_one_failed_dir_leaves_the_other_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LogManager([str(tmp_path / "a"), str(tmp_path / "b")], Clock().environment())
    first = store.create(TopicPartition("t", 0), "", {})
    second = store.create(TopicPartition("t", 1), "", {})
    first.append_as_leader(batch(1), 0)
    monkeypatch.setattr(os, "pwritev", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(LogDirFailed):
        first.write()
    monkeypatch.undo()
    assert set(store.logs()) == {TopicPartition("t", 1)}
    second.append_as_leader(batch(1), 0)
    second.write()
    assert store.create(TopicPartition("t", 2), "", {}).directory == second.directory
    store.close(clean=True)
    assert [os.path.exists(tmp_path / name / ".kafka_cleanshutdown") for name in "ab"] == [
        first.directory.endswith("b"),
        first.directory.endswith("a"),
    ]


@pytest.mark.guarantee("L7")
def test_log_flush_messages_flushes_by_itself(path: str) -> None:
    store = open_store(path, Clock(), {"flush.messages": "3"})
    append_values(store, range(2))
    assert open_log(store).recovery_point == 0
    append_values(store, range(2, 4))
    assert open_log(store).recovery_point == 4
    kill(store)


@pytest.mark.guarantee("L7")
def test_store_flush_due_flushes_after_flush_ms(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, {"flush.ms": "100"})
    append_values(store, range(2))
    store.flush_due()
    assert open_log(store).recovery_point == 0
    clock.advance(100)
    store.flush_due()
    assert open_log(store).recovery_point == 2
    kill(store)


@pytest.mark.guarantee("L7")
def test_log_background_flush_overtaken_by_a_truncation_proves_nothing(path: str) -> None:
    waiting: list[tuple[Job, Done]] = []
    environment = Environment(lambda: 0.0, lambda delay, call: None, lambda job, done: waiting.append((job, done)))
    store = LogManager([path], environment, defaults=TINY)
    append_values(store, range(4))
    log = open_log(store)
    log.flush_in_background()
    log.truncate_to(1)
    append_values(store, range(10, 14))
    for job, done in waiting:
        job()
        done(None)
    assert log.recovery_point <= 1
    kill(store)
