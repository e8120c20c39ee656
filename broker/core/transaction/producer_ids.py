"""InitProducerId of a transactional producer: which producer id and epoch it gets, and who is fenced by that.

A producer that says which id and epoch it had goes on after an error (KIP-360): it gets the next epoch, and the same
answer again if it repeats its request. One that says nothing has just started: whoever had the id before is fenced.
Source: TransactionCoordinator.prepareInitProducerIdTransit, TransactionMetadata.prepareIncrementProducerEpoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from broker.core.transaction.metadata import NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata, Transit, is_exhausted
from broker.core.transaction.states import PREPARED, TransactionState
from broker.wire.errors import ErrorCode


class Claimed(NamedTuple):
    """What a producer says it has."""

    producer_id: int
    epoch: int


class Needs(Enum):
    """What is missing for a decision."""

    PRODUCER_ID = "producer id"


NEEDS_PRODUCER_ID: Final = Needs.PRODUCER_ID


def claimed(producer_id: int, epoch: int) -> Claimed | ErrorCode | None:
    """From a request's fields: None where both are missing, INVALID_REQUEST where one is."""
    if producer_id == NO_PRODUCER_ID and epoch == NO_EPOCH:
        return None
    if producer_id == NO_PRODUCER_ID or epoch == NO_EPOCH:
        return ErrorCode.INVALID_REQUEST
    return Claimed(producer_id, epoch)


def valid_timeout(timeout_ms: int, timeout_ms_max: int) -> bool:
    """Of a transaction; INVALID_TRANSACTION_TIMEOUT for others."""
    return 0 < timeout_ms <= timeout_ms_max


def init_producer(
    transaction: TransactionMetadata, timeout_ms: int, claim: Claimed | None, fresh_id: int | None, now_ms: int
) -> Transit | ErrorCode | Needs:
    """What to store before this producer gets its id and epoch, which are the result's.

    A result that aborts is stored, and the producer told CONCURRENT_TRANSACTIONS: it asks again.
    fresh_id: a producer id that nobody had, if there is one at hand; NEEDS_PRODUCER_ID where one is needed.
    """
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if claim is not None and not _may_be_its(transaction, claim):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return transaction.prepare_fencing_abort(now_ms)
    exhausted = is_exhausted(transaction.epoch)
    if exhausted and (claim is None or claim.epoch == transaction.epoch):
        if fresh_id is None:
            return NEEDS_PRODUCER_ID
        last_epoch = NO_EPOCH if claim is None else transaction.epoch
        return transaction.prepare_producer_id(fresh_id, last_epoch, timeout_ms, now_ms)
    if claim is None:
        return transaction.prepare_epoch(transaction.epoch + 1, NO_EPOCH, timeout_ms, now_ms)
    if claim.epoch == transaction.epoch or transaction.epoch == NO_EPOCH:
        return transaction.prepare_epoch(transaction.epoch + 1, transaction.epoch, timeout_ms, now_ms)
    if claim.epoch == transaction.last_epoch:
        # The answer to its request was lost. Another producer's request would have cleared the last epoch.
        return transaction.prepare_epoch(transaction.epoch, transaction.last_epoch, timeout_ms, now_ms, repeat=True)
    return ErrorCode.PRODUCER_FENCED


def _may_be_its(transaction: TransactionMetadata, claim: Claimed) -> bool:
    """Whether a producer may have had this: its id is the current one, or the one before, whose epochs are used up."""
    if transaction.epoch == NO_EPOCH or claim.producer_id == transaction.producer_id:
        return True
    return claim.producer_id == transaction.last_producer_id and is_exhausted(claim.epoch)
