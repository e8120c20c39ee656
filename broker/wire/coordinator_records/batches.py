"""Records of coordinators, and the batches in which they are appended.

Source: GroupMetadataManager.storeGroup, storeOffsets; TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.wire.compression import Compression
from broker.wire.coordinator_records.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker.wire.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from broker.wire.records import NewRecord, encode_batch


class TransactionalProducer(NamedTuple):
    """Whose transaction offsets are part of."""

    producer_id: int
    epoch: int


def offset_record(group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> NewRecord:
    """value: None forgets the offset. Raises ValueError for texts of more than 32,767 bytes."""
    return NewRecord(OffsetCommitKey(group, topic, partition).encode(), None if value is None else value.encode())


def group_record(group: str, value: GroupMetadataValue | None) -> NewRecord:
    """value: None forgets the group. Raises ValueError for texts of more than 32,767 bytes."""
    return NewRecord(GroupMetadataKey(group).encode(), None if value is None else value.encode())


def transaction_record(transactional_id: str, value: TransactionLogValue | None) -> NewRecord:
    """value: None forgets the transactional id. Raises ValueError for texts of more than 32,767 bytes."""
    return NewRecord(TransactionLogKey(transactional_id).encode(), None if value is None else value.encode())


def coordinator_batch(
    records: Iterable[NewRecord],
    timestamp: int,
    *,
    compression: Compression = Compression.NONE,
    transaction: TransactionalProducer | None = None,
) -> bytes:
    """One batch, for the log to stamp with offset and leader epoch. timestamp: ms. Raises ValueError if empty.

    transaction: of offsets that count only once its marker is written. Their sequence is 0 in every batch: a
    coordinator's append is no producer's, and its log does not check the sequence.
    """
    if transaction is None:
        return encode_batch(records, timestamps=timestamp, compression=compression)
    return encode_batch(
        records,
        timestamps=timestamp,
        compression=compression,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        base_sequence=0,
        transactional=True,
    )
