"""An fsync that fails is never repeated as if it had worked; and files that vanish with their log are no failure."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.environment import Done, Environment, Job, run_inline
from broker.log.log import PartitionLog
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed
from tests.property.log.log_tools import TINY, TOPIC_ID, TP, batch

pytestmark = pytest.mark.guarantee("L7")


class Flushes:
    """Flush jobs that wait until the test lets them run."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, Done]] = []
        self.background: list[tuple[Job, Done]] = []

    def environment(self) -> Environment:
        return Environment(
            lambda: 0.0,
            lambda delay, call: None,
            lambda job, done: self.background.append((job, done)),
            lambda directory, job, done: self.jobs.append((job, done)),
        )

    def finish(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job, done in jobs:
            run_inline(job, done)


def _store(path: Path, flushes: Flushes, failures: list[LogDirFailed]) -> LogManager:
    return LogManager(
        [str(path)],
        flushes.environment(),
        defaults={**TINY, "flush.policy": "group-commit"},
        on_dir_failed=failures.append,
    )


def _append(log: PartitionLog, value: int) -> None:
    log.append_as_leader(batch(value), 1)
    log.write()


def _fail_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The next fdatasync fails with EIO, all later ones succeed: as the kernel tells a lost write. Counts the calls."""
    calls: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return lambda: len(calls)


def test_commit_whose_fsync_fails_takes_the_dir_offline_and_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    log = store.create(TP, TOPIC_ID, {})
    _append(log, 1)
    told: list[int] = []
    log.commit(lambda: told.append(1))
    calls = _fail_once(monkeypatch)
    flushes.finish()
    assert [failure.errno for failure in failures] == [errno.EIO]
    assert told == []
    assert log.recovery_point == 0
    tried = calls()
    for act in (log.flush, lambda: log.commit(lambda: None), lambda: _append(log, 2)):
        with pytest.raises(LogDirFailed):
            act()
    store.close(clean=True)
    assert calls() == tried
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_flush_that_cannot_be_begun_leaves_no_descriptor_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    log = store.create(TP, TOPIC_ID, {})
    for value in range(40):
        _append(log, value)
    assert len(log.segment_base_offsets) > 3
    for job, _ in flushes.background:
        # None of them has come to an end: the next one has all segments to sync.
        job()
    real, taken = os.dup, []  # type: ignore[var-annotated]

    def dup(fd: int) -> int:
        if len(taken) == 5:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        taken.append(real(fd))
        return taken[-1]

    open_before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "dup", dup)
    with pytest.raises(LogDirFailed):
        log.flush()
    assert len(taken) == 5
    assert os.listdir("/proc/self/fd") == open_before
    store.close(clean=False)


def test_flush_that_was_requested_before_another_one_failed_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    log = store.create(TP, TOPIC_ID, {})
    _append(log, 1)
    log.commit(lambda: None)
    log.flush_in_background()
    (first, _), (second, second_done) = flushes.jobs[0], flushes.background[-1]
    calls = _fail_once(monkeypatch)
    with pytest.raises(OSError, match="Input/output"):
        first()
    # On another thread, before the loop has heard of the failure: its own fsync would succeed.
    outcome: list[OSError | None] = []
    thread = threading.Thread(target=run_inline, args=(second, outcome.append))
    thread.start()
    thread.join()
    assert [type(error) for error in outcome] == [OSError]
    assert calls() == 1
    second_done(outcome[0])
    assert log.recovery_point == 0
    assert failures
    store.close(clean=False)


def test_flush_under_way_while_its_log_is_deleted_is_no_failure(tmp_path: Path) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    log = store.create(TP, TOPIC_ID, {})
    _append(log, 1)
    log.commit(lambda: None)
    store.delete(TP)
    flushes.finish()
    for job, done in flushes.background:
        run_inline(job, done)
    assert failures == []
    other = store.create(TopicPartition("other", 0), TOPIC_ID, {})
    _append(other, 2)
    other.flush()
    store.close(clean=True)


def test_commits_of_one_log_follow_one_another(tmp_path: Path) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    log = store.create(TP, TOPIC_ID, {})
    told: list[int] = []
    _append(log, 1)
    log.commit(lambda: told.append(log.recovery_point))
    _append(log, 2)
    _append(log, 3)
    log.commit(lambda: told.append(-1))
    assert len(flushes.jobs) == 1
    flushes.finish()
    assert told == [1]
    log.commit(lambda: told.append(log.recovery_point))
    flushes.finish()
    assert told == [1, 3]
    store.close(clean=False)


def test_topic_id_of_a_new_log_is_synced_without_waiting_for_records(tmp_path: Path) -> None:
    flushes, failures = Flushes(), []  # type: tuple[Flushes, list[LogDirFailed]]
    store = _store(tmp_path, flushes, failures)
    store.create(TP, TOPIC_ID, {})
    ((job, _),) = flushes.background
    assert any(path.endswith("partition.metadata") for path in job.files)  # type: ignore[attr-defined]
    assert job.directories == [str(tmp_path / str(TP)), str(tmp_path)]  # type: ignore[attr-defined]
    store.close(clean=False)
