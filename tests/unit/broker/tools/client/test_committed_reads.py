from __future__ import annotations

import pytest

from broker.tools.client.committed_reads import visible
from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.messages.fetch import AbortedTransaction
from broker.wire.record_batch import CorruptBatch
from broker.wire.records import NewRecord, encode_batch


def batch(base: int, *values: bytes, producer: int = -1) -> bytes:
    return encode_batch(
        [NewRecord(None, value) for value in values],
        timestamps=1,
        base_offset=base,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=producer >= 0,
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


# Producer 1 aborts, 2 commits, 1 commits another; in between a record without a transaction.
LOG = b"".join(
    (
        batch(0, b"a", b"b", producer=1),
        batch(2, b"c", producer=2),
        batch(3, b"d"),
        end(4, 1, committed=False),
        batch(5, b"e", producer=1),
        end(6, 2, committed=True),
        end(7, 1, committed=True),
    )
)
ABORTED = [AbortedTransaction(1, 0)]


def values(position: int, aborted: list[AbortedTransaction] | None, log: bytes = LOG) -> tuple[bytes, int]:
    found = visible(memoryview(log), position, aborted, check_crcs=True)
    return b"".join(shown.record.value or b"" for shown in found.records), found.next_offset


def test_everything_but_markers_is_shown_to_read_uncommitted() -> None:
    assert values(0, None) == (b"abcde", 8)


def test_records_of_an_aborted_transaction_are_left_out_up_to_its_marker() -> None:
    assert values(0, ABORTED) == (b"cde", 8)
    assert values(0, []) == (b"abcde", 8)


def test_position_in_the_middle_of_a_batch_begins_there() -> None:
    assert values(1, None) == (b"bcde", 8)
    assert values(1, ABORTED) == (b"cde", 8)


def test_second_abort_of_a_producer_begins_at_its_own_offset() -> None:
    log = LOG + batch(8, b"f", producer=1) + end(9, 1, committed=False)
    assert values(0, [AbortedTransaction(1, 8), AbortedTransaction(1, 0)], log) == (b"cde", 10)


def test_markers_alone_move_the_position_on() -> None:
    assert values(6, []) == (b"", 8)


def test_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    assert values(0, None, LOG[:-3]) == (b"abcde", 7)


def test_damaged_batch_is_refused() -> None:
    damaged = bytearray(LOG)
    damaged[65] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        visible(memoryview(bytes(damaged)), 0, None, check_crcs=True)
