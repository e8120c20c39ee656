"""Where a test's store lies, and a log in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.log.dumped_segment import BATCHES
from tests.property.log.log_tools import TP, Clock, append_values, open_store
from tests.property.log.moved_logs import Life, opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    """Two log dirs."""
    return [str(tmp_path / "a"), str(tmp_path / "b")]


@pytest.fixture
def clock() -> Clock:
    return Clock(now=1e6)


@pytest.fixture
def life(dirs: list[str], clock: Clock) -> Life:
    """A log in the first dir."""
    made = Life(opened(dirs, clock))
    made.create()
    made.append(20, 1)
    return made


@pytest.fixture
def home(path: str) -> Path:
    """A folder with one segment of 60 batches of three records."""
    store = open_store(path, Clock(), {"index.interval.bytes": "500"})
    append_values(store, range(BATCHES), epoch=4, records=3)
    store.close(clean=True)
    return Path(path, str(TP))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files and folders that were synced, without the folder they are in, in order."""
    names: list[str] = []

    def record(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            real(fd)

        return sync

    monkeypatch.setattr(os, "fsync", record(os.fsync))
    monkeypatch.setattr(os, "fdatasync", record(os.fdatasync))
    return names
