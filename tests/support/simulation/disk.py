"""What a power failure leaves of a broker's logs: everything that was synced, and any part of what came behind it.

Log files alone lose their tails; names, checkpoints and indexes stay as they were, which `tests/property/log` looks at.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from broker.log.files import run_mark
from broker.zk.session_file import FILE_NAME as SESSIONS
from tests.support.simulation.fibers import takes_part

_File = tuple[int, int]


class SyncedFiles:
    """How much of each file was synced last; while installed, nothing waits for a real disk."""

    def __init__(self) -> None:
        self._synced: dict[_File, int] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("fsync", "fdatasync"):
            self._replace(patch, name)
        # The page cache of the machine keeps what it likes; the simulation's keeps all until the power is cut.
        patch.setattr(run_mark, "_cached", lambda fd, at: True)

    def _replace(self, patch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)
        patch.setattr(os, name, lambda fd: (self._sync if takes_part() else real)(fd))

    def _sync(self, fd: int) -> None:
        stat = os.fstat(fd)
        self._synced[stat.st_dev, stat.st_ino] = stat.st_size

    def cut_power(self, folder: Path, rng: random.Random) -> list[str]:
        """Of a broker that is dead: its logs lose a tail, and nothing tells that the host was not lost. What is cut."""
        cut = []
        for path in sorted(folder.glob("*/*.log")):
            stat = path.stat()
            synced = min(self._synced.get((stat.st_dev, stat.st_ino), 0), stat.st_size)
            keep = rng.choice((synced, stat.st_size, rng.randint(synced, stat.st_size)))
            if keep < stat.st_size:
                os.truncate(path, keep)
                cut.append(f"{path.parent.name.rpartition('.')[0] or path.parent.name}: {stat.st_size} to {keep}")
        for name in (run_mark.FILE_NAME, SESSIONS):
            (folder / name).unlink(missing_ok=True)
        return cut
