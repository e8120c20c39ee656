"""A broker as plain as it can be: a log of (epoch, value), where each epoch starts in it, and its role."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.core.replication.partition import Partition


@dataclass
class Broker:
    id: int
    log: list[tuple[int, str]] = field(default_factory=list)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    checkpoint: int = 0
    broker_epoch: int = 0
    alive: bool = True
    partition: Partition | None = None
    controller_epoch: int = 0

    @property
    def leo(self) -> int:
        return len(self.log)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if not self.epoch_starts or epoch == -1:
            return -1, -1
        if epoch == self.epoch_starts[-1][0]:
            return epoch, self.leo
        higher = [start for own, start in self.epoch_starts if own > epoch]
        lower = [own for own, _ in self.epoch_starts if own <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1] if lower else epoch), higher[0]

    def assign_epoch(self, epoch: int, start: int) -> None:
        if not self.epoch_starts or epoch > self.epoch_starts[-1][0]:
            while self.epoch_starts and self.epoch_starts[-1][1] >= start:
                self.epoch_starts.pop()
            self.epoch_starts.append((epoch, start))

    def truncate(self, offset: int) -> None:
        del self.log[offset:]
        self.epoch_starts = [(epoch, start) for epoch, start in self.epoch_starts if start < offset]

    @property
    def latest_epoch(self) -> int:
        return self.epoch_starts[-1][0] if self.epoch_starts else -1
