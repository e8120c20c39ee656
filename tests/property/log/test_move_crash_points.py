"""A kill before any file system call of a move between log dirs leaves the log whole, in one dir, and open."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path

import pytest

from broker.log.log_manager import LogManager
from broker.wire.record_batch import read_header
from tests.property.log.kills import Killed, attempts, killed_before_call
from tests.property.log.log_tools import TP, Clock, folder, kill, read_all
from tests.property.log.moved_logs import SLICE, Life, opened, told

pytestmark = pytest.mark.guarantee("L3", "L6")


def _life(path: str) -> tuple[Life, list[str], Clock]:
    dirs, clock = [f"{path}/a", f"{path}/b"], Clock(now=1e6)
    life = Life(opened(dirs, clock))
    life.create()
    life.append(20, 1)
    life.append(12, 3)
    life.log.maybe_raise_log_start(5)
    life.store.checkpoint_log_start_offsets()
    return life, dirs, clock


def _other(dirs: list[str], home: str) -> str:
    return next(path for path in dirs if path != home)


def _move(life: Life, dirs: list[str], clock: Clock, cuts: bool) -> None:
    """A move under appends, and with cuts, as a follower has them, under a cut and what a new leader wrote."""
    life.store.moving.begin(TP, _other(dirs, life.home))
    for _ in range(3):
        life.store.moving.copy(TP, SLICE)
    life.append(4, 3)
    life.copy()
    if cuts:
        life.cut(6)
        life.append(3, 4)
    life.store.checkpoint_recovery_points()
    assert life.change_over()
    life.append(6, 5)
    clock.advance(20)
    life.append(2, 5)


def _judge(life: Life, store: LogManager) -> None:
    """Nothing that was acknowledged is missing, and nothing is there twice."""
    assert not store.offline_logs
    assert not store.unclean
    log = store.logs()[TP]
    found = read_all(log)
    known = [data for data in life.written if read_header(memoryview(data)).last_offset >= log.log_start_offset]
    assert log.log_start_offset == 5
    if life.before_cut and len(found) > len(known):
        known = [data for data in life.before_cut if data in found]
        assert len(found) == len(known), "the kill came within the cut: it took away a part"
    assert found[: len(known)] == known
    assert len(found) <= len(known) + 1, "one more may have been written without being acknowledged"


@pytest.mark.parametrize("cuts", [False, True])
def test_kill_anywhere_in_a_move_loses_and_doubles_nothing(cuts: bool) -> None:
    left: set[str] = set()
    for attempt in attempts():
        with folder() as path:
            life, dirs, clock = _life(path)
            with attempt.killed():
                _move(life, dirs, clock, cuts)
            kill(life.store)
            left.add(_names(dirs))
            store = opened(dirs, clock)
            _judge(life, store)
            before = told(store.logs()[TP])
            moving = TP in store.moving.targets
            goes_on = Life(store, value=1000)
            if moving:
                assert goes_on.change_over()
                assert told(goes_on.log) == before
            clock.advance(100)
            assert _names(dirs) in ("a", "b"), "neither a copy nor what was copied is left"
            store.close(clean=True)
            again = opened(dirs, clock)
            assert again.reports[0].clean
            assert told(again.logs()[TP]) == before
            again.close(clean=True)
    assert attempt.number > 100
    assert {"a", "b", "a b-future", "ab"} <= left


def _names(dirs: list[str]) -> str:
    """Which dirs have the partition, and which a copy."""
    words = []
    for path in dirs:
        names = os.listdir(path) if os.path.isdir(path) else []
        words += [Path(path).name] * (str(TP) in names)
        words += [f" {Path(path).name}-future" for name in names if name.endswith("-future")]
    return "".join(words)


def test_start_is_killed_while_it_settles_a_move_and_the_next_one_does() -> None:
    """Every start in turn is killed before one call more."""
    number, finished = 0, False
    while not finished:
        number += 1
        with folder() as path:
            life, dirs, clock = _life(path)
            with killed_before_call(_call_between_the_renames()), contextlib.suppress(Killed):
                _move(life, dirs, clock, False)
            kill(life.store)
            assert _names(dirs) == "ab"
            finished = _starts(dirs, clock, number)
            store = opened(dirs, clock)
            _judge(life, store)
            kill(store)
    assert number > 10


def _starts(dirs: list[str], clock: Clock, number: int) -> bool:
    with pytest.MonkeyPatch.context() as patch, killed_before_call(number):
        patch.setattr("broker.log.files.log_dir.LogDir.lock", lambda _: None)
        with contextlib.suppress(Killed):
            opened(dirs, clock)
            return True
    return False


@cache
def _call_between_the_renames() -> int:
    """The call before which a kill leaves the partition in both dirs."""
    for attempt in attempts():
        with folder() as path:
            life, dirs, clock = _life(path)
            with attempt.killed():
                _move(life, dirs, clock, False)
            kill(life.store)
            if _names(dirs) == "ab":
                break
    return attempt.number
