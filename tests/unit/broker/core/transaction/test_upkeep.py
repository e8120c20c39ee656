"""Time-outs, expiry, and decisions that another coordinator left behind."""

from __future__ import annotations

import pytest

from broker.core.transaction.states import AT_REST, PREPARED, TransactionState
from broker.core.transaction.upkeep import abort_if_late, expire_if_idle, finish_if_decided
from tests.support.transactional_ids import P0, P1, known

S = TransactionState


def test_late_transactions_are_aborted_and_their_producer_fenced() -> None:
    transaction = known(S.ONGOING, partitions=[P0], start_ms=100, timeout_ms=1000)
    assert abort_if_late(transaction, 1100) is None
    transit = abort_if_late(transaction, 1101)
    assert transit is not None
    assert (transit.state, transit.epoch, transit.update_ms) == (S.PREPARE_ABORT, 6, 1101)
    assert abort_if_late(transaction, 5000) is None


@pytest.mark.parametrize("state", sorted(set(S) - {S.ONGOING}))
def test_late_concerns_open_transactions_alone(state: TransactionState) -> None:
    assert abort_if_late(known(state, start_ms=100), 10**9) is None


def test_late_waits_for_a_change_that_is_being_stored() -> None:
    transaction = known(S.ONGOING, partitions=[P0])
    transaction.prepare_partitions([P1], 5)
    assert abort_if_late(transaction, 10**9) is None


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_idle_ids_die(state: TransactionState) -> None:
    transaction = known(state, update_ms=100)
    assert expire_if_idle(transaction, 1099, 1000) is None
    transit = expire_if_idle(transaction, 1100, 1000)
    assert transit is not None
    assert transit.state is S.DEAD
    assert expire_if_idle(transaction, 9999, 1000) is None, "its tombstone is being stored"
    transaction.failed()
    assert expire_if_idle(transaction, 9999, 1000) is not None


@pytest.mark.parametrize("state", sorted(set(S) - AT_REST))
def test_idle_ids_with_a_transaction_live_on(state: TransactionState) -> None:
    assert expire_if_idle(known(state), 10**12, 1000) is None


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_decided_transactions_are_finished(state: TransactionState) -> None:
    transaction = known(state, partitions=[P0])
    transit = finish_if_decided(transaction, 9)
    assert transit is not None
    assert transit.state is (S.COMPLETE_COMMIT if state is S.PREPARE_COMMIT else S.COMPLETE_ABORT)
    assert finish_if_decided(transaction, 10) is None, "its markers are on their way"


@pytest.mark.parametrize("state", sorted(set(S) - PREPARED))
def test_decided_nothing_else_is(state: TransactionState) -> None:
    assert finish_if_decided(known(state), 9) is None
