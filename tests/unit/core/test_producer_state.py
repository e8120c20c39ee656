"""Sequences of idempotent producers."""

from __future__ import annotations

from broker.core.producer_state import SEQUENCE_MAX, KnownBatch, ProducerStates, last_sequence, next_sequence
from broker.wire.errors import ErrorCode


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
