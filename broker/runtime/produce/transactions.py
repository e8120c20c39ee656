"""What is special about a Produce request with a transactional id: its producers, and errors of coordinators.

Source: ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.wire.errors import ErrorCode
from broker.wire.messages.produce import ProducePartition
from broker.wire.record_batch import BatchHeader, CorruptBatch, read_header

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def transactional_header(records: memoryview | None) -> BatchHeader | None:
    """The header of a transaction's batch; None for any other bytes, a marker's too, which the append judges."""
    if not records:
        return None
    try:
        header = read_header(records)
    except CorruptBatch:
        return None
    return header if header.is_transactional and not header.is_control and header.producer_id >= 0 else None


def check_producers(partitions: Sequence[ProducePartition]) -> ErrorCode:
    """INVALID_PRODUCER_ID_MAPPING where the batches of a request are of more than one producer."""
    producers: set[tuple[int, int]] = set()
    for _, _, records in partitions:
        header = transactional_header(records)
        if header is not None:
            producers.add((header.producer_id, header.producer_epoch))
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else ErrorCode.NONE


def unverified(error: ErrorCode) -> tuple[ErrorCode, str]:
    """What a producer is told of a batch whose transaction was not confirmed.

    Where it may send again, by an error upon which every client does, and without asking for metadata first.
    """
    if error in _RETRIABLE:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return ErrorCode.NOT_ENOUGH_REPLICAS, text
    if error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        # The former is known from version 11 on, which is not served.
        return ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
    return error, ""
