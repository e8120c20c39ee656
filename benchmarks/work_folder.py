"""The folder in which a benchmark's brokers keep their data, and what dead benchmarks left of theirs.

A folder is held by a lock on a file in it, which ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "highwater-bench-"
_LOCK = "lock"
_OLD_S = 24 * 3600.0
"""A folder without a lock is just being made, or was made by a version that held none."""


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A folder of our own, gone afterwards; before, those that nobody holds are removed."""
    remove_left(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(parent: Path) -> list[Path]:
    """Removes the folders of benchmarks that were killed; returns them."""
    removed = []
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        if folder.is_dir() and not _is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def _is_held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        try:
            return time.time() - folder.stat().st_mtime < _OLD_S
        except FileNotFoundError:
            return True  # it has just gone
    except OSError:
        return True  # another user's
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
