"""Sequences of idempotent producers."""

from __future__ import annotations

import pytest

from broker.core.producers.state import (
    BATCHES_KEPT,
    SEQUENCE_MAX,
    KnownBatch,
    ProducerStates,
    last_sequence,
    next_sequence,
)
from broker.wire.errors import ErrorCode

pytestmark = pytest.mark.guarantee("idempotent-producers")


def test_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(1, 0, 42, 45) == (ErrorCode.NONE, None)


def test_sequence_wraps_to_0() -> None:
    assert next_sequence(SEQUENCE_MAX) == 0
    assert last_sequence(SEQUENCE_MAX, 3) == 1
    states = ProducerStates()
    states.append(1, 0, SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1, 0.0)
    assert states.check(1, 0, 0, 0) == (ErrorCode.NONE, None)


def test_repeat_must_match_both_ends() -> None:
    states = ProducerStates()
    states.append(1, 0, 0, 4, 10, 14, 0.0)
    assert states.check(1, 0, 0, 4) == (ErrorCode.NONE, KnownBatch(0, 4, 10, 14))
    assert states.check(1, 0, 0, 3)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_replicated_batch_of_an_older_epoch_changes_nothing() -> None:
    states = ProducerStates()
    states.append(1, 5, 0, 0, 10, 10, 0.0)
    states.append(1, 4, 0, 0, 11, 11, 0.0)
    assert states.check(1, 5, 0, 0)[1] == KnownBatch(0, 0, 10, 10)


def test_idle_producer_is_forgotten_and_may_begin_anywhere_again() -> None:
    states = ProducerStates()
    states.append(1, 0, 0, 0, 10, 10, 100.0)
    states.append(2, 0, 0, 0, 11, 11, 900.0)
    assert states.expire(1000.0, 500.0) == 1
    assert states.check(1, 0, 7, 7) == (ErrorCode.NONE, None)
    assert states.check(2, 0, 7, 7)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def sent(batches: int, epoch: int = 0) -> ProducerStates:
    """One producer's batches of one record each, at offsets from 0."""
    states = ProducerStates()
    for n in range(batches):
        states.append(1, epoch, n, n, n, n, 0.0)
    return states


def test_cut_of_all_that_a_producer_may_have_in_flight_leaves_the_batch_before() -> None:
    states = sent(20)
    assert states.cut(20 - BATCHES_KEPT)
    assert states.check(1, 0, 15, 15) == (ErrorCode.NONE, None)
    assert states.check(1, 0, 14, 14) == (ErrorCode.NONE, KnownBatch(14, 14, 14, 14))
    assert states.check(1, 0, 16, 16)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_cut_that_takes_more_is_left_to_the_log() -> None:
    assert not sent(20).cut(20 - BATCHES_KEPT - 1)


def test_cut_of_all_that_a_producer_ever_sent_forgets_it() -> None:
    states = sent(BATCHES_KEPT)
    assert states.cut(0)
    assert len(states) == 0


def test_cut_below_an_epochs_first_batch_is_left_to_the_log() -> None:
    states = sent(3)
    states.append(1, 1, 0, 0, 3, 3, 0.0)
    assert not states.cut(3)


def test_cut_below_what_a_snapshot_said_is_left_to_the_log() -> None:
    states = ProducerStates()
    states.restore(1, 0, KnownBatch(7, 7, 7, 7), 0.0)
    states.append(1, 0, 8, 8, 8, 8, 0.0)
    assert states.check(1, 0, 7, 7) == (ErrorCode.NONE, KnownBatch(7, 7, 7, 7))
    assert states.cut(8)
    assert not states.cut(7)
