"""The store on real files: locks, marks, checkpoints, dirs, deletion, retention, failing disks."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from broker.config import Settings
from broker.log.log_dir import LogDirInUse, WrongIdentity
from broker.log.store import DiskLogStore
from broker.runtime.ports import CorruptLog, LogDirFailed, OffsetOutOfRange, TopicPartition
from broker.wire.chunks import FileSlice
from broker.wire.record_batch import CorruptBatch
from tests.property.log.compaction_tools import PatientClock
from tests.property.log.log_tools import (
    TINY,
    TOPIC_ID,
    TP,
    Clock,
    batch,
    fetch,
    kill,
    open_log,
    open_store,
    read_all,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def _append(store: DiskLogStore, values: range, epoch: int = 0, records: int = 1) -> None:
    log = open_log(store)
    for value in values:
        log.append_as_leader(batch(value, records, 1000 + value), epoch)
    log.write()


def test_store_second_broker_on_same_dir_is_refused_by_dir_and_pid(path: str) -> None:
    store = open_store(path, Clock())
    script = f"from tests.property.log.log_tools import *; open_store({path!r}, Clock())"
    for attempt in (
        lambda: open_store(path, Clock()),
        lambda: subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True),
    ):
        with pytest.raises((LogDirInUse, subprocess.CalledProcessError)) as caught:
            attempt()
        message = getattr(caught.value, "stderr", None) or str(caught.value)
        assert path in message
        assert f"pid {os.getpid()}" in message
    store.close(clean=True)
    open_store(path, Clock()).close(clean=True)


def test_store_refused_second_open_leaves_files_of_the_first_alone(path: str) -> None:
    store = open_store(path, Clock())
    store.close(clean=True)
    store = open_store(path, Clock())
    with pytest.raises(LogDirInUse):
        open_store(path, Clock())
    _append(store, range(3))
    assert len(read_all(open_log(store))) == 3
    store.close(clean=True)
    assert os.path.exists(f"{path}/.kafka_cleanshutdown")


def test_store_files_have_kafkas_names_and_contents(path: str) -> None:
    store = open_store(path, Clock())
    store.ensure_identity(7, "cluster-x")
    _append(store, range(20), epoch=3)
    log = open_log(store)
    log.write_producer_snapshot(5, b"state")
    store.checkpoint_high_watermarks({TP: 12, TopicPartition("elsewhere", 1): 3})
    store.registered(91)
    store.close(clean=True)
    names = sorted(os.listdir(path))
    assert names == [
        ".kafka_cleanshutdown",
        ".lock",
        "highwater-run-mark",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0",
    ]
    read = {name: Path(path, name).read_text() for name in names if name not in ("t-0", "highwater-run-mark")}
    assert json.loads(read[".kafka_cleanshutdown"]) == {"version": 0, "brokerEpoch": 91}
    assert read["replication-offset-checkpoint"] == "0\n1\nt 0 12\n"
    assert read["recovery-point-offset-checkpoint"] == "0\n1\nt 0 20\n"
    assert read["log-start-offset-checkpoint"] == "0\n1\nt 0 0\n"
    assert {"version=0", "broker.id=7", "cluster.id=cluster-x"} < set(read["meta.properties"].splitlines())
    home = Path(path, "t-0")
    assert (home / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
    assert (home / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert (home / "00000000000000000005.snapshot").read_bytes() == b"state"
    assert {p.suffix for p in home.iterdir()} == {".log", ".index", ".timeindex", ".snapshot", "", ".metadata"}


def test_store_reopened_after_clean_stop_knows_epoch_and_high_watermarks(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(4))
    store.checkpoint_high_watermarks({TP: 2})
    store.registered(5)
    store.close(clean=True)
    store = open_store(path, Clock())
    assert store.clean_shutdown_epochs == {os.path.realpath(path): 5}
    assert store.high_watermarks() == {TP: 2}
    assert open_log(store).topic_id == TOPIC_ID
    assert not os.path.exists(f"{path}/.kafka_cleanshutdown")
    kill(store)
    store = open_store(path, Clock())
    assert store.clean_shutdown_epochs == {os.path.realpath(path): None}
    kill(store)


def test_store_other_brokers_dir_is_refused(path: str) -> None:
    store = open_store(path, Clock())
    store.ensure_identity(1, "c")
    store.ensure_identity(1, "c")
    with pytest.raises(WrongIdentity, match=r"broker\.id is 1, this broker's is 2"):
        store.ensure_identity(2, "c")
    with pytest.raises(WrongIdentity, match=r"cluster\.id is c, this broker's is d"):
        store.ensure_identity(1, "d")
    kill(store)


def test_store_new_logs_go_to_the_emptiest_dir(tmp_path: Path) -> None:
    clock = Clock()
    store = DiskLogStore([str(tmp_path / "a"), str(tmp_path / "b")], clock.environment())
    homes = [store.create(TopicPartition("t", n), "", {}).directory for n in range(4)]
    assert homes.count(homes[0]) == 2
    assert len(set(homes)) == 2
    kill(store)


def test_store_same_partition_in_two_dirs_names_both(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"t-0 is in .*/a and in .*/b"):
        DiskLogStore([str(tmp_path / "a"), str(tmp_path / "b")], Clock().environment())


def test_store_create_with_another_topic_id_is_refused(path: str) -> None:
    store = open_store(path, Clock())
    open_log(store)
    assert store.create(TP, "", {}).topic_id == TOPIC_ID
    with pytest.raises(ValueError, match="topic id is"):
        store.create(TP, "BBBBBBBBBBBBBBBBBBBBBQ", {})
    kill(store)


def test_store_deleted_log_is_renamed_then_removed_and_starts_anew(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock)
    _append(store, range(5))
    log = open_log(store)
    log.flush()
    log.maybe_raise_log_start(2)
    store.checkpoint_recovery_points()
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks({TP: 4})
    chunk = log.read(2, 1 << 20, 5, True)
    store.delete(TP)
    assert TP not in store.logs()
    (hidden,) = [name for name in os.listdir(path) if name.endswith("-delete")]
    assert hidden.startswith("t-0.")
    assert isinstance(chunk, FileSlice)
    assert len(os.pread(chunk.fd, chunk.length, chunk.position)) == chunk.length
    again = store.create(TP, "CCCCCCCCCCCCCCCCCCCCCQ", {})
    assert (again.leo, again.topic_id) == (0, "CCCCCCCCCCCCCCCCCCCCCQ")
    clock.advance(20)
    assert not os.path.exists(f"{path}/{hidden}")
    kill(store)
    store = open_store(path, Clock())
    assert store.logs()[TP].leo == 0
    assert store.high_watermarks() == {}
    kill(store)


def test_store_deletion_cut_short_by_a_kill_is_finished_after_the_start(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(5))
    store.delete(TP)
    kill(store)
    clock = Clock()
    store = open_store(path, clock)
    assert store.logs() == {}
    clock.advance(20)
    assert not [name for name in os.listdir(path) if name.endswith("-delete")]
    kill(store)


@pytest.mark.parametrize(
    "text", ["version: 9", f"version: 0\ntopic_id: {TOPIC_ID[:-1]}", f"version: 0\ntopic_id: {TOPIC_ID[:-1]}*"]
)
def test_store_unreadable_partition_metadata_takes_only_that_log_offline(path: str, text: str) -> None:
    store = open_store(path, Clock())
    open_log(store)
    store.create(TopicPartition("u", 0), "", {})
    store.close(clean=True)
    Path(path, "t-0", "partition.metadata").write_text(text)
    store = open_store(path, Clock())
    assert set(store.logs()) == {TopicPartition("u", 0)}
    assert "partition.metadata" in str(store.offline_logs[TP])
    with pytest.raises(CorruptLog):
        open_log(store)
    store.delete(TP)
    assert open_log(store).leo == 0
    kill(store)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_store_malformed_checkpoint_costs_a_longer_recovery_only(path: str, name: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(20))
    store.close(clean=True)
    Path(path, name).write_text("0\n5\nt 0 x\n")
    os.unlink(f"{path}/.kafka_cleanshutdown")
    store = open_store(path, Clock())
    assert len(read_all(store.logs()[TP])) == 20
    kill(store)


def test_store_clean_start_opens_no_old_segment(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(path, Clock())
    _append(store, range(100))
    segments = open_log(store).segment_base_offsets
    assert len(segments) > 8
    store.close(clean=True)
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: opened.append(str(path)) or real(path, *more))
    store = open_store(path, Clock())
    monkeypatch.undo()
    touched = {name[-30:] for name in opened if name.endswith((".log", ".index", ".timeindex"))}
    assert len(touched) == 3
    assert open_log(store).leo == 100
    kill(store)


def test_retention_by_time_on_a_virtual_clock_keeps_seven_days(path: str) -> None:
    day = 24 * 3600 * 1000
    clock = Clock()
    store = open_store(path, clock, {"segment.ms": str(day - 1), "retention.ms": str(7 * day)})
    log = open_log(store)
    for hour in range(24 * 10):
        log.append_as_leader(batch(hour, 1, hour * day // 24), 0)
        log.write()
        clock.now = hour * day / 24
        log.delete_old_segments(clock.now, log.leo)
    assert len(log.segment_base_offsets) == 8
    assert log.log_start_offset == log.segment_base_offsets[0] == 24 * 2
    with pytest.raises(OffsetOutOfRange):
        fetch(log, 24 * 2 - 1)
    kill(store)


def test_daily_roll_and_seven_days_by_the_brokers_settings_on_a_virtual_clock(path: str) -> None:
    hour, days = 3_600_000, 30
    given = {"zookeeper.connect": "zk:2181", "log.roll.hours": "24", "log.retention.hours": "168"}
    clock = Clock()
    store = open_store(path, clock, Settings.parse(given).topic_defaults)
    log = open_log(store)
    for now in range(24 * days):
        log.append_as_leader(batch(now, 1, now * hour), 0)
        log.write()
        clock.now = now * hour
        store.delete_old_segments(clock.now, {TP: log.leo})
        # An hour's record is an offset: 168 of them are always there, and what goes with them is one segment's.
        assert log.log_start_offset <= max(0, now - 168)
        assert log.log_start_offset >= now - 168 - 25
        rolled = pairwise(log.segment_base_offsets)
        assert all(later - earlier == 25 for earlier, later in rolled), "at the first record after a day"
    assert log.log_start_offset > 24 * (days - 9)
    kill(store)


def test_retention_never_takes_what_is_above_the_high_watermark(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, TINY | {"retention.ms": "1"})
    _append(store, range(40))
    log = open_log(store)
    bases = log.segment_base_offsets
    log.delete_old_segments(1e15, bases[2])
    assert log.segment_base_offsets == bases[2:]
    log.delete_old_segments(1e15, 39)
    assert log.segment_base_offsets == bases[-1:]
    assert [int.from_bytes(row[:8], "big") for row in read_all(log)][-1] == 39
    clock.advance(20)
    assert not [name for name in os.listdir(f"{path}/t-0") if name.endswith(".deleted")]
    kill(store)


def test_retention_renames_at_once_and_removes_after_the_delay(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, TINY | {"retention.ms": "1", "file.delete.delay.ms": "60000"})
    _append(store, range(40))
    log = open_log(store)
    base = log.segment_base_offsets[0]
    begun = log.read(base, 1 << 20, 40, True)
    log.delete_old_segments(1e15, 39)

    def renamed() -> set[str]:
        return {name for name in os.listdir(f"{path}/t-0") if name.endswith(".deleted")}

    assert f"{base:020d}.log.deleted" in renamed()
    assert not os.path.exists(f"{path}/t-0/{base:020d}.log")
    clock.advance(59_999)
    assert f"{base:020d}.log.deleted" in renamed()
    assert isinstance(begun, FileSlice)
    assert len(os.pread(begun.fd, begun.length, begun.position)) == begun.length, "a read that had begun goes on"
    clock.advance(1)
    assert renamed() == set()
    kill(store)


def test_retention_lets_an_empty_segment_take_over_before_the_active_one_goes(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "1"})
    _append(store, range(40))
    log = open_log(store)
    log.append_as_leader(batch(40), 0)
    log.delete_old_segments(1e15, 40)
    assert log.segment_base_offsets[-1] < 40, "what is staged still goes behind the old one"
    log.write()
    log.delete_old_segments(1e15, 41)
    assert (log.segment_base_offsets, log.log_start_offset, log.leo) == ([41], 41, 41)
    assert log.delete_old_segments(1e15, 41) == 0
    _append(store, range(41, 43))
    assert len(read_all(log)) == 2
    kill(store)
    again = open_store(path, Clock(), TINY)
    assert open_log(again).leo == 43
    kill(again)


def test_retention_applies_new_overrides_at_the_next_check(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "-1"})
    _append(store, range(40))
    log = open_log(store)
    count = len(log.segment_base_offsets)
    assert log.delete_old_segments(1e15, 40) == 0
    store.update_config("t", {"retention.bytes": "1000"})
    assert log.delete_old_segments(1e15, 40) > 0
    assert 1000 <= log.size_bytes < 1700
    store.update_config("t", {"retention.ms": "100"})
    assert log.delete_old_segments(0, 40) == 0
    store.update_config("t", {"cleanup.policy": "compact", "retention.ms": "100"})
    assert log.delete_old_segments(1e15, 40) == 0
    log.maybe_raise_log_start(39)
    assert log.delete_old_segments(1e15, 40) > 0, "below the log start they go whatever the policy"
    assert len(log.segment_base_offsets) < count
    kill(store)


def test_segments_roll_by_time_up_to_the_jitter_earlier(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, {"segment.ms": "1000", "segment.jitter.ms": "400"})
    log = open_log(store)
    lives: list[int] = []
    first = 0
    for moment in range(0, 60_000, 50):
        before = len(log.segment_base_offsets)
        log.append_as_leader(batch(moment, timestamp=moment), 0)
        log.write()
        if len(log.segment_base_offsets) > before:
            lives.append(moment - first)
            first = moment
    assert all(600 <= life <= 1050 for life in lives), lives
    assert min(lives[1:]) < 900
    assert max(lives[1:]) > min(lives[1:])
    kill(store)


def test_active_segment_of_a_compacted_log_is_rolled_within_max_compaction_lag(path: str) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "100000", "max.compaction.lag.ms": "1000"}
    store = open_store(path, Clock(), config)
    log = open_log(store)
    for moment in (0, 900, 1001):
        log.append_as_leader(batch(moment, timestamp=moment), 0)
        log.write()
    assert log.segment_base_offsets == [0, 2]
    kill(store)


def test_retention_by_size_keeps_at_least_that_much(path: str) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "-1", "retention.bytes": "1500"})
    _append(store, range(40))
    log = open_log(store)
    log.delete_old_segments(1e15, 40)
    assert 1500 <= log.size_bytes < 1500 + 700
    kill(store)


def test_log_roll_asks_for_producer_state_at_the_offset_where_the_segment_ends(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    log.snapshot_at_roll = lambda offset: f"up to {offset}".encode()
    _append(store, range(20))
    base = log.segment_base_offsets[-1]
    assert log.latest_producer_snapshot() == (base, f"up to {base}".encode())
    log.truncate_to(base - 1)
    offset, _ = log.latest_producer_snapshot() or (-1, b"")
    assert 0 < offset <= base - 1
    kill(store)


def test_log_staged_batches_are_not_read_nor_answered_before_write(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(3), epoch=1)
    log = open_log(store)
    log.append_as_leader(batch(9), 2)
    assert (log.leo, log.written_leo, log.dirty) == (4, 3, True)
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
        assert (log.leo, log.dirty, log.latest_epoch) == (0, False, -1)
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


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_log_failed_system_call_takes_the_dir_offline_for_good(
    path: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[LogDirFailed] = []
    store = open_store(path, Clock(), on_dir_failed=failures.append)
    log = open_log(store)
    _append(store, range(3))

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


def test_store_one_failed_dir_leaves_the_other_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskLogStore([str(tmp_path / "a"), str(tmp_path / "b")], Clock().environment())
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


def test_log_flush_messages_flushes_by_itself(path: str) -> None:
    store = open_store(path, Clock(), {"flush.messages": "3"})
    _append(store, range(2))
    assert open_log(store).recovery_point == 0
    _append(store, range(2, 4))
    assert open_log(store).recovery_point == 4
    kill(store)


def test_store_flush_due_flushes_after_flush_ms(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock, {"flush.ms": "100"})
    _append(store, range(2))
    store.flush_due()
    assert open_log(store).recovery_point == 0
    clock.advance(100)
    store.flush_due()
    assert open_log(store).recovery_point == 2
    kill(store)


def test_log_background_flush_overtaken_by_a_truncation_proves_nothing(path: str) -> None:
    clock = Clock()
    waiting = []
    store = open_store(path, clock)
    store._environment = type(clock.environment())(
        lambda: 0.0, lambda delay, call: None, lambda job, done: waiting.append((job, done))
    )
    _append(store, range(4))
    log = open_log(store)
    log.flush_in_background()
    log.truncate_to(1)
    _append(store, range(10, 14))
    for job, done in waiting:
        job()
        done(None)
    assert log.recovery_point <= 1
    kill(store)


def test_recovery_valid_batches_behind_the_bad_one_are_reported_as_damage(path: str) -> None:
    store = open_store(path, Clock(), {})
    _append(store, range(10))
    kill(store)
    size = os.path.getsize(f"{path}/t-0/{0:020d}.log") // 10
    with open(f"{path}/t-0/{0:020d}.log", "r+b") as file:
        file.seek(4 * size + 70)
        file.write(b"\xff")
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.cut_bytes, report.corrupt_middle, report.clean) == (4, 6 * size, True, False)
    assert "CRC32C" in report.reason
    kill(store)


def test_log_that_is_corrupt_can_still_be_emptied_for_its_restoration(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(40))
    store.close(clean=True)
    for name in os.listdir(f"{path}/t-0"):
        if name.endswith(".log") and int(name[:20]) < 20:
            Path(path, "t-0", name).write_bytes(b"\xff" * os.path.getsize(f"{path}/t-0/{name}"))
    store = open_store(path, Clock())
    log = open_log(store)
    with pytest.raises(CorruptLog, match=f"^{TP}: .*magic -1"):
        fetch(log, 3)
    log.truncate_fully_and_start_at(0)
    _append(store, range(3))
    assert len(read_all(log)) == 3
    kill(store)


def test_recovery_torn_tail_is_no_damage(path: str) -> None:
    store = open_store(path, Clock(), {})
    _append(store, range(10))
    kill(store)
    name = f"{path}/t-0/{0:020d}.log"
    os.truncate(name, os.path.getsize(name) - 5)
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.corrupt_middle) == (9, False)
    kill(store)


def test_recovery_missing_segment_leaves_no_hole(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(40))
    bases = open_log(store).segment_base_offsets
    kill(store)
    os.unlink(f"{path}/t-0/{bases[2]:020d}.log")
    store = open_store(path, Clock())
    (report,) = store.reports
    assert (report.leo, report.segments_removed) == (bases[2], len(bases) - 3)
    assert len(read_all(open_log(store))) == bases[2]
    kill(store)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "{:020d}.index", "{:020d}.timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"\0" * 24, b"garbage"])
def test_recovery_derived_file_lost_or_garbled_is_derived_again(
    path: str, name: str, clean: bool, content: bytes | None
) -> None:
    store = open_store(path, Clock())
    _append(store, range(20), epoch=2)
    _append(store, range(20, 40), epoch=5)
    epochs = open_log(store).epochs
    rows = read_all(open_log(store))
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    bases = sorted(int(entry[:20]) for entry in os.listdir(f"{path}/t-0") if entry.endswith(".log"))
    for base in bases:
        victim = Path(path, "t-0", name.format(base))
        if content is None:
            victim.unlink(missing_ok=True)
        else:
            victim.write_bytes(content)
    store = open_store(path, Clock())
    log = open_log(store)
    assert log.epochs == epochs
    assert read_all(log) == rows
    found = log.offset_for_timestamp(1017, 40)
    assert found == (1017, 17, 2)
    kill(store)


def test_timestamp_lookup_finds_first_record_at_or_after(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(30), epoch=4, records=2)
    log = open_log(store)
    for value in range(30):
        assert log.offset_for_timestamp(1000 + value, 60) == (1000 + value, 2 * value, 4)
    assert log.offset_for_timestamp(0, 60) == (1000, 0, 4)
    assert log.offset_for_timestamp(1030, 60) is None
    assert log.offset_for_timestamp(1029, 58) is None
    log.maybe_raise_log_start(11)
    assert log.offset_for_timestamp(0, 60) == (1005, 11, 4)
    kill(store)


def test_timestamp_lookup_out_of_order_timestamps_takes_the_first_offset(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    stamps = [50, 90, 20, 90, 95, 10, 99]
    for number, stamp in enumerate(stamps):
        log.append_as_leader(batch(number, 1, stamp), 0)
    log.write()
    for wanted in range(100):
        first = next(n for n, stamp in enumerate(stamps) if stamp >= wanted)
        assert log.offset_for_timestamp(wanted, 7) == (stamps[first], first, 0)
    kill(store)


def test_index_entry_that_names_a_later_batch_is_not_believed(path: str) -> None:
    config = {"index.interval.bytes": "100"}
    store = open_store(path, Clock(), config)
    _append(store, range(30))
    rows = read_all(open_log(store))
    store.close(clean=True)
    name = Path(path, "t-0", f"{0:020d}.index")
    entries = bytearray(name.read_bytes())
    # The second entry's offset with the fourth one's position: a batch stands there, but not that one.
    entries[12:16] = entries[28:32]
    name.write_bytes(entries)
    store = open_store(path, Clock(), config)
    for offset in range(30):
        assert fetch(open_log(store), offset, 1) == rows[offset]
    kill(store)


def test_store_partition_that_may_lie_in_an_offline_dir_is_not_made_anew(tmp_path: Path) -> None:
    # The second dir cannot be opened: what it holds is not known, so an old partition may be in there.
    (tmp_path / "file").write_text("")
    broken = str(tmp_path / "file" / "data")
    store = DiskLogStore([str(tmp_path / "data"), broken], Clock().environment())
    assert store.offline_dirs == [broken]
    with pytest.raises(LogDirFailed, match="file/data"):
        store.create(TP, TOPIC_ID, {}, new=False)
    assert TP not in store.logs()
    assert store.create(TP, TOPIC_ID, {}, new=True).leo == 0
    kill(store)


def test_store_partition_of_a_dir_that_failed_while_it_was_loaded_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = [str(tmp_path / "a"), str(tmp_path / "b")]
    store = DiskLogStore(dirs, Clock().environment())
    _append(store, range(3))
    home = open_log(store).directory
    store.close(clean=True)

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("broker.log.store_opening.load", fail)
    store = DiskLogStore(dirs, Clock().environment())
    monkeypatch.undo()
    assert store.offline_dirs == [home]
    with pytest.raises(LogDirFailed):
        store.create(TP, TOPIC_ID, {}, new=True)
    kill(store)


def test_store_wrong_identity_is_found_before_anything_is_touched(path: str) -> None:
    store = open_store(path, Clock(), identity=(7, "cluster-x"))
    _append(store, range(3))
    store.close(clean=True)
    for identity, named in (((8, "cluster-x"), "broker.id is 7"), ((7, "cluster-y"), "cluster.id is cluster-x")):
        with pytest.raises(WrongIdentity, match=named):
            open_store(path, Clock(), identity=identity)
        assert os.path.exists(f"{path}/.kafka_cleanshutdown")
    store = open_store(path, Clock(), identity=(7, "cluster-x"))
    assert [report.clean for report in store.reports] == [True]
    kill(store)


def test_store_watermark_checkpoint_does_not_outlive_a_truncation_below_it(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(10), epoch=1)
    store.checkpoint_high_watermarks({TP: 9})
    log = open_log(store)
    log.truncate_to(4)
    _append(store, range(20, 30), epoch=2)
    kill(store)
    store = open_store(path, Clock())
    assert open_log(store).leo == 14
    assert store.high_watermarks() == {TP: 4}
    kill(store)


def test_store_watermark_checkpoint_does_not_outlive_a_recovery_that_cut_below_it(path: str) -> None:
    store = open_store(path, Clock(), {})
    _append(store, range(10))
    store.checkpoint_high_watermarks({TP: 9})
    kill(store)
    name = f"{path}/t-0/{0:020d}.log"
    os.truncate(name, os.path.getsize(name) // 2)
    store = open_store(path, Clock(), {})
    assert store.high_watermarks() == {TP: 5}
    _append(store, range(20, 30), epoch=2)
    kill(store)
    store = open_store(path, Clock(), {})
    assert store.high_watermarks() == {TP: 5}
    kill(store)


def test_store_delete_of_a_log_that_is_not_there_does_nothing(path: str) -> None:
    store = open_store(path, Clock())
    store.delete(TP)
    kill(store)


def test_store_closed_unused_leaves_the_mark_as_it_found_it(path: str) -> None:
    store = open_store(path, Clock())
    _append(store, range(3))
    store.registered(91)
    store.close(clean=True)
    for _ in range(2):
        store = open_store(path, Clock())
        assert list(store.clean_shutdown_epochs.values()) == [91]
        store.close_unused()
    store = open_store(path, Clock())
    kill(store)
    open_store(path, Clock()).close_unused()
    store = open_store(path, Clock())
    assert list(store.clean_shutdown_epochs.values()) == [None]
    kill(store)


def test_settings_that_changed_since_the_logs_were_opened_reach_them(path: str) -> None:
    store = open_store(path, Clock())
    open_log(store)
    store.close(clean=True)
    store = open_store(path, Clock(), topic_configs={TP.topic: {"retention.ms": "1"}})
    log = store.logs()[TP]
    assert log.config.retention_ms == 1
    store.learn_config(TP.topic, {"retention.ms": "1"})
    same = log.config
    store.learn_config(TP.topic, {"retention.ms": "1"})
    assert log.config is same, "nothing is parsed again for what is known"
    store.learn_config(TP.topic, {})
    assert log.config.retention_ms != 1
    kill(store)


def test_start_that_fails_leaves_the_marks_as_it_found_them(tmp_path: Path) -> None:
    """The same partition in two dirs: the second makes the start fail when the first is open already."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    for path in (first, second):
        store = open_store(path, Clock())
        _append(store, range(3))
        store.registered(91)
        store.close(clean=True)
    with pytest.raises(ValueError, match="remove the folder that is not wanted"):
        DiskLogStore([first, second], Clock().environment())
    for path in (first, second):
        store = open_store(path, Clock())
        assert list(store.clean_shutdown_epochs.values()) == [91]
        kill(store)


