"""What transactional producers, and brokers that verify what these write, may ask for: to add, to end, to be in it.

Each function gets the transactional id's metadata, None for an id that is not known, and returns what to store before
the answer, or the answer: an error, or NONE where nothing is left to be done.
Source: TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction, endTransaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.core.transaction.metadata import NO_EPOCH, TransactionMetadata, Transit
from broker.core.transaction.states import PREPARED, TransactionState
from broker.model.ids import TopicPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode

_FENCED_SINCE: Mapping[ApiKey, int] = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def error_for(api: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """As clients of that version know it: INVALID_PRODUCER_EPOCH is older than PRODUCER_FENCED (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def add_partitions(
    transaction: TransactionMetadata | None,
    producer_id: int,
    epoch: int,
    partitions: Collection[TopicPartition],
    now_ms: int,
) -> Transit | ErrorCode:
    """The first ones begin a transaction. NONE where it has them all."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch or epoch == NO_EPOCH:
        # Whose first epoch could not be stored has none yet.
        return ErrorCode.PRODUCER_FENCED
    if transaction.pending is not None or transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
        return ErrorCode.NONE
    return transaction.prepare_partitions(partitions, now_ms)


def verify_partitions(
    transaction: TransactionMetadata | None, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Whether each is in the open transaction: its leader asks before it takes the first batch (KAFKA-14402)."""
    if transaction is None or transaction.producer_id != producer_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != epoch:
        return dict.fromkeys(partitions, ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
    return {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def end(
    transaction: TransactionMetadata | None, producer_id: int, epoch: int, commit: bool, now_ms: int
) -> Transit | ErrorCode:
    """A producer's decision. NONE where it has been carried out already: the answer was lost, if the caller coordinates
    the id still, and a later transaction has not begun elsewhere.
    """
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    state = transaction.state
    if state is TransactionState.ONGOING:
        return transaction.prepare_end(commit, now_ms)
    if state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        return ErrorCode.NONE
    if state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE
