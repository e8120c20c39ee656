"""The states of a transactional id, and which one may follow which.

Source: kafka.coordinator.transaction.TransactionState.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Numbers as the records of `__transaction_state` have them."""

    EMPTY = 0
    """Has a producer id and epoch, and no transaction since they were given out."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The decision is stored; markers are on their way."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every partition has its marker."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired: its tombstone is being stored."""
    PREPARE_EPOCH_FENCE = 7
    """The epoch is being raised, so that an abort fences its producer. Never stored."""

    @property
    def label(self) -> str:
        """As DescribeTransactions and ListTransactions name it."""
        return _LABELS[self]


_S = TransactionState

_LABELS: Final[Mapping[TransactionState, str]] = {
    _S.EMPTY: "Empty",
    _S.ONGOING: "Ongoing",
    _S.PREPARE_COMMIT: "PrepareCommit",
    _S.PREPARE_ABORT: "PrepareAbort",
    _S.COMPLETE_COMMIT: "CompleteCommit",
    _S.COMPLETE_ABORT: "CompleteAbort",
    _S.DEAD: "Dead",
    _S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}

PREDECESSORS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""State → the states that it may follow."""

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided: nothing but the markers' completion may follow."""

AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open: the id may expire, or begin one, or get another epoch."""
