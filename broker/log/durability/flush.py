"""One flush of a log: everything up to `target`, in an order in which no power failure leaves a mark above its data.

The job holds its own descriptors, so that it may run on another thread while the log rolls, truncates or closes.
Data first, then what describes it; the recovery point moves only after all of it. Source: UnifiedLog.flush.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.log.files.checkpoints import OrderedFile, fsync_dir, fsync_file
from broker.model.ids import Offset


@dataclass(slots=True)
class FlushGate:
    """One flush of a log at a time.

    failed: the error of the first flush that failed; every later flush raises it. discarded: the log is deleted.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    failed: OSError | None = None
    discarded: bool = False


@dataclass(slots=True)
class FlushJob:
    """target: the recovery point once done. generation: the log's count of truncations when the job was made.

    indexed: segments that end at or below it have their indexes on disk then. names_version, epochs_version: of what
    this job makes durable besides the data.
    """

    gate: FlushGate
    target: Offset
    indexed: Offset
    generation: int
    names_version: int
    epochs_version: int
    fds: Sequence[int]
    files: Sequence[str]
    directories: Sequence[str]
    epochs_file: OrderedFile
    epochs_ticket: int
    epochs_text: str | None

    def __call__(self) -> None:
        """Raises OSError; the descriptors are closed in any case."""
        gate = self.gate
        try:
            with gate.lock:
                if gate.failed is not None:
                    raise gate.failed
                try:
                    self._sync()
                except FileNotFoundError as error:
                    if not gate.discarded:
                        gate.failed = error
                        raise
                except OSError as error:
                    gate.failed = error
                    raise
        finally:
            for fd in self.fds:
                os.close(fd)

    def _sync(self) -> None:
        for fd in self.fds:
            os.fdatasync(fd)
        for path in self.files:
            _sync_file(path)
        if self.epochs_text is not None and not self.gate.discarded:
            # Else a log that was made anew under this name could get the epochs of the deleted one.
            self.epochs_file.write(self.epochs_ticket, self.epochs_text)
        for directory in self.directories:
            fsync_dir(directory)


def _sync_file(path: str) -> None:
    """fsync a file; nothing where somebody has removed it from its folder. Raises OSError."""
    try:
        fsync_file(path)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            raise
