"""The log dirs of a broker: which of them work, and what is done to each as long as it works.

A dir that fails goes offline alone; a broker all of whose dirs failed has nothing to do.
Source: kafka LogManager (liveLogDirs, handleLogDirFailure), KIP-112.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from broker.log.files.log_dir import LogDir
from broker.model.log_errors import LogDirFailed


class LogDirs:
    """Every dir of log.dirs, each once, in the order of the settings."""

    def __init__(self, paths: Sequence[str], on_failed: Callable[[LogDirFailed], None]) -> None:
        """on_failed: called once per dir. Raises ValueError where there is no path."""
        self._dirs = [LogDir(path, on_failed) for path in dict.fromkeys(map(os.path.realpath, paths))]
        if not self._dirs:
            raise ValueError("log.dirs is empty: name at least one folder")

    def __iter__(self) -> Iterator[LogDir]:
        return iter(self._dirs)

    def __len__(self) -> int:
        return len(self._dirs)

    @property
    def working(self) -> list[LogDir]:
        """Those that have not failed, in the order of log.dirs."""
        return [log_dir for log_dir in self._dirs if log_dir.failed is None]

    @property
    def offline(self) -> list[str]:
        """Paths of the dirs that failed."""
        return [log_dir.path for log_dir in self._dirs if log_dir.failed is not None]

    def check_any(self) -> None:
        """Raise LogDirFailed when every dir is offline."""
        failures = [log_dir.failed for log_dir in self._dirs if log_dir.failed is not None]
        if len(failures) == len(self._dirs):
            raise failures[0]

    def lock(self) -> None:
        """Raises LogDirInUse."""
        for log_dir in self._dirs:
            guard(log_dir, log_dir.lock)

    def ensure_identity(self, broker_id: int, cluster_id: str) -> None:
        """Write or check meta.properties in every dir. Raises WrongIdentity."""
        for log_dir in self._dirs:
            guard(log_dir, partial(log_dir.ensure_identity, broker_id, cluster_id))


def guard(log_dir: LogDir, action: Callable[[], None]) -> None:
    """Do it where the dir works; an OSError takes the dir offline, and nothing else with it."""
    if log_dir.failed is None:
        try:
            action()
        except OSError as error:
            log_dir.fail(error)
        except LogDirFailed:
            pass
