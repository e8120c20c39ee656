"""A log that is made anew for a partition that is not new vouches for nothing, wherever its making breaks off."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.log.files.log_dir import LogDir
from broker.log.log_manager import LogManager
from broker.model.log_errors import LogDirFailed
from tests.property.log.kills import attempts, killed_before_call
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, append_values, folder, kill, open_log, open_store

pytestmark = pytest.mark.guarantee("R12", "L6")

RECORDS = 5
_WRITING_CALLS = ("open", "write", "pwrite", "pwritev", "rename", "replace", "mkdir", "fsync")


@contextmanager
def full_from_call(number: int) -> Iterator[None]:
    """The disk has no room left at the call with this number, nor later."""
    count = [0]

    def wrap(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            count[0] += 1
            if count[0] >= number:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _WRITING_CALLS:
            patch.setattr(os, name, wrap(getattr(os, name)))
        yield


def _written(path: str) -> LogManager:
    store = open_store(path, Clock())
    store.registered(5)
    append_values(store, range(RECORDS))
    open_log(store).flush()
    store.checkpoint_recovery_points()
    store.checkpoint_high_watermarks({TP: RECORDS})
    return store


def _found_damaged(path: str, damage: Callable[[Path], object]) -> LogManager:
    _written(path).close(clean=True)
    damage(Path(path, str(TP)))
    store = open_store(path, Clock())
    assert list(store.offline_logs) == [TP]
    store.registered(7, 5)
    return store


def _wiped(path: str) -> LogManager:
    store = open_store(path, Clock())
    store.registered(7, 5)
    return store


def _folder_lost(path: str) -> LogManager:
    return _found_damaged(path, shutil.rmtree)


def _past_repair(path: str) -> LogManager:
    return _found_damaged(path, lambda home: (home / f"{0:020d}.log").unlink())


def _throw_away_and_make(store: LogManager) -> None:
    store.delete(TP)
    store.create(TP, TOPIC_ID, {}, new=False)


def _make(store: LogManager) -> None:
    store.create(TP, TOPIC_ID, {}, new=False)


def _restore(store: LogManager) -> None:
    store.restore(TP, TOPIC_ID, {})


_WAYS = [
    pytest.param(_written, _throw_away_and_make, id="thrown-away"),
    pytest.param(_wiped, _make, id="wiped-disk"),
    pytest.param(_folder_lost, _restore, id="folder-lost"),
    pytest.param(_past_repair, _restore, id="past-repair"),
]


def _vouches_for_nothing(path: str) -> None:
    """Over two starts, the second of which follows a stop in order."""
    for clean in (True, False):
        store = open_store(path, Clock())
        log = store.logs().get(TP)
        whole = log is not None and log.staged_end_offset == RECORDS
        assert log is None or whole or TP in store.unclean
        store.close(clean) if clean else kill(store)


@pytest.mark.parametrize(("begin", "make"), _WAYS)
def test_log_whose_making_is_killed_anywhere_is_marked_unclean(
    begin: Callable[[str], LogManager], make: Callable[[LogManager], None]
) -> None:
    for attempt in attempts():
        with folder() as path:
            store = begin(path)
            with attempt.killed():
                make(store)
            assert not attempt.finished or TP in store.unclean
            kill(store)
            _vouches_for_nothing(path)
    assert attempt.number > 5


@pytest.mark.parametrize(("begin", "make"), _WAYS)
def test_log_whose_making_finds_the_disk_full_is_marked_unclean_once_there_is_room(
    begin: Callable[[str], LogManager], make: Callable[[LogManager], None]
) -> None:
    for attempt in attempts():
        with folder() as path:
            store = begin(path)
            with full_from_call(attempt.number):
                try:
                    make(store)
                    attempt.finished = True
                except LogDirFailed:
                    # Nothing is marked that the store does not have: nobody could clear the mark.
                    assert TP not in store.unclean or TP in store._logs.homes
            kill(store)
            _vouches_for_nothing(path)
    assert attempt.number > 5


def _calls_of_a_lock(path: str) -> int:
    """A kill within these leaves a lock behind, as no process does that ends."""
    log_dir = LogDir(path, lambda failure: None)
    with killed_before_call(1 << 30) as count:
        log_dir.lock()
    log_dir.unlock()
    return count[0]


def test_start_that_finds_a_half_made_log_is_killed_anywhere_and_the_next_marks_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[LogManager] = []

    def leave(store: LogManager) -> None:
        left.append(store)

    with folder() as path:
        locking = _calls_of_a_lock(path)
    for attempt in attempts(locking + 1):
        with folder() as path:
            kill(_wiped(path))
            Path(path, str(TP)).mkdir()
            with monkeypatch.context() as patch, attempt.killed():
                patch.setattr(LogManager, "close_unused", leave)
                left.append(open_store(path, Clock()))
            kill(left.pop())
            _vouches_for_nothing(path)
    assert attempt.number > 10


def test_log_made_for_a_new_partition_is_not_marked() -> None:
    with folder() as path:
        store = _wiped(path)
        open_log(store)
        kill(store)
        store = open_store(path, Clock())
        assert TP not in store.unclean
        kill(store)
