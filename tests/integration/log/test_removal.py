"""Deleted logs and segments leave the disk on a thread of their own; a stop leaves the rest to the next start."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config.settings import Settings
from broker.log.environment import Done, Environment, Job, run_inline
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.net.loop import EpollLoop
from broker.server.data_plane import DataPlane
from tests.property.log.compaction_tools import COMPACTED
from tests.property.log.log_tools import TINY, TP, Clock, append_values, batch, kill, open_log, open_store, read_all
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("L3")

RETAINED = TINY | {"retention.ms": "1"}
_BROKER = {
    "log.segment.bytes": TINY["segment.bytes"],
    "log.index.interval.bytes": TINY["index.interval.bytes"],
    "log.segment.delete.delay.ms": TINY["file.delete.delay.ms"],
    "log.retention.ms": "1",
}


class Threads:
    """A broker's store, with its loop and its threads for file work, flushes and deletions."""

    def __init__(self, path: str) -> None:
        self.loop = EpollLoop()
        given = {"zookeeper.connect": "nowhere:2181", "broker.id": "1", "log.dirs": path}
        self.plane = DataPlane(Settings.parse(given | _BROKER), self.loop, {}, lambda failure: None, "cluster")
        self.store = self.plane.store

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def turned() -> bool:
            self.loop.run_once(1)
            return condition()

        eventually(turned, what)

    def close(self) -> None:
        self.plane.close(clean=False)
        self.loop.close()


@pytest.fixture
def threads(path: str) -> Iterator[Threads]:
    threads = Threads(path)
    yield threads
    threads.close()


class Unlinks:
    """Notes who removes what, and lets the test hold it up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by: dict[str, int] = {}
        self.may_go = threading.Event()
        self.may_go.set()
        self.waiting = threading.Event()
        for module, name in ((os, "unlink"), (os, "rmdir"), (shutil, "rmtree")):
            monkeypatch.setattr(module, name, self._noting(getattr(module, name)))

    def _noting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if os.path.exists(str(path)) and ("-delete" in str(path) or ".deleted" in str(path)):
                self.by[str(path)] = threading.get_ident()
                self.waiting.set()
                assert self.may_go.wait(20)
            return real(path, *args, **kwargs)

        return remove

    def were_made_elsewhere(self, count: int) -> None:
        """So many, on one thread, which is not this one."""
        assert len(self.by) == count
        idents = set(self.by.values())
        assert len(idents) == 1
        assert threading.get_ident() not in idents


def _hidden(path: str) -> list[str]:
    return [name for name in os.listdir(path) if name.endswith("-delete")]


def _deleted(path: str, base: int | None = None) -> list[str]:
    start = "" if base is None else f"{base:020d}.log"
    return sorted(name for name in os.listdir(f"{path}/{TP}") if name.startswith(start) and name.endswith(".deleted"))


def _with_segments(store: LogManager) -> PartitionLog:
    append_values(store, range(40))
    log = open_log(store)
    assert len(log.segment_base_offsets) > 3
    return log


def test_deleted_log_is_unlinked_on_the_thread_for_deletions(
    path: str, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_segments(threads.store)
    files = len(os.listdir(f"{path}/{TP}"))
    unlinks = Unlinks(monkeypatch)
    threads.store.delete(TP)
    threads.until(lambda: not _hidden(path), "the folder's end")
    unlinks.were_made_elsewhere(files + 1)


def test_expired_segments_are_unlinked_on_the_thread_for_deletions(
    path: str, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _with_segments(threads.store)
    unlinks = Unlinks(monkeypatch)
    assert log.delete_old_segments(1e15, 40) > 3
    files = len(_deleted(path))
    threads.until(lambda: not _deleted(path), "the segments' end")
    unlinks.were_made_elsewhere(files)


def test_slow_unlink_holds_up_neither_the_loop_nor_other_file_work(
    path: str, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _with_segments(threads.store)
    log.delete_old_segments(1e15, 40)
    unlinks = Unlinks(monkeypatch)
    unlinks.may_go.clear()
    threads.until(unlinks.waiting.is_set, "the first unlink")
    append_values(threads.store, range(40, 60))
    threads.store.checkpoint_high_watermarks({TP: 60})
    log.flush_in_background()
    checkpoint = Path(path, "replication-offset-checkpoint")
    threads.until(lambda: log.recovery_point == 60 and checkpoint.exists(), "flush and checkpoint")
    assert _deleted(path)
    assert len(unlinks.by) == 1
    unlinks.may_go.set()
    threads.until(lambda: not _deleted(path), "the segments' end")


def test_stop_waits_for_the_file_at_hand_only_and_the_next_start_removes_the_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(path)
    _with_segments(threads.store)
    files = len(os.listdir(f"{path}/{TP}"))
    unlinks = Unlinks(monkeypatch)
    unlinks.may_go.clear()
    threads.store.delete(TP)
    threads.until(unlinks.waiting.is_set, "the first unlink")
    closing = threading.Thread(target=threads.close)
    closing.start()
    jobs = threads.plane._deletions._threads._jobs
    eventually(lambda: jobs.qsize() == 1, "the stop: nothing but the word that it is over")
    unlinks.may_go.set()
    closing.join()
    (folder,) = _hidden(path)
    assert len(unlinks.by) == 1
    assert len(os.listdir(f"{path}/{folder}")) == files - 1
    again = Threads(path)
    assert again.store.logs() == {}
    assert again.store.offline_logs == {}
    again.until(lambda: not _hidden(path), "the folder's end")
    again.close()


def test_checkpoints_forget_a_topic_of_many_partitions_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    store = open_store(path, clock, COMPACTED)
    partitions = [TopicPartition("t", number) for number in range(30)]
    for partition in partitions:
        log = store.create(partition, "", {})
        log.append_as_leader(batch(1), 0)
        log.write()
        log.flush()
    store.checkpoint_recovery_points()
    store.checkpoint_high_watermarks(dict.fromkeys(partitions, 1))
    for partition in partitions:
        store.delete(partition)
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(fd)
        real(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        clock.advance(60_000)
    assert not _hidden(path)
    # Recovery points, watermarks, cleaner offsets: file and folder.
    assert len(synced) <= 6
    for name in ("recovery-point", "replication", "cleaner"):
        assert Path(path, f"{name}-offset-checkpoint").read_text() == "0\n0\n"
    kill(store)


class _OneByOne(Clock):
    """Removals wait until they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.removals: list[tuple[Job, Done]] = []

    def environment(self) -> Environment:
        return Environment(lambda: self.now, self._schedule, remove=lambda job, done: self.removals.append((job, done)))

    def remove_one(self) -> bool:
        if self.removals:
            run_inline(*self.removals.pop(0))
        return bool(self.removals)


