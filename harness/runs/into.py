"""The folder of this machine that takes what an analysis of a run elsewhere reads and writes.

Decides which folders it may have: new and empty ones, and what an analysis that was not finished left. That is known by
a mark that lies there from the first file on until the last is written, and is locked meanwhile, so that no analysis
takes a folder from under another one. Must not know what is judged. Invariant: nothing is removed that an analysis did
not write.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.runs.checkers_process import SCRATCH, log_of
from harness.runs.judge_process import SOCKET
from harness.runs.store import RunStore

MARK = "unfinished-analysis"


class FolderTaken(Exception):
    """A folder that is not for an analysis to fill; the text names it and says why."""


@contextmanager
def filled(folder: Path, uri: str) -> Iterator[RunStore]:
    """A folder without anything but the mark, which goes once all went well. uri: of the run, for who reads the mark.

    Raises FolderTaken.
    """
    store = RunStore(folder.resolve())
    try:
        _check(folder)
        mark = _begun(store, uri)
    except BlockingIOError:
        raise FolderTaken(f"{folder}: another analysis is writing there") from None
    except OSError as error:
        raise FolderTaken(f"{folder}: {error.strerror}; should be a new folder, for results and report") from error
    with mark:
        yield store
        (store.path / MARK).unlink()


def _begun(store: RunStore, uri: str) -> IO[str]:
    """The mark, open, and locked until it is closed or this process ends; with nothing beside it. Raises OSError, as
    BlockingIOError where another process has it.
    """
    store.path.mkdir(parents=True, exist_ok=True)
    mark = (store.path / MARK).open("a", encoding="utf-8")
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in _ours(store) - {MARK}:
            _remove(store.path / name)
        mark.truncate(0)
        mark.write(f"An analysis of {uri} is not finished; another one may replace what is here.\n")
        mark.flush()
    except BaseException:
        mark.close()
        raise
    return mark


def _check(folder: Path) -> None:
    """Raises FolderTaken where it holds anything that is not for an analysis to replace."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderTaken(f"{folder} is no folder; should be a new one, for results and report")
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return
    if MARK not in names:
        raise FolderTaken(
            f"{folder} is there, and not empty; should be a new folder, for results and report, or one that an analysis"
            " which was not finished left"
        )
    if others := sorted(names - _ours(RunStore(folder))):
        raise FolderTaken(
            f"{folder} holds what an analysis that was not finished left, and {', '.join(others[:3])}, which is of"
            " none; should be a new folder, for results and report"
        )


def _ours(store: RunStore) -> set[str]:
    """Names of all that an analysis of a run elsewhere may leave there, half-written files included."""
    files = [store.run_json, store.results, store.path / "series.json", store.junit, store.report]
    halves = {name for file in files for name in (f"{file.name}.part", file.with_suffix(".tmp").name)}
    return {MARK, *(file.name for file in files), *halves, store.evidence.name, log_of(store).name, SCRATCH, SOCKET}


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
