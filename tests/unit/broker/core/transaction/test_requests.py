"""AddPartitionsToTxn, its verification, EndTxn."""

from __future__ import annotations

import pytest

from broker.core.transaction.metadata import NO_EPOCH, TransactionMetadata, Transit
from broker.core.transaction.requests import add_partitions, end, error_for, verify_partitions
from broker.core.transaction.states import AT_REST, PREPARED, TransactionState
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from tests.support.transactional_ids import P0, P1, PRODUCER, known

S = TransactionState


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_add_the_first_partitions_begin_a_transaction(state: TransactionState) -> None:
    result = add_partitions(known(state), PRODUCER, 5, [P0], 60)
    assert isinstance(result, Transit)
    assert (result.state, result.partitions, result.start_ms) == (S.ONGOING, frozenset({P0}), 60)


def test_add_more_partitions_join_the_open_transaction() -> None:
    result = add_partitions(known(S.ONGOING, partitions=[P0], start_ms=3), PRODUCER, 5, [P1], 60)
    assert isinstance(result, Transit)
    assert (result.partitions, result.start_ms, result.update_ms) == (frozenset({P0, P1}), 3, 60)


def test_add_what_is_in_it_is_not_stored_again() -> None:
    transaction = known(S.ONGOING, partitions=[P0, P1])
    assert add_partitions(transaction, PRODUCER, 5, [P1], 60) is ErrorCode.NONE
    assert transaction.pending is None


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_add_waits_for_markers(state: TransactionState) -> None:
    error = add_partitions(known(state, partitions=[P0]), PRODUCER, 5, [P1], 60)
    assert error is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("api", ["add", "verify", "end"])
def test_who_is_not_the_producer_is_refused(api: str) -> None:
    def asked(transaction: TransactionMetadata | None, producer_id: int, epoch: int) -> object:
        if api == "add":
            return add_partitions(transaction, producer_id, epoch, [P0], 60)
        if api == "end":
            return end(transaction, producer_id, epoch, True, 60)
        return verify_partitions(transaction, producer_id, epoch, [P0])[P0]

    assert asked(None, PRODUCER, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert asked(known(S.ONGOING), PRODUCER + 1, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert asked(known(S.ONGOING), PRODUCER, 4) is ErrorCode.PRODUCER_FENCED
    assert asked(known(S.ONGOING), PRODUCER, 6) is ErrorCode.PRODUCER_FENCED


def test_add_and_end_wait_for_a_change_that_is_being_stored() -> None:
    transaction = known(S.EMPTY)
    assert isinstance(add_partitions(transaction, PRODUCER, 5, [P0], 60), Transit)
    assert add_partitions(transaction, PRODUCER, 5, [P1], 61) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert end(transaction, PRODUCER, 5, True, 61) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verify_knows_what_is_in_the_open_transaction() -> None:
    verified = verify_partitions(known(S.ONGOING, partitions=[P0]), PRODUCER, 5, [P0, P1])
    assert verified == {P0: ErrorCode.NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}


def test_verify_after_the_end_finds_nothing() -> None:
    verified = verify_partitions(known(S.COMPLETE_ABORT), PRODUCER, 5, [P0])
    assert verified == {P0: ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_verify_refuses_what_is_decided(state: TransactionState) -> None:
    verified = verify_partitions(known(state, partitions=[P0]), PRODUCER, 5, [P0])
    assert verified == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_verify_counts_partitions_once_they_are_stored() -> None:
    transaction = known(S.EMPTY)
    transit = add_partitions(transaction, PRODUCER, 5, [P0], 60)
    assert isinstance(transit, Transit)
    assert verify_partitions(transaction, PRODUCER, 5, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}
    transaction.completed(transit)
    assert verify_partitions(transaction, PRODUCER, 5, [P0]) == {P0: ErrorCode.NONE}


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_end_an_open_transaction_is_decided(commit: bool, state: TransactionState) -> None:
    result = end(known(S.ONGOING, partitions=[P0]), PRODUCER, 5, commit, 60)
    assert isinstance(result, Transit)
    assert (result.state, result.partitions, result.epoch) == (state, frozenset({P0}), 5)


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (S.EMPTY, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (S.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
    ],
)
def test_end_a_repeat_is_known_by_its_decision(
    state: TransactionState, on_commit: ErrorCode, on_abort: ErrorCode
) -> None:
    assert end(known(state), PRODUCER, 5, True, 60) is on_commit
    assert end(known(state), PRODUCER, 5, False, 60) is on_abort


def test_error_for_old_clients_is_one_that_they_know() -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN):
        assert error_for(api, 1, fenced) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert error_for(api, 2, fenced) is fenced
        assert error_for(api, 1, ErrorCode.NOT_COORDINATOR) is ErrorCode.NOT_COORDINATOR
    assert error_for(ApiKey.INIT_PRODUCER_ID, 3, fenced) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_for(ApiKey.INIT_PRODUCER_ID, 4, fenced) is fenced


def test_add_is_refused_before_the_first_epoch_is_stored() -> None:
    """Storing it has failed: no producer can have been given it."""
    transaction = known(S.EMPTY, epoch=NO_EPOCH)
    assert add_partitions(transaction, PRODUCER, NO_EPOCH, [P0], 60) is ErrorCode.PRODUCER_FENCED
    assert add_partitions(transaction, PRODUCER, 0, [P0], 60) is ErrorCode.PRODUCER_FENCED
