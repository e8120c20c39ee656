"""One batch through compaction."""

from __future__ import annotations

import pytest

from broker.log.cleaner.batches import DELETE_HORIZON_BIT, Filtered, Keeps, delete_horizon_ms, filter_batch
from broker.wire.compression import Compression
from broker.wire.raw_records import payload_of, raw_records
from broker.wire.record_batch import CorruptBatch, ImpossibleTimestamp, read_header
from broker.wire.records import NewRecord, decode_records, encode_batch

RECORDS = [
    NewRecord(b"a", b"1", (("h", b"x"),)),
    NewRecord(b"b", None),
    NewRecord(None, b"3" * 300),
    NewRecord(b"", b"", (("n", None),)),
]
TIMES = [1_000_000, 999_000, 5_000_000, 1_000_000]


def _batch(codec: Compression = Compression.NONE, records: list[NewRecord] = RECORDS, **more: int) -> memoryview:
    times = TIMES[: len(records)]
    fields = {"base_offset": 100, "producer_id": 7, "producer_epoch": 3, "base_sequence": 50, "leader_epoch": 9} | more
    return memoryview(encode_batch(records, timestamps=times, compression=codec, **fields))  # type: ignore[arg-type]


def _filter(batch: memoryview, keeps: Keeps, keep_empty: bool = False, horizon: int = 777) -> Filtered:
    return filter_batch(read_header(batch), batch, keeps, keep_empty, horizon)


@pytest.mark.parametrize("codec", list(Compression))
def test_batch_that_loses_records_keeps_all_else(codec: Compression) -> None:
    batch = _batch(codec)
    found = _filter(batch, lambda record: record.offset in (100, 103))
    assert found.data is not None
    before, after = read_header(batch), read_header(memoryview(found.data))
    expected = [record for record in decode_records(batch) if record.offset in (100, 103)]
    assert decode_records(found.data, verify_crc=True) == expected
    same = ("base_offset", "last_offset", "last_sequence", "partition_leader_epoch", "attributes", "base_timestamp")
    for name in (*same, "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.record_count, after.max_timestamp, found.max_timestamp) == (2, 1_000_000, 1_000_000)


def test_batch_that_loses_nothing_is_the_same_bytes() -> None:
    batch = _batch(Compression.GZIP, [RECORDS[0], RECORDS[2]])
    assert _filter(batch, lambda record: True) == Filtered(batch, 2, 1_000_000)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_batch_with_tombstones_gets_a_horizon_once_and_its_timestamps_stay(codec: Compression) -> None:
    batch = _batch(codec)
    once = _filter(batch, lambda record: True, horizon=2_000_000)
    assert once.data is not None
    header = read_header(memoryview(once.data))
    assert delete_horizon_ms(header) == 2_000_000
    assert decode_records(once.data, verify_crc=True) == decode_records(batch)
    assert header.max_timestamp == 5_000_000
    again = _filter(memoryview(once.data), lambda record: True, horizon=3_000_000)
    assert again.data == once.data
    without = _filter(memoryview(once.data), lambda record: record.has_value)
    assert without.data is not None
    assert delete_horizon_ms(read_header(memoryview(without.data))) == 2_000_000
    assert decode_records(without.data, verify_crc=True) == [r for r in decode_records(batch) if r.value is not None]


@pytest.mark.parametrize(
    ("base_ms", "horizon_ms"),
    [(1_000_000, 2**63 + 5), (-(2**63), 2_000_000), (2**63 - 1, -5)],
)
def test_horizon_that_does_not_fit_is_none_and_the_tombstone_stays(base_ms: int, horizon_ms: int) -> None:
    """`delete.retention.ms` may be as large as "for ever"; a producer may say any time."""
    records = [NewRecord(b"a", b"1"), NewRecord(b"b", None)]
    batch = memoryview(encode_batch(records, timestamps=[base_ms, base_ms]))
    assert _filter(batch, lambda record: True, horizon=horizon_ms) == Filtered(batch, 2, base_ms)
    found = _filter(batch, lambda record: record.key == b"b", horizon=horizon_ms)
    assert found.data is not None
    assert delete_horizon_ms(read_header(memoryview(found.data))) is None
    assert decode_records(found.data, verify_crc=True) == decode_records(batch)[1:]


def test_batch_without_tombstones_gets_no_horizon() -> None:
    found = _filter(_batch(), lambda record: record.offset == 100)
    assert found.data is not None
    assert not read_header(memoryview(found.data)).attributes & DELETE_HORIZON_BIT


def test_batch_that_loses_everything_goes_or_stays_as_a_header() -> None:
    batch = _batch(Compression.GZIP)
    assert _filter(batch, lambda record: False).data is None
    kept = _filter(batch, lambda record: False, keep_empty=True)
    assert kept.data is not None
    header = read_header(memoryview(kept.data))
    assert (len(kept.data), header.record_count, header.compression, header.base_timestamp) == (61, 0, 0, -1)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (100, 103, 53)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp) == (7, 3, 5_000_000)
    assert decode_records(kept.data, verify_crc=True) == []
    # An empty one passes through again.
    assert _filter(memoryview(kept.data), lambda record: True, keep_empty=True).data == kept.data


def test_raw_records_say_keys_and_values() -> None:
    batch = _batch(Compression.GZIP)
    header = read_header(batch)
    found = [(record.offset, record.key, record.has_value) for record in raw_records(header, payload_of(header, batch))]
    assert found == [(100, b"a", True), (101, b"b", False), (102, None, True), (103, b"", True)]


def test_raw_records_of_cut_or_wrong_bytes_raise_corrupt_batch() -> None:
    batch = bytearray(_batch())
    header = read_header(memoryview(batch))
    payload = bytes(batch[61:])
    for wrong in (payload[:-1], payload + b"\0", b"\xff" * len(payload), b"", payload[:20]):
        with pytest.raises(CorruptBatch):
            list(raw_records(header, wrong))
    with pytest.raises(CorruptBatch):
        list(raw_records(header._replace(record_count=5), payload))
    with pytest.raises(CorruptBatch):
        list(raw_records(header._replace(last_offset_delta=2), payload))


@pytest.mark.parametrize("base_ms", [2**63 - 1, -(2**63)])
def test_raw_records_with_a_timestamp_of_more_than_64_bits_are_refused(base_ms: int) -> None:
    batch = _batch()
    header = read_header(batch)._replace(base_timestamp=base_ms)
    with pytest.raises(ImpossibleTimestamp, match=str(base_ms)):
        list(raw_records(header, payload_of(header, batch)))
