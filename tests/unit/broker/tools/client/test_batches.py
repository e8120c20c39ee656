from __future__ import annotations

from broker.tools.client.batches import Accumulator, Batch, Outgoing
from broker.wire.compression import Compression
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, decode_records

ONE, TWO = ("t", 0), ("t", 1)


def outgoing(number: int, size: int = 10) -> Outgoing:
    return Outgoing(NewRecord(None, b"v" * size), 1000 + number, number)


def tokens(batch: Batch) -> list[object]:
    return [one.token for one in batch.records]


def due(waiting: Accumulator, now: float, *, flush: bool = False) -> list[Batch]:
    return list(waiting.due(now, flush=flush))


def test_batch_waits_until_it_is_full_late_or_flushed() -> None:
    waiting = Accumulator(batch_size=100, linger=1.0)
    assert not waiting.add(ONE, outgoing(0), 0.0)
    assert due(waiting, 0.5) == []
    assert waiting.next_wait(0.25, flush=False) == 0.75
    assert [tokens(batch) for batch in due(waiting, 1.0)] == [[0]]
    assert [tokens(batch) for batch in due(waiting, 0.0, flush=True)] == [[0]]
    assert waiting.add(ONE, outgoing(1, 90), 0.5)
    assert [tokens(batch) for batch in due(waiting, 0.5)] == [[0]]


def test_record_that_is_larger_than_a_batch_goes_alone() -> None:
    waiting = Accumulator(batch_size=100, linger=1.0)
    assert waiting.add(ONE, outgoing(0, 1000), 0.0)
    waiting.add(ONE, outgoing(1), 0.0)
    (batch,) = due(waiting, 0.0)
    assert tokens(batch) == [0]


def test_one_batch_of_a_partition_is_on_its_way_and_takes_no_more_records() -> None:
    waiting = Accumulator(batch_size=1000, linger=0.0)
    for number, where in enumerate((ONE, TWO, ONE)):
        waiting.add(where, outgoing(number), 0.0)
    sent = due(waiting, 0.0)
    assert [tokens(batch) for batch in sent] == [[0, 2], [1]]
    waiting.sent(sent)
    waiting.add(ONE, outgoing(3), 0.0)
    assert due(waiting, 9.0, flush=True) == []
    assert waiting.next_wait(9.0, flush=True) is None
    assert [one.token for one in waiting.done(sent[0])] == [0, 2]
    assert [tokens(batch) for batch in due(waiting, 9.0)] == [[3]]
    assert waiting.count == 2


def test_batch_that_comes_back_is_sent_before_all_others_after_its_pause() -> None:
    waiting = Accumulator(batch_size=1000, linger=0.0)
    waiting.add(ONE, outgoing(0), 0.0)
    (batch,) = due(waiting, 0.0)
    waiting.sent([batch])
    waiting.add(ONE, outgoing(1), 0.0)
    waiting.back(batch, not_before=2.0)
    assert due(waiting, 1.0, flush=True) == []
    assert waiting.next_wait(1.0, flush=True) == 1.0
    assert due(waiting, 2.0) == [batch]
    assert tokens(batch) == [0]


def test_batch_keeps_its_producer_and_sequence_for_every_try() -> None:
    batch = Batch(ONE, 0.0, [outgoing(0), outgoing(1)], producer=(7, 2), sequence=5)
    encoded = memoryview(batch.encode(Compression.GZIP))
    header = read_header(encoded)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert [record.timestamp for record in decode_records(encoded, verify_crc=True)] == [1000, 1001]
    assert read_header(memoryview(Batch(ONE, 0.0, [outgoing(0)]).encode(Compression.NONE))).producer_id == -1
