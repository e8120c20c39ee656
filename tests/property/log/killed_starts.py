"""Starts and restorations that are killed before one of their file system calls, over the same log again and again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from broker.log.files.log_dir import LogDir
from broker.log.files.run_mark import FILE_NAME
from broker.log.log_manager import LogManager
from tests.property.log.kills import Killed, killed_before_call
from tests.property.log.log_tools import TOPIC_ID, TP, Clock, kill

NEVER = 1 << 30
_WITHOUT_MARK = shutil.ignore_patterns(FILE_NAME)


@contextmanager
def started(
    path: str, config: Mapping[str, str], overrides: Mapping[str, str], number: int = NEVER
) -> Iterator[tuple[LogManager, bool]]:
    """A store whose start is killed before the call with this number, and whether it came to its end."""
    store = LogManager.__new__(LogManager)
    finished = True
    with pytest.MonkeyPatch.context() as patch, killed_before_call(number):
        # The end of a process would free it.
        patch.setattr(LogDir, "lock", lambda log_dir: None)
        try:
            store.__init__(  # type: ignore[misc]
                [path], Clock(now=1e6).environment(), defaults=config, topic_configs={TP.topic: overrides}
            )
        except Killed:
            finished = False
    try:
        yield store, finished
    finally:
        kill(store)


def is_restored(store: LogManager, overrides: Mapping[str, str], number: int = NEVER) -> bool:
    """Restore the log, killed before the call with this number; whether that came to its end."""
    with killed_before_call(number):
        try:
            store.restore(TP, TOPIC_ID, overrides)
        except Killed:
            return False
    return True


def save(path: str, saved: str) -> None:
    """Keep a log dir whose store was killed."""
    shutil.copytree(path, saved, ignore=_WITHOUT_MARK)
    _take_mark(path, saved)


def put_back(saved: str, path: str) -> None:
    shutil.rmtree(path)
    shutil.copytree(saved, path, ignore=_WITHOUT_MARK)
    _take_mark(saved, path)


def _take_mark(path: str, other: str) -> None:
    """The very file, and unread, else the mark is not believed: a start puts another in its place, and does not write
    to it.
    """
    os.link(f"{path}/{FILE_NAME}", f"{other}/{FILE_NAME}")
