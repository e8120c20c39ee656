"""One fsync of a log: everything up to `target`, in an order that a power failure cannot turn into a lie.

The job holds its own descriptors, so that it may run on another thread while the log rolls, truncates or closes.
Data first, then what describes it; the recovery point moves only after all of it. Source: UnifiedLog.flush.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from broker.log.checkpoints import OrderedFile, fsync_dir
from broker.runtime.ports import Offset


@dataclass(slots=True)
class FlushJob:
    """target: the recovery point once done. generation: the log's count of truncations when the job was made.

    names_version, epochs_version: of what this job makes durable besides the data.
    """

    target: Offset
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
        try:
            for fd in self.fds:
                os.fdatasync(fd)
            for path in self.files:
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            if self.epochs_text is not None:
                self.epochs_file.write(self.epochs_ticket, self.epochs_text)
            for directory in self.directories:
                fsync_dir(directory)
        finally:
            for fd in self.fds:
                os.close(fd)
