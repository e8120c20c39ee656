"""What is on the disks of the replicas of one partition: logs, what of them is synced, marks of unclean stops."""

from __future__ import annotations

from broker.log.files.unclean_shutdown import older_copy_reason

REPLICAS = (1, 2, 3)
Record = tuple[int, int]
"""(leader epoch, value)"""


class Disks:
    """One disk for each replica."""

    def __init__(self) -> None:
        self.logs: dict[int, list[Record]] = {b: [] for b in REPLICAS}
        self.starts = dict.fromkeys(REPLICAS, 0)
        """Where each log begins: what is before it was deleted, and is in the list to keep offsets right."""
        self.synced = dict.fromkeys(REPLICAS, 0)
        self.unclean: set[int] = set()
        self.foreign: set[int] = set()
        """Of the unclean ones those whose log is not what it was, shortened: an older copy."""
        self._left_under: dict[int, int] = {}
        """The registration that each disk names."""
        self._backups: dict[int, tuple[list[Record], int, int, bool, int]] = {}
        """Of each disk: log, its start, what is synced, whether it is marked as unclean, its registration."""

    def open(self, broker: int, last_registration: int | None, registration: int) -> None:
        """By a broker that registers. last_registration: its registration before, as ZooKeeper keeps it."""
        if older_copy_reason(self._left_under.get(broker, -1), last_registration):
            self.unclean.add(broker)
            self.foreign.add(broker)
        self._left_under[broker] = registration

    def mend(self, brokers: set[int]) -> None:
        """Whoever leads, or was admitted, has a log that is as it should be."""
        self.unclean -= brokers
        self.foreign &= self.unclean

    def kept(self, broker: int) -> list[Record]:
        return self.logs[broker][self.starts[broker] :]

    def follow(self, follower: int, leader: int) -> None:
        """Fetch until equal: cut where the logs part, then copy."""
        self.logs[follower] = list(self.logs[leader])
        self.delete_to(follower, self.starts[leader])
        self.synced[follower] = min(self.synced[follower], len(self.logs[follower]))

    def delete_to(self, broker: int, start: int) -> None:
        """A log that is emptied goes on in a new file, which says where it begins."""
        if self.starts[broker] > len(self.logs[broker]):
            self.starts[broker] = start
        self.starts[broker] = max(self.starts[broker], start)
        self.synced[broker] = max(self.synced[broker], self.starts[broker])

    def lose_power(self, broker: int) -> None:
        del self.logs[broker][self.synced[broker] :]
        self.unclean.add(broker)

    def epochs_of(self, broker: int) -> tuple[tuple[int, int], ...]:
        """(leader epoch, where it starts)"""
        found: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(self.logs[broker]):
            if offset >= self.starts[broker] and (not found or epoch != found[-1][0]):
                found.append((epoch, offset))
        return tuple(found)

    def back_up(self, broker: int) -> None:
        log, unclean = list(self.logs[broker]), broker in self.unclean
        ends = (self.starts[broker], self.synced[broker])
        self._backups[broker] = (log, *ends, unclean, self._left_under[broker])

    def restore(self, broker: int) -> None:
        """From its backup, if there is one: every byte as it was, marks and inodes included."""
        if broker in self._backups:
            log, self.starts[broker], self.synced[broker], unclean, self._left_under[broker] = self._backups[broker]
            self.logs[broker] = list(log)
            self.unclean = self.unclean | {broker} if unclean else self.unclean - {broker}
