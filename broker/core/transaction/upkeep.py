"""What a coordinator does unasked: aborts what takes too long, forgets ids, finishes what another one decided.

Source: kafka.coordinator.transaction.TransactionStateManager (timedOutTransactions, removeExpiredTransactionalIds,
loadTransactionsForTxnTopicPartition).
"""

from __future__ import annotations

from broker.core.transaction.metadata import TransactionMetadata, Transit
from broker.core.transaction.states import AT_REST, PREPARED, TransactionState


def abort_if_late(transaction: TransactionMetadata, now_ms: int) -> Transit | None:
    """A transaction that is open for longer than its producer said is aborted, and the producer fenced."""
    if (
        transaction.state is not TransactionState.ONGOING
        or transaction.pending is not None
        or transaction.start_ms + transaction.timeout_ms >= now_ms
    ):
        return None
    return transaction.prepare_fencing_abort(now_ms)


def expire_if_idle(transaction: TransactionMetadata, now_ms: int, expiration_ms: int) -> Transit | None:
    """An id that nobody has used for that long gets a tombstone, and is forgotten once that is stored."""
    if (
        transaction.state not in AT_REST
        or transaction.pending is not None
        or transaction.update_ms > now_ms - expiration_ms
    ):
        return None
    return transaction.prepare_dead()


def finish_if_decided(transaction: TransactionMetadata, now_ms: int) -> Transit | None:
    """A decision is stored, by this coordinator or the one before: its markers are to be sent, again perhaps.

    What is to be stored once they are written; until then every change is barred.
    """
    if transaction.state not in PREPARED or transaction.pending is not None:
        return None
    return transaction.prepare_complete(now_ms)
