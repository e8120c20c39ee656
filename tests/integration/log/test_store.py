"""The store on real files: locks, marks, checkpoints, dirs, identity, settings, what a start finds."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.log.files.log_dir import LogDirInUse, WrongIdentity
from broker.log.log_manager import LogManager
from broker.log.recovery import loader as recovery
from broker.model.ids import TopicPartition
from broker.model.log_errors import CorruptLog, LogDirFailed
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append_values, kill, open_log, open_store, read_all

pytestmark = pytest.mark.guarantee("L1")


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
    append_values(store, range(3))
    assert len(read_all(open_log(store))) == 3
    store.close(clean=True)
    assert os.path.exists(f"{path}/.kafka_cleanshutdown")


@pytest.mark.parametrize("partition", [TopicPartition("../x", 0), TopicPartition("t", -1), TopicPartition("", 0)])
def test_store_makes_no_folder_for_a_partition_that_cannot_be(path: str, partition: TopicPartition) -> None:
    store = open_store(path, Clock())
    before = {name for _, names, _ in os.walk(os.path.dirname(path)) for name in names}
    with pytest.raises(ValueError, match="no partition is called"):
        store.create(partition, TOPIC_ID, {})
    assert {name for _, names, _ in os.walk(os.path.dirname(path)) for name in names} == before
    store.close(clean=True)


def test_store_files_have_kafkas_names_and_contents(path: str) -> None:
    store = open_store(path, Clock(), identity=(7, "cluster-x"))
    append_values(store, range(20), epoch=3)
    log = open_log(store)
    log.snapshots.write(5, b"state")
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
    append_values(store, range(4))
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
    for _ in range(2):
        kill(open_store(path, Clock(), identity=(1, "c")))
    with pytest.raises(WrongIdentity, match=r"broker\.id is 1, this broker's is 2"):
        open_store(path, Clock(), identity=(2, "c"))
    with pytest.raises(WrongIdentity, match=r"cluster\.id is c, this broker's is d"):
        open_store(path, Clock(), identity=(1, "d"))
    kill(open_store(path, Clock(), identity=(1, "c")))


def test_store_new_logs_go_to_the_emptiest_dir(tmp_path: Path) -> None:
    clock = Clock()
    store = LogManager([str(tmp_path / "a"), str(tmp_path / "b")], clock.environment())
    homes = [store.create(TopicPartition("t", n), "", {}).directory for n in range(4)]
    assert homes.count(homes[0]) == 2
    assert len(set(homes)) == 2
    kill(store)


def test_store_create_with_another_topic_id_is_refused(path: str) -> None:
    store = open_store(path, Clock())
    open_log(store)
    assert store.create(TP, "", {}).topic_id == TOPIC_ID
    with pytest.raises(ValueError, match="topic id is"):
        store.create(TP, "BBBBBBBBBBBBBBBBBBBBBQ", {})
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
    assert open_log(store).staged_end_offset == 0
    kill(store)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_store_malformed_checkpoint_costs_a_longer_recovery_only(path: str, name: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(20))
    store.close(clean=True)
    Path(path, name).write_text("0\n5\nt 0 x\n")
    os.unlink(f"{path}/.kafka_cleanshutdown")
    store = open_store(path, Clock())
    assert len(read_all(store.logs()[TP])) == 20
    kill(store)


@pytest.mark.guarantee("L2")
def test_store_clean_start_opens_no_old_segment(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(path, Clock())
    append_values(store, range(100))
    segments = open_log(store).segment_base_offsets
    assert len(segments) > 8
    store.close(clean=True)
    opened: list[str] = []
    real = os.open

    def noting(path: str, *more: int) -> int:
        opened.append(str(path))
        return real(path, *more)

    monkeypatch.setattr(os, "open", noting)
    store = open_store(path, Clock())
    monkeypatch.undo()
    touched = {name[-30:] for name in opened if name.endswith((".log", ".index", ".timeindex"))}
    assert len(touched) == 3
    assert open_log(store).staged_end_offset == 100
    kill(store)


def test_store_partition_that_may_lie_in_an_offline_dir_is_not_made_anew(tmp_path: Path) -> None:
    # The second dir cannot be opened: what it holds is not known, so an old partition may be in there.
    (tmp_path / "file").write_text("")
    broken = str(tmp_path / "file" / "data")
    store = LogManager([str(tmp_path / "data"), broken], Clock().environment())
    assert store.offline_dirs == [broken]
    with pytest.raises(LogDirFailed, match="file/data"):
        store.create(TP, TOPIC_ID, {}, new=False)
    assert TP not in store.logs()
    assert store.create(TP, TOPIC_ID, {}, new=True).staged_end_offset == 0
    kill(store)


def test_store_partition_of_a_dir_that_failed_while_it_was_loaded_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = [str(tmp_path / "a"), str(tmp_path / "b")]
    store = LogManager(dirs, Clock().environment())
    append_values(store, range(3))
    home = open_log(store).directory
    store.close(clean=True)

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("broker.log.manager.loading.load", fail)
    store = LogManager(dirs, Clock().environment())
    monkeypatch.undo()
    assert store.offline_dirs == [home]
    with pytest.raises(LogDirFailed):
        store.create(TP, TOPIC_ID, {}, new=True)
    kill(store)


def test_store_wrong_identity_is_found_before_anything_is_touched(path: str) -> None:
    store = open_store(path, Clock(), identity=(7, "cluster-x"))
    append_values(store, range(3))
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
    append_values(store, range(10), epoch=1)
    store.checkpoint_high_watermarks({TP: 9})
    log = open_log(store)
    log.truncate_to(4)
    append_values(store, range(20, 30), epoch=2)
    kill(store)
    store = open_store(path, Clock())
    assert open_log(store).staged_end_offset == 14
    assert store.high_watermarks() == {TP: 4}
    kill(store)


def test_store_closed_unused_leaves_the_mark_as_it_found_it(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(3))
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


def test_start_that_fails_leaves_the_marks_as_it_found_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second dir makes the start fail when the first is open already."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    for path in (first, second):
        store = open_store(path, Clock())
        append_values(store, range(3))
        store.registered(91)
        store.close(clean=True)
    os.rename(f"{second}/{TP}", f"{second}/u-0")
    real = recovery.load

    def fail(topic_partition: TopicPartition, *args: Any, **kwargs: Any) -> object:
        if topic_partition != TP:
            raise ValueError("what nobody thought of")
        return real(topic_partition, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("broker.log.manager.loading.load", fail)
        with pytest.raises(ValueError, match="nobody thought of"):
            LogManager([first, second], Clock().environment())
    for path in (first, second):
        store = open_store(path, Clock())
        assert list(store.clean_shutdown_epochs.values()) == [91]
        kill(store)
