"""Log dirs whose mount went away, or did not, between two starts under one kernel, and that somebody read meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.log.files.run_mark import FILE_NAME
from tests.property.log.log_tools import TP, Clock, kill, open_store
from tests.support.disks import PowerlessDisk, mount_small, unmount

pytestmark = [pytest.mark.sandbox, pytest.mark.guarantee("R12")]

MEMORY = Path("/dev/shm")
_WRITER = """
import os, signal, sys
from tests.property.log.log_tools import Clock, append_values, open_store
store = open_store(sys.argv[1], Clock())
append_values(store, range(3))
# The names are on disk for good, the mark among them, and what comes then is not.
os.sync()
append_values(store, range(3, 6))
print("written", flush=True)
signal.pause()
"""


def killed_store(path: Path) -> None:
    """A store with six batches; kill -9."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.kill()


def archive(path: Path) -> None:
    subprocess.run(["tar", "-C", path, "-cf", path.parent.parent / "archive", "."], check=True, timeout=60)


def unclean_from(path: Path) -> tuple[bool, int]:
    """Whether a start marks the log unclean, and where the log ends."""
    store = open_store(str(path), Clock())
    try:
        return TP in store.unclean, store.logs()[TP].staged_end_offset
    finally:
        kill(store)


def identity(path: Path) -> tuple[int, int]:
    stat = os.stat(path / FILE_NAME)
    return stat.st_dev, stat.st_ino


@pytest.mark.parametrize("reads", [False, True])
def test_mount_that_was_lost_and_came_back_is_found_out_also_by_what_is_left(reads: bool) -> None:
    disk = PowerlessDisk(MEMORY / "images", MEMORY / "disk")
    try:
        path = disk.path / "data"
        killed_store(path)
        before = identity(path)
        disk.cut_power()
        assert identity(path) == before, "nothing but the page cache tells"
        if reads:
            archive(path)
        assert unclean_from(path) == (True, 3)
    finally:
        disk.close()


def test_kill_over_a_mount_that_stayed_costs_nothing() -> None:
    disk = PowerlessDisk(MEMORY / "images", MEMORY / "disk")
    try:
        path = disk.path / "data"
        killed_store(path)
        assert unclean_from(path) == (False, 6)
        assert unclean_from(path) == (False, 6)
    finally:
        disk.close()


def test_kill_over_memory_costs_nothing_though_its_files_are_always_cached() -> None:
    small = MEMORY / "small"
    mount_small(small, 6 << 20)
    try:
        path = small / "data"
        killed_store(path)
        archive(path)
        assert unclean_from(path) == (False, 6)
        assert unclean_from(path) == (False, 6)
    finally:
        unmount(small)
