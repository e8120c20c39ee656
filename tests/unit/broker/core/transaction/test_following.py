"""The next transaction of an id, behind the completion of the last one."""

from __future__ import annotations

import pytest

from broker.core.transaction.metadata import IllegalTransition, TransactionMetadata
from broker.core.transaction.states import TransactionState
from tests.support.transactional_ids import P0, P1

S = TransactionState


def decided(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata("tx", 7, 5, 60_000, 10, state, (), 10)


@pytest.mark.parametrize(
    ("state", "ended"), [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)]
)
def test_both_are_stored_and_applied_in_order(state: TransactionState, ended: TransactionState) -> None:
    transaction = decided(state)
    completion = transaction.prepare_complete(20)
    beginning = transaction.after_completion(completion, [P0, P1], 30)
    assert (transaction.state, transaction.pending) == (state, ended), "nothing is applied yet"
    assert beginning._replace(state=ended, partitions=frozenset(), start_ms=10, update_ms=20) == completion
    assert (beginning.state, beginning.start_ms, beginning.update_ms) == (S.ONGOING, 30, 30)
    transaction.completed_and_begun(completion, beginning)
    assert (transaction.state, transaction.pending, transaction.partitions) == (S.ONGOING, None, {P0, P1})
    assert (transaction.start_ms, transaction.update_ms) == (30, 30)


def test_nothing_begins_before_the_end_of_the_last() -> None:
    transaction = decided(S.ONGOING)
    decision = transaction.prepare_end(True, 20)
    with pytest.raises(IllegalTransition):
        transaction.completed_and_begun(decision, transaction.after_completion(decision, [P0], 30))
