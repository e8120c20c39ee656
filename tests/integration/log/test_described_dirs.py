"""What a store says of its dirs: which logs are where, how large they are, and how much space there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from broker.log.environment import Done, Job
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.model.log_dir_info import DiskSpace
from tests.property.log.log_tools import Clock, append_values

OTHERS = [TopicPartition("u", partition) for partition in range(3)]


class Store:
    """Two dirs, with t-0 and the others in them; `work` are jobs for other threads, not done yet."""

    def __init__(self, folder: Path) -> None:
        self.dirs = [str(folder / "a"), str(folder / "b")]
        self.work: list[tuple[Job, Done]] = []
        self.logs = LogManager(
            self.dirs, replace(Clock().environment(), background=lambda job, done: self.work.append((job, done)))
        )
        append_values(self.logs, range(50))
        for tp in OTHERS:
            self.logs.create(tp, "", {})
        self.work.clear()

    def measured(self) -> list[Mapping[str, DiskSpace]]:
        """What two that ask at once are told."""
        said: list[Mapping[str, DiskSpace]] = []
        for _ in range(2):
            self.logs.measure_dirs(said.append)
        assert said == [], "another thread asks"
        ((job, done),) = self.work
        self.work.clear()
        job()
        done(None)
        return said


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_each_log_is_in_its_dir_with_its_size_and_end(store: Store) -> None:
    infos = store.logs.describe_dirs(None)
    assert [(info.path, info.works) for info in infos] == [(path, True) for path in store.dirs]
    found = {log.topic_partition: (info.path, log) for info in infos for log in info.logs}
    assert found.keys() == store.logs.logs().keys()
    for tp, (path, log) in found.items():
        home = Path(path, str(tp))
        assert log.size == sum(file.stat().st_size for file in home.glob("*.log"))
        assert log.end_offset == (50 if tp not in OTHERS else 0)
    assert {log.size > 0 for _, log in found.values()} == {True, False}


def test_only_logs_that_are_wanted_and_there_are_told_once(store: Store) -> None:
    wanted = [OTHERS[1], TopicPartition("no-such", 0), OTHERS[1]]
    infos = store.logs.describe_dirs(wanted)
    assert [log.topic_partition for info in infos for log in info.logs] == [OTHERS[1]]
    assert len(infos) == 2


def test_file_systems_are_asked_once_for_all_who_wait(store: Store) -> None:
    first, second = store.measured()
    assert first is second
    assert set(first) == set(store.dirs)
    space = os.statvfs(store.dirs[0])
    assert first[store.dirs[0]].total == space.f_blocks * space.f_frsize
    assert 0 < first[store.dirs[0]].usable <= first[store.dirs[0]].total
    assert len(store.measured()) == 2, "and anew for those who come later"


def test_file_system_that_does_not_say_is_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[str], os.statvfs_result] = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        if path == store.dirs[0]:
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert set(store.measured()[0]) == {store.dirs[1]}


def test_dir_that_failed_is_told_as_such_and_not_asked(store: Store, tmp_path: Path) -> None:
    tp = next(iter(store.logs.logs()))
    home = next(info.path for info in store.logs.describe_dirs([tp]) if info.logs)
    store.logs.logs()[tp].read_failed(OSError(5, "Input/output error"))
    infos = {info.path: info for info in store.logs.describe_dirs(None)}
    assert (infos[home].works, list(infos[home].logs)) == (False, [])
    (other,) = set(store.dirs) - {home}
    assert infos[other].works
    assert infos[other].logs
    assert set(store.measured()[0]) == {other}
