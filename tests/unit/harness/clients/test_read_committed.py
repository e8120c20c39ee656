"""Which records of a Fetch response a reader of committed records is given, as by Kafka's consumer."""

from __future__ import annotations

import pytest

from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.messages.fetch_response import AbortedTransaction
from broker.wire.records import NewRecord, encode_batch
from harness.clients.fetch import read_records
from harness.clients.values import encode_value

TOPIC, PARTITION = "hw", 0


def batch(base: int, value: int, producer: int = -1) -> bytes:
    """One record; of a transaction where it has a producer."""
    new = [NewRecord(None, encode_value(value, TOPIC, PARTITION, 0))]
    if producer < 0:
        return encode_batch(new, timestamps=1, base_offset=base)
    return encode_batch(
        new,
        timestamps=1,
        base_offset=base,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def end(base: int, producer: int, *, committed: bool) -> bytes:
    return encode_batch(
        [marker(EndOfTransaction(committed, 0))],
        timestamps=1,
        base_offset=base,
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


LOG = b"".join(
    (
        batch(0, 100),
        batch(1, 101, 7),
        batch(2, 102, 8),
        batch(3, 103),
        batch(4, 104, 7),
        end(5, 7, committed=False),
        batch(6, 106, 7),
        end(7, 8, committed=True),
        end(8, 7, committed=True),
    )
)


def values(position: int, aborted: list[tuple[int, int]]) -> list[int | None]:
    listed = [AbortedTransaction(*one) for one in aborted]
    next_position, records = read_records(memoryview(LOG), TOPIC, PARTITION, position, listed)
    assert next_position == 9
    return [value for _, value, _, _ in records]


@pytest.mark.parametrize(
    ("position", "aborted", "given"),
    [
        (0, [], [100, 101, 102, 103, 104, 106]),
        # The next transaction of the producer counts again, and so does another producer's in between.
        (0, [(7, 1)], [100, 102, 103, 106]),
        # Named from its first offset on, wherever the reader begins.
        (3, [(7, 1)], [103, 106]),
        (6, [], [106]),
    ],
)
def test_records_of_transactions_that_are_named_as_aborted_are_left_out(
    position: int, aborted: list[tuple[int, int]], given: list[int]
) -> None:
    assert values(position, aborted) == given


def test_plain_records_are_given_whatever_is_named_as_aborted() -> None:
    assert values(0, [(-1, 0), (7, 1)]) == [100, 102, 103, 106]
