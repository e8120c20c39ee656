"""One partition of `__transaction_state` that this broker leads: the transactional ids whose records lie there.

Source: kafka.coordinator.transaction.TransactionStateManager (loadTransactionMetadata), TransactionLog.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from broker.core.transaction.metadata import TransactionMetadata, Transit
from broker.core.transaction.states import TransactionState
from broker.model.ids import TopicPartition
from broker.wire.coordinator_records.batches import transaction_record
from broker.wire.coordinator_records.scan import CONTROL, Found
from broker.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from broker.wire.coordinator_records.versioned import UnknownRecordVersion
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import CorruptBatch
from broker.wire.records import NewRecord

logger = logging.getLogger(__name__)


class TransactionPartition:
    """Satisfies `coordinators.partitions.PartitionState`."""

    def __init__(self, number: int, on_loaded: Callable[[TransactionPartition], None]) -> None:
        self.number = number
        self.transactions: dict[str, TransactionMetadata] = {}
        self.live = True
        """Whether this broker coordinates the partition, with this state."""
        self._on_loaded = on_loaded

    def take(self, found: Iterable[Found]) -> None:
        """Newer records replace older ones of their id. Raises CorruptBatch."""
        for offset, kind, _, key, value in found:
            if kind & CONTROL:
                # A marker that somebody had written here: it says nothing of an id, and its key would pass for one.
                continue
            try:
                transactional_id = TransactionLogKey.decode(key or b"").transactional_id
                if value is None:
                    self.transactions.pop(transactional_id, None)
                else:
                    known = metadata_of(transactional_id, TransactionLogValue.decode(value))
                    self.transactions[transactional_id] = known
            except UnknownRecordVersion as unknown:
                logger.warning(
                    "__transaction_state-%d: a record at offset %d is passed over: %s", self.number, offset, unknown
                )
            except (MalformedFrame, ValueError) as malformed:
                raise CorruptBatch(0, f"record at offset {offset}: {malformed}") from malformed

    def bring_up(self) -> bool:
        """Nothing is left to do: what a record says is what is known."""
        return True

    def loaded(self) -> None:
        """Requests come from now on, and what was decided is carried out."""
        self._on_loaded(self)

    def unload(self) -> None:
        """What is under way ends with NOT_COORDINATOR, or not at all: another coordinator goes on from the log."""
        self.live = False
        self.transactions.clear()


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """As a record has it. Raises ValueError for a state that does not exist."""
    partitions = [
        TopicPartition(entry.topic, index)
        for entry in value.transaction_partitions or ()
        for index in entry.partition_ids
    ]
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        TransactionState(value.transaction_status),
        partitions,
        value.transaction_start_timestamp_ms,
    )


def record_of(transactional_id: str, transit: Transit) -> NewRecord:
    """What is stored of a change: a tombstone where the id is forgotten."""
    if transit.state is TransactionState.DEAD:
        return transaction_record(transactional_id, None)
    value = TransactionLogValue(
        transit.producer_id,
        transit.epoch,
        transit.timeout_ms,
        int(transit.state),
        None
        if transit.state is TransactionState.EMPTY
        else [TransactionPartitions(topic, indexes) for topic, indexes in by_topic(transit.partitions).items()],
        transit.update_ms,
        transit.start_ms,
    )
    return transaction_record(transactional_id, value)


def by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    """Indexes by topic, both rising."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        found[topic].append(index)
    return dict(found)
