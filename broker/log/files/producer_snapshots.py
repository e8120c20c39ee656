"""`<offset>.snapshot`: producer state as it was when the log ended at that offset.

This module knows the files alone; `broker.log.producers` reads their content. A damaged snapshot fails its CRC there,
and an older one is read instead. Source: kafka ProducerStateManager, SnapshotFile.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from broker.log.files.checkpoints import replace_file
from broker.log.files.names import SNAPSHOT_SUFFIX, parse_segment_file, remove_if_there, segment_path
from broker.model.ids import Offset


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_directory",)

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def offsets(self, names: Sequence[str] | None = None) -> list[Offset]:
        """Rising."""
        names = os.listdir(self._directory) if names is None else names
        own = [name for name in names if name.endswith(SNAPSHOT_SUFFIX)]
        return sorted(found[0] for found in map(parse_segment_file, own) if found is not None)

    def write(self, offset: Offset, content: bytes, sync: bool = True) -> None:
        """sync=False: a power failure may leave it empty, and an older one has to do."""
        replace_file(segment_path(self._directory, offset, SNAPSHOT_SUFFIX), content, sync)

    def latest(self, at_most: Offset) -> tuple[Offset, bytes] | None:
        """(offset, content) of the newest snapshot at or below `at_most`; None where there is none. Raises OSError."""
        for offset in reversed(self.offsets()):
            if offset <= at_most:
                with open(segment_path(self._directory, offset, SNAPSHOT_SUFFIX), "rb") as file:
                    return offset, file.read()
        return None

    def remove_above(self, offset: Offset, names: Sequence[str] | None = None) -> bool:
        """True when there were any: the caller makes it durable. names: of the folder's files, where they are known."""
        gone = [found for found in self.offsets(names) if found > offset]
        for found in gone:
            remove_if_there(segment_path(self._directory, found, SNAPSHOT_SUFFIX))
        return bool(gone)

    def remove_below(self, offset: Offset) -> None:
        """Keeps the newest one below where there is none at or above: a start rebuilds the state from it."""
        offsets = self.offsets()
        for found in offsets[:-1]:
            if found < offset:
                remove_if_there(segment_path(self._directory, found, SNAPSHOT_SUFFIX))
