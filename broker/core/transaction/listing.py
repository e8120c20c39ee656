"""Which transactions ListTransactions names.

Source: TransactionStateManager.listTransactionStates; KIP-664, KIP-994.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from broker.core.transaction.metadata import TransactionMetadata
from broker.core.transaction.states import BY_LABEL, TransactionState


class Filter(NamedTuple):
    """Empty sets, and a negative duration, let everything through. unknown: labels of no state."""

    producer_ids: frozenset[int]
    states: frozenset[TransactionState]
    by_state: bool
    duration_ms: int
    unknown: tuple[str, ...]

    def takes(self, transaction: TransactionMetadata, now_ms: int) -> bool:
        """duration_ms: since when the transaction has run, or the newest one had begun."""
        if transaction.state is TransactionState.DEAD:
            return False
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.by_state and transaction.state not in self.states:
            return False
        return self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms


def filter_of(producer_ids: Collection[int], labels: Collection[str], duration_ms: int = -1) -> Filter:
    """From a request's fields."""
    return Filter(
        frozenset(producer_ids),
        frozenset(BY_LABEL[label] for label in labels if label in BY_LABEL),
        bool(labels),
        duration_ms,
        tuple(label for label in labels if label not in BY_LABEL),
    )
