"""Logs that the store deletes or sets aside, and those that are made anew in their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.log.epochs.cache import EpochCache
from broker.log.epochs.checkpoint import EpochFile
from broker.model.ids import TopicPartition
from broker.wire.chunks import FileSlice
from tests.property.log.compaction_tools import PatientClock
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append_values, kill, open_log, open_store, read_all

pytestmark = pytest.mark.guarantee("L1")


def test_store_deleted_log_is_renamed_then_removed_and_starts_anew(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock)
    append_values(store, range(5))
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
    assert (again.staged_end_offset, again.topic_id) == (0, "CCCCCCCCCCCCCCCCCCCCCQ")
    clock.advance(20)
    assert not os.path.exists(f"{path}/{hidden}")
    kill(store)
    store = open_store(path, Clock())
    assert store.logs()[TP].staged_end_offset == 0
    assert store.high_watermarks() == {}
    kill(store)


def test_store_log_that_is_set_aside_stays_and_the_next_one_knows_nothing_of_it(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock)
    append_values(store, range(5))
    log = open_log(store)
    content = b"".join(read_all(log))
    log.flush()
    store.checkpoint_recovery_points()
    store.checkpoint_high_watermarks({TP: 4})
    store.set_aside(TP)
    assert TP not in store.logs()
    (stray,) = [name for name in os.listdir(path) if name.endswith("-stray")]
    assert store.create(TP, "CCCCCCCCCCCCCCCCCCCCCQ", {}).staged_end_offset == 0
    clock.advance(20)
    assert log._segments.first.fd == -1, "its descriptors are not kept"
    kill(store)
    for _ in range(2):
        clock = Clock()
        store = open_store(path, clock)
        assert store.logs()[TP].staged_end_offset == 0
        assert not store.offline_logs
        clock.advance(60_000)
        files = [Path(path, stray, name) for name in sorted(os.listdir(f"{path}/{stray}")) if name.endswith(".log")]
        assert b"".join(file.read_bytes() for file in files) == content
        kill(store)


@pytest.mark.parametrize("waited_ms", [0, 20])
def test_store_of_a_log_that_was_set_aside_misses_nothing_at_its_next_start(path: str, waited_ms: int) -> None:
    clock = Clock()
    store = open_store(path, clock)
    append_values(store, range(5))
    open_log(store).flush()
    store.checkpoint_recovery_points()
    store.set_aside(TP)
    clock.advance(waited_ms)
    kill(store)
    store = open_store(path, Clock())
    assert (dict(store.logs()), store.offline_logs) == ({}, {})
    kill(store)


def test_store_deletion_cut_short_by_a_kill_is_finished_after_the_start(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(5))
    store.delete(TP)
    kill(store)
    clock = Clock()
    store = open_store(path, clock)
    assert store.logs() == {}
    clock.advance(20)
    assert not [name for name in os.listdir(path) if name.endswith("-delete")]
    kill(store)


def test_store_delete_of_a_log_that_is_not_there_does_nothing(path: str) -> None:
    store = open_store(path, Clock())
    store.delete(TP)
    kill(store)


def test_settings_of_topics_that_are_gone_do_not_pile_up(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.manager.topic_settings._SPARE_OVERRIDES", 10)
    store = open_store(path, Clock())
    for name in ("stays", "stays-too"):
        store.create(TopicPartition(name, 0), TOPIC_ID, {"retention.ms": "7"})
    for number in range(50):
        tp = TopicPartition(f"t{number}", 0)
        assert store.create(tp, TOPIC_ID, {"retention.ms": "8"}).config.retention_ms == 8
        store.delete(tp)
    assert len(store._settings._overrides) <= 2 * 2 + 10 + 1
    store.update_defaults({"retention.ms": "9"})
    assert {log.config.retention_ms for log in store.logs().values()} == {7}
    assert store.create(TopicPartition("stays", 1), TOPIC_ID, {"retention.ms": "7"}).config.retention_ms == 7
    kill(store)


@pytest.mark.patches
def test_late_write_of_a_deleted_logs_epochs_costs_the_one_made_anew_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (EpochFile(str(tmp_path), EpochCache([(epoch, 0)]), durable=False) for epoch in (3, 0))
    old_ticket = old.file.ticket()
    replace = os.replace

    def late(source: str, target: str) -> None:
        monkeypatch.setattr(os, "replace", replace)
        old.file.write(old_ticket, "late", False)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    new.file.write(new.file.ticket(), "new", True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"leader-epoch-checkpoint": "new"}


def test_epochs_of_a_deleted_log_are_not_written_into_the_one_made_anew(path: str) -> None:
    clock = PatientClock()
    store = open_store(path, clock)
    append_values(store, range(3), 3)
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
