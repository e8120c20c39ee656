"""Transactional ids in any state, as a coordinator may have loaded them."""

from __future__ import annotations

from collections.abc import Collection

from broker.core.transaction.metadata import NO_EPOCH, NO_PRODUCER_ID, NO_START, TransactionMetadata
from broker.core.transaction.states import TransactionState
from broker.model.ids import TopicPartition

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
PRODUCER = 7


def known(
    state: TransactionState,
    *,
    producer_id: int = PRODUCER,
    epoch: int = 5,
    partitions: Collection[TopicPartition] = (),
    start_ms: int | None = None,
    update_ms: int = 1,
    timeout_ms: int = 1000,
    last_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = NO_EPOCH,
) -> TransactionMetadata:
    """Nothing pending. A transaction that is open has begun at 1 unless start_ms says otherwise."""
    if start_ms is None:
        start_ms = NO_START if state is TransactionState.EMPTY else 1
    return TransactionMetadata(
        "tx",
        producer_id,
        epoch,
        timeout_ms,
        update_ms,
        state,
        partitions,
        start_ms,
        last_producer_id,
        last_epoch,
    )
