"""One partition of `__transaction_state` that this broker leads: the transactional ids whose records lie there.

Source: kafka.coordinator.transaction.TransactionStateManager (loadTransactionMetadata), TransactionLog.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from broker.core.transaction.metadata import TransactionMetadata, Transit
from broker.core.transaction.states import TransactionState
from broker.model.ids import Offset, TopicPartition
from broker.runtime.coordinators.slices import UNITS_PER_TURN
from broker.wire.coordinator_records.batches import transaction_record
from broker.wire.coordinator_records.scan import CONTROL, Found
from broker.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from broker.wire.coordinator_records.versioned import UnknownRecordVersion
from broker.wire.primitives import MalformedFrame
from broker.wire.records import NewRecord

logger = logging.getLogger(__name__)

_VERSION: Final = b"\x00\x00"
"""Of keys, and of the values that are written: others are read at once, lest one that nobody knows hide one before."""


class TransactionPartition:
    """Satisfies `coordinators.partitions.PartitionState`."""

    def __init__(self, number: int, on_loaded: Callable[[TransactionPartition], None]) -> None:
        self.number = number
        self.transactions: dict[str, TransactionMetadata] = {}
        self.live = True
        """Whether this broker coordinates the partition, with this state."""
        self._on_loaded = on_loaded
        self._last: dict[bytes | None, tuple[Offset, bytes]] = {}
        """While it is loaded: (offset, value) of the last record of an id, by its key, where that is still unread."""

    def take(self, found: Iterable[Found]) -> None:
        """Newer records replace older ones of their id, most of them unread."""
        last = self._last
        for offset, kind, _, key, value in found:
            if kind & CONTROL:
                # A marker that somebody had written here: it says nothing of an id, and its key would pass for one.
                continue
            if value is not None and value.startswith(_VERSION) and (key in last or _is_usual(key)):
                last[key] = offset, value
            else:
                self._take_one(offset, key, value)

    def _take_one(self, offset: Offset, key: bytes | None, value: bytes | None) -> None:
        try:
            of = TransactionLogKey.decode(key or b"")
            known = None if value is None else metadata_of(of.transactional_id, TransactionLogValue.decode(value))
        except (UnknownRecordVersion, MalformedFrame, ValueError) as unreadable:
            # Its batch's CRC is right: some client wrote it so, and every replica has it so.
            logger.warning(
                "__transaction_state-%d: a record at offset %d is passed over: %s", self.number, offset, unreadable
            )
            return
        self._last.pop(of.encode(), None)
        if known is None:
            self.transactions.pop(of.transactional_id, None)
        else:
            self.transactions[of.transactional_id] = known

    def bring_up(self) -> bool:
        """Read some of the records that no later one has replaced."""
        last = self._last
        for _ in range(min(UNITS_PER_TURN, len(last))):
            key, (offset, value) = last.popitem()
            self._take_one(offset, key, value)
        return not last

    def loaded(self) -> None:
        """Requests come from now on, and what was decided is carried out."""
        self._on_loaded(self)

    def unload(self) -> None:
        """What is under way ends with NOT_COORDINATOR, or not at all: another coordinator goes on from the log."""
        self.live = False
        self._last.clear()
        self.transactions.clear()


def _is_usual(key: bytes | None) -> bool:
    """Whether nothing stands behind a transactional id in its key, so that the id has no other key."""
    return key is not None and key.startswith(_VERSION) and len(key) >= 4 and len(key) == 4 + (key[2] << 8 | key[3])


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
