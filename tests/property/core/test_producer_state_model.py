"""ProducerStates against a twin that keeps every batch and looks through all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers.state import BATCHES_KEPT, ProducerStates
from broker.wire.errors import ErrorCode
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("idempotent-producers")

Step = tuple[int, int, int, int]


def plain_check(history: list[Step], producer: int, epoch: int, first: int, last: int) -> tuple[ErrorCode, int | None]:
    mine = [(e, f, l_, offset) for offset, (p, e, f, l_) in enumerate(history) if p == producer]
    if not mine:
        return ErrorCode.NONE, None
    newest = max(e for e, *_ in mine)
    if epoch < newest:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if epoch > newest:
        return (ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
    current = [batch for batch in mine if batch[0] == newest]
    for _, f, l_, offset in current[-BATCHES_KEPT:]:
        if (f, l_) == (first, last):
            return ErrorCode.NONE, offset
    return (ErrorCode.NONE if first == current[-1][2] + 1 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None


@examples(200)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 8), st.integers(0, 2)), min_size=1, max_size=60
    )
)
def test_producer_states_agree_with_the_plain_model(tries: list[tuple[int, int, int, int]]) -> None:
    states = ProducerStates()
    history: list[Step] = []
    for producer, epoch, first, extra in tries:
        last = first + extra
        error, batch = states.check(producer, epoch, first, last)
        expected, offset = plain_check(history, producer, epoch, first, last)
        assert (error, batch.base_offset if batch else None) == (expected, offset)
        if error is ErrorCode.NONE and batch is None:
            at = len(history)
            states.append(producer, epoch, first, last, at, at, 0.0)
            history.append((producer, epoch, first, last))


@examples(300)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=40),
    st.floats(0, 1),
)
def test_producer_states_that_were_cut_know_each_producers_last_batch_or_say_that_they_do_not(
    tries: list[tuple[int, int, int]], at: float
) -> None:
    states = ProducerStates()
    history: list[Step] = []
    next_first: dict[tuple[int, int], int] = {}
    for producer, epoch, extra in tries:
        first = next_first.get((producer, epoch), 0)
        if states.check(producer, epoch, first, first + extra)[0] is ErrorCode.NONE:
            states.append(producer, epoch, first, first + extra, len(history), len(history), 0.0)
            history.append((producer, epoch, first, first + extra))
            next_first[producer, epoch] = first + extra + 1
    remembered = {producer: [batch.base_offset for batch in entry.batches] for producer, entry in states}
    offset = int(at * len(history))
    if not states.cut(offset):
        assert any(
            min(offsets) >= offset and any(history[before][0] == producer for before in range(min(offsets)))
            for producer, offsets in remembered.items()
        )
        return
    for producer, entry in states:
        _, epoch, first, last = [batch for batch in history[:offset] if batch[0] == producer][-1]
        assert (entry.epoch, entry.batches[-1].first_sequence, entry.batches[-1].last_sequence) == (epoch, first, last)
        assert all(batch.last_offset < offset for batch in entry.batches)
    assert {producer for producer, *_ in history[:offset]} == {producer for producer, _ in states}
