"""A transaction coordinator without a log, leaders and other brokers: appends and connections that tests settle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from broker.core.coordination import TRANSACTION_TOPIC
from broker.model.ids import BrokerId, TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.records import NewRecord


class FakeCluster:
    """Satisfies the transactions' ClusterView: `leaders` are all partitions that there are."""

    def __init__(self, leaders: dict[TopicPartition, BrokerId]) -> None:
        self.leaders = leaders
        self.updated = True

    def has_partition(self, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) in self.leaders

    def leader_of(self, topic: str, partition: int) -> tuple[BrokerId, int]:
        return self.leaders.get(TopicPartition(topic, partition), -1), 0

    def live_brokers(self) -> Collection[BrokerId] | None:
        return {1, 2, 3} if self.updated else None

    def partition_count(self, topic: str) -> int:
        return sum(known.topic == topic for known in self.leaders)


class FakeAppends:
    """What a coordinator appends; `settle` says what became of the oldest."""

    def __init__(self) -> None:
        self.stored: list[NewRecord] = []
        self.waiting: list[tuple[Sequence[NewRecord], Callable[[ErrorCode, int], None]]] = []

    def add(self, partition: int, records: Sequence[NewRecord], done: Callable[[ErrorCode, int], None]) -> None:
        self.waiting.append((records, done))

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        records, done = self.waiting.pop(0)
        if error is ErrorCode.NONE:
            self.stored += records
        done(error, len(self.stored) - 1 if error is ErrorCode.NONE else -1)


STATE_0 = TopicPartition(TRANSACTION_TOPIC, 0)
