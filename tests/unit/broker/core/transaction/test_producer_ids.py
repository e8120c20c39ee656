"""InitProducerId of transactional producers: KIP-98, KIP-360, and epochs that run out."""

from __future__ import annotations

import pytest

from broker.core.transaction.metadata import EPOCH_MAX, NO_EPOCH, TransactionMetadata, Transit
from broker.core.transaction.producer_ids import NEEDS_PRODUCER_ID, Claimed, claimed, init_producer, valid_timeout
from broker.core.transaction.states import AT_REST, PREPARED, TransactionState
from broker.wire.errors import ErrorCode
from tests.support.transactional_ids import P0, PRODUCER, known

S = TransactionState


def init(
    transaction: TransactionMetadata, claim: Claimed | None = None, fresh_id: int | None = None
) -> tuple[int, int] | ErrorCode:
    """What a producer gets once the change is stored, which it is."""
    result = init_producer(transaction, 2000, claim, fresh_id, 50)
    if isinstance(result, ErrorCode):
        return result
    assert isinstance(result, Transit)
    transaction.completed(result)
    return result.producer_id, result.epoch


def test_init_a_new_id_begins_with_epoch_0() -> None:
    transaction = known(S.EMPTY, epoch=NO_EPOCH)
    assert init(transaction) == (PRODUCER, 0)
    assert transaction.timeout_ms == 2000


def test_init_a_new_id_takes_whatever_its_producer_had() -> None:
    assert init(known(S.EMPTY, epoch=NO_EPOCH), Claimed(99, 12)) == (PRODUCER, 0)


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_init_a_known_id_gets_the_next_epoch(state: TransactionState) -> None:
    transaction = known(state, last_epoch=4)
    assert init(transaction) == (PRODUCER, 6)
    assert (transaction.state, transaction.last_epoch) == (S.EMPTY, NO_EPOCH)


def test_init_fences_the_producer_of_an_open_transaction() -> None:
    transaction = known(S.ONGOING, partitions=[P0])
    result = init_producer(transaction, 2000, None, None, 50)
    assert isinstance(result, Transit)
    assert (result.state, result.epoch, result.partitions) == (S.PREPARE_ABORT, 6, frozenset({P0}))
    assert result.timeout_ms == 1000, "the time-out of the transaction that is aborted"
    assert init(transaction) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_init_a_producer_aborts_its_own_open_transaction_too() -> None:
    result = init_producer(known(S.ONGOING, partitions=[P0]), 2000, Claimed(PRODUCER, 5), None, 50)
    assert isinstance(result, Transit)
    assert (result.state, result.epoch) == (S.PREPARE_ABORT, 6)


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_init_waits_for_markers(state: TransactionState) -> None:
    assert init(known(state, partitions=[P0])) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_init_a_producer_goes_on_with_its_next_epoch() -> None:
    transaction = known(S.COMPLETE_ABORT)
    assert init(transaction, Claimed(PRODUCER, 5)) == (PRODUCER, 6)
    assert transaction.last_epoch == 5


def test_init_a_repeat_gets_the_same_answer() -> None:
    transaction = known(S.COMPLETE_ABORT)
    init(transaction, Claimed(PRODUCER, 5))
    for _ in range(3):
        assert init(transaction, Claimed(PRODUCER, 5)) == (PRODUCER, 6)
    assert init(transaction, Claimed(PRODUCER, 6)) == (PRODUCER, 7)


def test_init_a_zombie_is_fenced() -> None:
    transaction = known(S.COMPLETE_ABORT)
    init(transaction)  # another producer began
    assert init(transaction, Claimed(PRODUCER, 5)) is ErrorCode.PRODUCER_FENCED
    assert init(transaction, Claimed(PRODUCER + 1, 6)) is ErrorCode.PRODUCER_FENCED
    assert transaction.pending is None
    assert transaction.epoch == 6


def test_init_a_zombie_does_not_abort_the_transaction_of_another() -> None:
    transaction = known(S.ONGOING, partitions=[P0])
    assert init(transaction, Claimed(PRODUCER + 1, 0)) is ErrorCode.PRODUCER_FENCED
    assert transaction.epoch == 5


@pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
def test_init_an_exhausted_epoch_needs_another_producer_id(epoch: int) -> None:
    transaction = known(S.COMPLETE_COMMIT, epoch=epoch)
    assert init_producer(transaction, 2000, None, None, 50) is NEEDS_PRODUCER_ID
    assert transaction.pending is None
    assert init(transaction, None, 99) == (99, 0)
    assert (transaction.last_producer_id, transaction.last_epoch) == (PRODUCER, NO_EPOCH)


def test_init_a_repeat_across_producer_ids_gets_the_same_answer() -> None:
    transaction = known(S.COMPLETE_COMMIT, epoch=EPOCH_MAX - 1)
    claim = Claimed(PRODUCER, EPOCH_MAX - 1)
    assert init(transaction, claim, 99) == (99, 0)
    for _ in range(3):
        assert init(transaction, claim, 100) == (99, 0)
    assert init(transaction, Claimed(99, 0)) == (99, 1)
    assert init(transaction, claim, 100) is ErrorCode.PRODUCER_FENCED


def test_init_the_last_epoch_but_one_is_given_out_again_to_who_repeats() -> None:
    transaction = known(S.COMPLETE_COMMIT, epoch=EPOCH_MAX - 2)
    claim = Claimed(PRODUCER, EPOCH_MAX - 2)
    assert init(transaction, claim) == (PRODUCER, EPOCH_MAX - 1)
    assert init(transaction, claim, 99) == (PRODUCER, EPOCH_MAX - 1)
    assert init(transaction, Claimed(PRODUCER, 3), 99) is ErrorCode.PRODUCER_FENCED


def test_init_is_refused_while_a_change_is_being_stored() -> None:
    transaction = known(S.EMPTY)
    transaction.prepare_partitions([P0], 5)
    assert init(transaction) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_claimed_takes_both_or_none() -> None:
    assert claimed(-1, -1) is None
    assert claimed(5, -1) is ErrorCode.INVALID_REQUEST
    assert claimed(-1, 5) is ErrorCode.INVALID_REQUEST
    assert claimed(5, 0) == Claimed(5, 0)


def test_valid_timeout_is_positive_and_bounded() -> None:
    assert valid_timeout(1, 900_000)
    assert valid_timeout(900_000, 900_000)
    assert not valid_timeout(900_001, 900_000)
    assert not valid_timeout(0, 900_000)
    assert not valid_timeout(-1, 900_000)