def _flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("clean", [True, False])
def test_batch_that_claims_offsets_of_the_next_segment_is_damage_not_the_end(path: str, clean: bool) -> None:
    store = open_store(path, Clock())
    _append(store, range(40))
    base = open_log(store).segment_base_offsets[2]
    open_log(store).flush()
    store.checkpoint_recovery_points()
    if clean:
        store.close(clean=True)
    else:
        kill(store)
    # A high byte of the batch's last offset delta.
    _flip(Path(path, "t-0", f"{base:020d}.log"), 24)
    store = open_store(path, Clock())
    with pytest.raises(CorruptLog, match="comes next"):
        fetch(open_log(store), base)
    kill(store)


def test_clean_start_believes_no_damaged_last_batch(path: str) -> None:
    store = open_store(path, Clock(), {})
    _append(store, range(10))
    store.close(clean=True)
    name = Path(path, "t-0", f"{0:020d}.log")
    _flip(name, name.stat().st_size * 9 // 10 + 24)
    store = open_store(path, Clock(), {})
    (report,) = store.reports
    assert (report.leo, report.clean) == (9, False)
    kill(store)


@pytest.mark.patches
def test_retention_of_other_logs_goes_on_beside_a_damaged_one(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(path, Clock(), TINY | {"retention.ms": "1"})
    _append(store, range(40))
    other = TopicPartition("u", 0)
    log = store.create(other, TOPIC_ID[:-1] + "w", {})
    for value in range(40):
        log.append_as_leader(batch(value, 1, 1000), 0)
    log.write()
    assert list(store.logs()) == [TP, other]
    damage = CorruptLog(TP, "a segment", "a batch has a false length")

    def damaged(*_: object) -> int:
        raise damage

    monkeypatch.setattr(store.logs()[TP], "delete_old_segments", damaged)
    told: list[CorruptLog] = []
    assert store.delete_old_segments(1e15, {TP: 40, other: 40}, told.append) > 0
    assert told == [damage]
    assert log.log_start_offset > 0
    kill(store)


def test_epochs_of_a_deleted_log_are_not_written_into_the_one_made_anew(path: str) -> None:
    clock = PatientClock()
    store = open_store(path, clock)
    _append(store, range(3), 3)
    clock.work()
    open_log(store).assign_epoch(7, 3)
    open_log(store).flush_in_background()
    # On their threads while the rest goes on.
    late, clock.waiting = clock.waiting, []
    store.delete(TP)
    assert open_log(store).epochs == []
    clock.work()
    clock.waiting += late
    clock.work()
    with open(f"{path}/{TP}/leader-epoch-checkpoint") as file:
        assert file.read().split() == ["0", "0"]
    assert store.offline_dirs == []
    kill(store)
