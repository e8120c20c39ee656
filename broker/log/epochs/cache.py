"""The leader epochs of one log: which epoch began at which offset.

Invariant: entries rise strictly in epoch and in start offset. Pure; the file is written by whoever owns the log.
Source: kafka LeaderEpochFileCache; KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from broker.model.ids import Epoch, Offset

UNDEFINED = (-1, -1)


class EpochCache:
    """Start offset of each leader epoch that has batches in the log, or was taken up at its end."""

    __slots__ = ("_epochs", "_starts", "changed")

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for epoch, start in entries:
            self.assign(epoch, start)
        self.changed = False
        """True when entries differ from those last written to the file; the owner resets it."""

    @property
    def entries(self) -> list[tuple[Epoch, Offset]]:
        """(epoch, start offset), both rising."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> Epoch:
        """The newest epoch, −1 when none."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: Epoch, start: Offset) -> bool:
        """Note that `epoch` begins at `start`; entries that contradict this are dropped. False when nothing changed.

        An epoch once begun keeps its start, except that an earlier start replaces a later one.
        """
        if epoch < 0 or start < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start}: neither may be negative")
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.changed = True
        return True

    def end_offset_for(self, epoch: Epoch, leo: Offset) -> tuple[Epoch, Offset]:
        """(largest own epoch ≤ epoch, its end offset); UNDEFINED for −1 and for epochs newer than any known.

        Below the first known epoch the result is (epoch, start of the first): the log before it is gone, and a
        follower can only begin there.
        """
        if epoch < 0 or not self._epochs:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, leo
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_at(self, offset: Offset) -> Epoch:
        """Epoch of the batch at `offset`, −1 when before the first entry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def contradicts(self, epoch: Epoch, offset: Offset) -> bool:
        """Whether these entries rule out a batch of this epoch at this offset. False for a batch without an epoch (−1),
        and for offsets below the first entry.
        """
        known = self.epoch_at(offset)
        return epoch >= 0 and known >= 0 and known != epoch

    def truncate_from_end(self, end: Offset) -> None:
        """Drop entries that start at or after `end`."""
        while self._starts and self._starts[-1] >= end:
            self._starts.pop()
            self._epochs.pop()
            self.changed = True

    def truncate_from_start(self, start: Offset) -> None:
        """Drop epochs that end at or before `start`; the epoch that covers `start` now begins there."""
        covering = bisect_right(self._starts, start) - 1
        if covering < 0 or (covering == 0 and self._starts[0] == start):
            return
        del self._epochs[:covering]
        del self._starts[:covering]
        self._starts[0] = start
        self.changed = True

    def replace(self, entries: Iterable[tuple[Epoch, Offset]]) -> None:
        """Hold these entries, both rising, and no others; the file is due to be written in any case."""
        self._epochs, self._starts = [], []
        for epoch, start in entries:
            self.assign(epoch, start)
        self.changed = True

    def clear(self) -> None:
        """Forget all epochs, for a log that is emptied; the file is due to be written if there were any."""
        self.changed = self.changed or bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