def _checkpointed(store: LogManager) -> None:
    _with_segments(store).flush()
    store.checkpoint_recovery_points()
    store.checkpoint_high_watermarks({TP: 40})


def test_kill_between_two_unlinks_of_a_deleted_log_costs_nothing(path: str) -> None:
    steps, finished = 0, False
    while not finished:
        clock = _OneByOne()
        store = open_store(path, clock)
        _checkpointed(store)
        store.delete(TP)
        clock.advance(20)
        for _ in range(steps):
            finished = not clock.remove_one()
        kill(store)
        assert bool(_hidden(path)) is not finished
        later = Clock()
        store = open_store(path, later)
        assert store.offline_logs == {}, "no checkpoint knows it any more"
        assert store.logs() == {}
        later.advance(20)
        assert not _hidden(path)
        kill(store)
        steps += 1
    assert steps > 8


def test_kill_between_two_unlinks_of_segments_costs_nothing(path: str) -> None:
    clock = _OneByOne()
    store = open_store(path, clock, RETAINED)
    log = _with_segments(store)
    log.delete_old_segments(1e15, 39)
    left = read_all(log)
    clock.advance(20)
    for _ in range(3):
        clock.remove_one()
    kill(store)
    assert _deleted(path)
    store = open_store(path, Clock(), RETAINED)
    assert read_all(store.logs()[TP]) == left
    assert not _deleted(path)
    kill(store)


def test_start_leaves_the_leftovers_of_segments_to_the_thread_for_deletions(path: str) -> None:
    store = open_store(path, Clock(), RETAINED | {"file.delete.delay.ms": "60000"})
    _with_segments(store).delete_old_segments(1e15, 39)
    store.close(clean=True)
    found = _deleted(path)
    assert found
    clock = _OneByOne()
    store = open_store(path, clock, RETAINED)
    assert _deleted(path) == found
    while clock.remove_one():
        pass
    assert not _deleted(path)
    kill(store)


def test_log_made_anew_keeps_what_it_deletes_while_the_old_ones_files_are_still_going(path: str) -> None:
    """The first deletion of a name is carried out after the name was used, and deleted, once more."""
    clock = _OneByOne()
    store = open_store(path, clock, TINY)
    log = _with_segments(store)
    last = log.segment_base_offsets[-1]
    log.truncate_to(last - 1)
    clock.advance(20)
    append_values(store, range(last - 1, 40))
    assert log.segment_base_offsets[-1] == last
    log.truncate_to(last - 1)
    assert len(_deleted(path, last)) == 2
    while clock.remove_one():
        pass
    assert len(_deleted(path, last)) == 1
    kill(store)


def test_folder_in_a_dir_that_fails_before_it_goes_is_the_next_starts(path: str) -> None:
    clock = Clock()
    store = open_store(path, clock)
    _checkpointed(store)
    store.delete(TP)
    next(iter(store._dirs)).fail(OSError(errno.EIO, "bad"))
    clock.advance(20)
    assert _hidden(path)
    kill(store)
    clock = Clock()
    store = open_store(path, clock)
    assert store.offline_logs == {}, "its checkpoints know it still: without the folder it would look lost"
    clock.advance(20)
    assert not _hidden(path)
    kill(store)


def test_unlink_that_fails_is_reported_and_the_others_go_on(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    store = open_store(path, clock)
    _with_segments(store)
    store.delete(TP)
    real = os.unlink

    def unlink(name: str) -> None:
        if name.endswith(f"{0:020d}.log"):
            raise OSError(errno.EIO, "bad sector", name)
        real(name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        clock.advance(20)
    (folder,) = _hidden(path)
    assert os.listdir(f"{path}/{folder}") == [f"{0:020d}.log"]
    assert f"{folder}/{0:020d}.log stays until the next start" in caplog.text
    assert store.offline_dirs == []
    kill(store)
