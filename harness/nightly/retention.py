"""Which folders of runs stay: failing ones all, good ones by age and by size.

Decides what may go. Must not know how a run is judged. Invariant: nothing is removed but the folder of a run that
counts as valid in the history of this very folder of nights, and lies below its store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.nightly.history import NightHistory, RunRow

_GB = 1e9
_DOOMED = ".removing-"


@dataclass(frozen=True, slots=True)
class Keep:
    """days: how old a good run may get; gb: how much the good runs may take together. None: without a limit."""

    days: float | None = None
    gb: float | None = None


def remove_old(history: NightHistory, keep: Keep, out: Path, now_s: float | None = None) -> list[str]:
    """Remove what need not be kept; returns what was done, as sentences. A folder that resists is named and stays."""
    rows = [row for row in history.kept() if row.result.run_dir is not None]
    gone = [row for row in rows if not Path(str(row.result.run_dir)).is_dir()]
    for row in gone:
        history.mark_removed(row.id)
    store = (out / "store").resolve()
    for half_removed in store.glob(f"*/{_DOOMED}*"):
        shutil.rmtree(half_removed, ignore_errors=True)
    good = [
        row
        for row in rows
        if row.counts_as == "valid" and row not in gone and store in Path(str(row.result.run_dir)).resolve().parents
    ]
    sizes = {row.id: _bytes(Path(str(row.result.run_dir))) for row in good}
    said = []
    removed_bytes = removed = 0
    for row in to_remove(good, sizes, keep, time.time() if now_s is None else now_s):
        folder = Path(str(row.result.run_dir))
        try:
            _remove(folder)
        except OSError as error:
            said.append(f"{folder}: cannot be removed: {error}")
            continue
        history.mark_removed(row.id)
        removed += 1
        removed_bytes += sizes[row.id]
    if removed:
        said.append(f"removed {removed} good runs that need not be kept any longer: {removed_bytes / _GB:.2f} GB")
    return said


def to_remove(good: Sequence[RunRow], sizes: dict[int, int], keep: Keep, now_s: float) -> list[RunRow]:
    """Pure. good: the oldest first; sizes: bytes by id. The newest stay."""
    old = []
    if keep.days is not None:
        old = [row for row in good if now_s - datetime.fromisoformat(row.began).timestamp() > keep.days * 86_400]
    left = [row for row in good if row not in old]
    if keep.gb is not None:
        total = sum(sizes[row.id] for row in left)
        while left and total > keep.gb * _GB:
            total -= sizes[left[0].id]
            old.append(left.pop(0))
    return old


def _bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.lstat().st_size
    return total


def _remove(folder: Path) -> None:
    """The folder first gets a name that no run has, so that one that is half removed is not taken for a run."""
    parent, stamp = folder.parent, datetime.now(UTC).strftime("%H%M%S%f")
    doomed = folder.rename(parent / f"{_DOOMED}{folder.name}-{stamp}")
    shutil.rmtree(doomed)
    for link in (parent / "latest", parent.parent / "latest"):
        if link.is_symlink() and not link.exists():
            link.unlink()
