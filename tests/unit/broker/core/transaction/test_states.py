"""The table of states, and the changes that TransactionMetadata permits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.transaction.metadata import (
    EPOCH_MAX,
    NO_EPOCH,
    NO_START,
    IllegalTransition,
    TransactionMetadata,
    Transit,
)
from broker.core.transaction.states import AT_REST, BY_LABEL, PREDECESSORS, PREPARED, TransactionState
from broker.model.ids import TopicPartition
from tests.support.transactional_ids import P0, P1, known

S = TransactionState


def test_states_every_one_has_predecessors_and_a_label() -> None:
    assert set(PREDECESSORS) == set(S)
    assert set(BY_LABEL.values()) == set(S)
    assert [state.kafkas_name for state in S] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_states_a_decision_is_followed_by_its_completion_alone() -> None:
    followers = {state: {after for after in S if state in PREDECESSORS[after]} for state in S}
    assert followers[S.PREPARE_COMMIT] == {S.COMPLETE_COMMIT}
    assert followers[S.PREPARE_ABORT] == {S.COMPLETE_ABORT}
    assert followers[S.DEAD] == set()
    assert all(S.ONGOING in followers[state] for state in AT_REST)


@pytest.mark.parametrize("state", list(S))
def test_metadata_changes_follow_the_table(state: TransactionState) -> None:
    changes: dict[TransactionState, Callable[[TransactionMetadata], Transit]] = {
        S.EMPTY: lambda t: t.prepare_epoch(6, NO_EPOCH, 1000, 5),
        S.ONGOING: lambda t: t.prepare_partitions([P0], 5),
        S.PREPARE_COMMIT: lambda t: t.prepare_end(True, 5),
        S.PREPARE_ABORT: lambda t: t.prepare_end(False, 5),
        S.DEAD: lambda t: t.prepare_dead(),
        S.PREPARE_EPOCH_FENCE: lambda t: t.prepare_fencing_abort(5),
    }
    for target, change in changes.items():
        transaction = known(state, epoch=5)
        if state in PREDECESSORS[target]:
            change(transaction)
            assert transaction.pending is (S.PREPARE_ABORT if target is S.PREPARE_EPOCH_FENCE else target)
        else:
            with pytest.raises(IllegalTransition):
                change(transaction)
            assert transaction.pending is None
            assert transaction.epoch == 5


def test_metadata_a_pending_change_bars_every_other() -> None:
    transaction = known(S.ONGOING)
    transaction.prepare_end(True, 5)
    changes: list[Callable[[], Transit]] = [
        lambda: transaction.prepare_partitions([P1], 6),
        lambda: transaction.prepare_end(False, 6),
        lambda: transaction.prepare_fencing_abort(6),
    ]
    for change in changes:
        with pytest.raises(IllegalTransition):
            change()
    assert transaction.state is S.ONGOING


def test_metadata_counts_a_change_once_it_is_stored() -> None:
    transaction = known(S.EMPTY)
    transit = transaction.prepare_partitions([P0, P1], 77)
    assert (transaction.state, transaction.partitions) == (S.EMPTY, set())
    transaction.completed(transit)
    assert (transaction.state, transaction.partitions, transaction.pending) == (S.ONGOING, {P0, P1}, None)
    assert (transaction.start_ms, transaction.update_ms) == (77, 77)


def test_metadata_takes_a_change_back_that_was_not_stored() -> None:
    transaction = known(S.ONGOING, partitions=[P0])
    transaction.prepare_end(True, 5)
    transaction.failed()
    assert (transaction.state, transaction.pending, transaction.partitions) == (S.ONGOING, None, {P0})
    assert transaction.prepare_end(False, 6).state is S.PREPARE_ABORT


def test_metadata_refuses_an_outcome_that_was_not_prepared() -> None:
    transaction = known(S.ONGOING, partitions=[P0])
    transit = transaction.prepare_end(True, 5)
    with pytest.raises(IllegalTransition):
        transaction.completed(transit._replace(state=S.PREPARE_ABORT))
    with pytest.raises(IllegalTransition):
        transaction.completed(transit._replace(epoch=transit.epoch + 1))
    with pytest.raises(IllegalTransition):
        transaction.completed(transit._replace(partitions=frozenset()))
    transaction.completed(transit)
    with pytest.raises(IllegalTransition):
        transaction.completed(transit)


def test_metadata_a_second_transaction_has_its_own_start() -> None:
    transaction = known(S.COMPLETE_COMMIT, start_ms=10)
    transaction.completed(transaction.prepare_partitions([P0], 500))
    assert transaction.start_ms == 500
    transaction.completed(transaction.prepare_partitions([P1], 600))
    assert transaction.start_ms == 500


def test_metadata_is_complete_when_every_partition_has_its_marker() -> None:
    transaction = known(S.PREPARE_COMMIT, partitions=[P0, P1])
    transit = transaction.prepare_complete(9)
    assert transit.state is S.COMPLETE_COMMIT
    assert transit.partitions == frozenset()
    transaction.marker_written(P0)
    transaction.marker_written(TopicPartition("other", 0))
    with pytest.raises(IllegalTransition):
        transaction.completed(transit)
    transaction.marker_written(P1)
    transaction.completed(transit)
    assert transaction.state is S.COMPLETE_COMMIT


def test_metadata_no_marker_is_written_without_a_decision() -> None:
    with pytest.raises(IllegalTransition):
        known(S.ONGOING, partitions=[P0]).marker_written(P0)


def test_metadata_fencing_raises_the_epoch_at_once_and_only_once() -> None:
    transaction = known(S.ONGOING, epoch=5, last_epoch=4)
    first = transaction.prepare_fencing_abort(5)
    assert (first.state, first.epoch, first.last_epoch, transaction.epoch) == (S.PREPARE_ABORT, 6, NO_EPOCH, 6)
    transaction.failed()
    assert (transaction.state, transaction.epoch) == (S.ONGOING, 6)
    second = transaction.prepare_fencing_abort(7)
    assert second.epoch == 6
    transaction.completed(second)
    assert (transaction.state, transaction.epoch, transaction.fence_failed) == (S.PREPARE_ABORT, 6, False)


def test_metadata_fencing_may_use_the_largest_epoch_and_none_above() -> None:
    transaction = known(S.ONGOING, epoch=EPOCH_MAX - 1)
    assert transaction.prepare_fencing_abort(5).epoch == EPOCH_MAX
    transaction.failed()
    assert transaction.prepare_fencing_abort(6).epoch == EPOCH_MAX
    with pytest.raises(IllegalTransition):
        known(S.ONGOING, epoch=EPOCH_MAX).prepare_fencing_abort(5)


def test_metadata_refuses_a_negative_producer_id_and_epoch() -> None:
    with pytest.raises(IllegalTransition):
        known(S.EMPTY, epoch=NO_EPOCH).prepare_partitions([P0], 5)
    with pytest.raises(IllegalTransition):
        known(S.EMPTY, producer_id=-1).prepare_epoch(1, 0, 1000, 5)
    assert known(S.EMPTY, epoch=NO_EPOCH).prepare_dead().state is S.DEAD


def test_metadata_says_what_it_is() -> None:
    transaction = TransactionMetadata("tx", 7, 3, 1000, 5)
    assert repr(transaction) == "TransactionMetadata('tx', producer 7 epoch 3, Empty, 0 partitions)"
    transaction.prepare_partitions([P0], 6)
    assert "Empty → Ongoing" in repr(transaction)
    assert transaction.start_ms == NO_START
    assert S.PREPARE_COMMIT in PREPARED
