"""What begins the next transaction of a producer while the end of the last one is being carried out.

A producer may ask for its next partitions milliseconds before the markers of its last transaction are written, and its
completion is stored. Kafka answers CONCURRENT_TRANSACTIONS, upon which clients pause for 20 to 100 ms. So one request
of each transactional id waits here until it can be stored behind the completion, for a tenth of a second at most; a
second one is told to come again. Loop thread. Source: kafka.coordinator.transaction.TransactionCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from broker.core.transaction.metadata import TransactionMetadata
from broker.model.ids import TopicPartition
from broker.runtime.ports import Loop, Timer
from broker.runtime.transaction.state import TransactionPartition
from broker.wire.errors import ErrorCode

WAIT_MAX_MS: Final = 100.0

Done = Callable[[ErrorCode], None]


class Following:
    """Partitions for the next transaction; `done` is called once with what came of them."""

    __slots__ = ("done", "partitions", "timer")

    def __init__(self, partitions: Collection[TopicPartition], done: Done, timer: Timer) -> None:
        self.partitions = partitions
        self.done = done
        self.timer = timer


class FollowingTransactions:
    """Of all transactions that this broker coordinates."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: dict[TransactionMetadata, Following] = {}

    def hold(
        self,
        home: TransactionPartition,
        transaction: TransactionMetadata,
        partitions: Collection[TopicPartition],
        done: Done,
    ) -> None:
        """Until `take`, or the time is over: `done` gets CONCURRENT_TRANSACTIONS then."""
        if transaction in self._waiting:
            done(ErrorCode.CONCURRENT_TRANSACTIONS)
            return

        def over() -> None:
            del self._waiting[transaction]
            done(ErrorCode.CONCURRENT_TRANSACTIONS if home.live else ErrorCode.NOT_COORDINATOR)

        timer = self._loop.call_later(WAIT_MAX_MS, over)
        self._waiting[transaction] = Following(partitions, done, timer)

    def take(self, transaction: TransactionMetadata) -> Following | None:
        """What waits for this one's completion, which the caller has to answer from now on."""
        found = self._waiting.pop(transaction, None)
        if found is not None:
            found.timer.cancel()
        return found
