"""The epoch cache and its file, and which of its contents is durable.

A new epoch is written without fsync: after a crash, epochs beyond the recovery point are derived from the batches. A
flush makes the file durable before the recovery point passes the epoch's start.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from broker.log.epochs.cache import EpochCache
from broker.log.files import checkpoints
from broker.log.files.checkpoints import OrderedFile

_numbers = itertools.count()


class EpochFile:
    """`leader-epoch-checkpoint` of one log."""

    __slots__ = ("_durable", "_version", "cache", "file")

    def __init__(self, directory: str, cache: EpochCache, durable: bool) -> None:
        """durable: the file on disk holds this cache for good."""
        self.cache = cache
        path = f"{directory}/{checkpoints.LEADER_EPOCHS}"
        # A write for a log that was just deleted may be under way when the next one of its name writes its own.
        self.file = OrderedFile(path, f"{path}.{next(_numbers)}.tmp")
        self._version = 1
        self._durable = int(durable and not cache.changed)

    @property
    def version(self) -> int:
        """Counts the contents that were ever due to be written."""
        return self._version

    def due(self) -> str | None:
        """Text that a flush must write, None when the durable one is the same."""
        if self.cache.changed:
            self.cache.changed = False
            self._version += 1
        return self._text() if self._version > self._durable else None

    def became_durable(self, version: int) -> None:
        """The contents of that version are on disk. Versions may come back in any order."""
        self._durable = max(self._durable, version)

    def save(self, sync: bool) -> None:
        """Write the cache down if it differs from what was last written. Raises OSError."""
        if not self.cache.changed and (not sync or self._version == self._durable):
            return
        self.file.write(self.file.ticket(), self._text(), sync)
        self.cache.changed = False
        self._version += 1
        if sync:
            self._durable = self._version

    def save_job(self) -> Callable[[], None] | None:
        """A call, good on any thread, that does the same without fsync; None when there is nothing to write."""
        if not self.cache.changed:
            return None
        self.cache.changed = False
        self._version += 1
        ticket, text = self.file.ticket(), self._text()
        return lambda: self.file.write(ticket, text, False)

    def _text(self) -> str:
        return checkpoints.format_epochs(self.cache.entries)
