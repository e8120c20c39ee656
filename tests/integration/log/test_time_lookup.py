"""Lookups by time: what they find, and those that would cost too much."""

from __future__ import annotations

import struct

import crc32c
import pytest

from broker.wire.compression import Compression
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.log_tools import Clock, append_values, batch, kill, open_log, open_store


def test_timestamp_lookup_into_batches_that_lie_about_their_time_ends_soon(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Their headers promise a late record, so each has to be looked into, and none has one.
    monkeypatch.setattr("broker.log.segments.timestamp_lookup.RECORDS_MAX", 100)
    store = open_store(path, Clock())
    log = open_log(store)
    for number in range(30):
        data = bytearray(batch(number, 10, 1000))
        struct.pack_into(">q", data, 35, 2**60)
        struct.pack_into(">I", data, 17, crc32c.crc32c(memoryview(data)[21:]))
        log.append_as_leader(memoryview(data), 3)
    log.write()
    assert log.offset_for_timestamp(5000, 300) == (2**60, 100, 3)
    assert log.offset_for_timestamp(5000, 95) is None
    kill(store)


def test_timestamp_lookup_returns_times_of_64_bits(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    data = bytearray(encode_batch([NewRecord(b"k", b"1"), NewRecord(b"k", b"2")], timestamps=[0, 20]))
    struct.pack_into(">qq", data, 27, 2**63 - 10, 2**63 - 1)
    struct.pack_into(">I", data, 17, crc32c.crc32c(memoryview(data)[21:]))
    log.append_as_leader(memoryview(data), 3)
    log.write()
    assert log.offset_for_timestamp(2**63 - 5, 2) == (2**63 - 1, 1, 3)
    kill(store)


@pytest.mark.parametrize("bound", ["RECORDS_MAX", "INFLATED_BYTES_MAX"])
def test_timestamp_lookup_in_a_batch_that_inflates_too_far_returns_its_start(
    path: str, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(f"broker.log.segments.timestamp_lookup.{bound}", 50)
    store = open_store(path, Clock())
    log = open_log(store)
    stamps = [1000 + value for value in range(100)]
    packed = encode_batch([NewRecord(None, b"x" * 10) for _ in stamps], timestamps=stamps, compression=Compression.GZIP)
    log.append_as_leader(memoryview(bytearray(packed)), 3)
    log.write()
    # What was looked at and is older is left out; nothing at or after the timestamp is.
    assert log.offset_for_timestamp(1080, 100) == (1099, 50 if bound == "RECORDS_MAX" else 0, 3)
    kill(store)


def test_newest_timestamp_is_the_largest_of_all_segments_also_after_a_restart(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    assert log.newest_timestamp() == -1
    for number, stamp in enumerate([50, 99, 20, 90, 95, 10, 98] * 5):
        log.append_as_leader(batch(number, 1, stamp), 0)
        log.write()
    assert log.newest_timestamp() == 99
    assert log.offset_for_timestamp(99, 35) == (99, 1, 0)
    assert len(log.segment_base_offsets) > 2
    store.close(clean=True)
    store = open_store(path, Clock())
    log = open_log(store)
    assert log.newest_timestamp() == 99
    kill(store)


def test_timestamp_lookup_finds_first_record_at_or_after(path: str) -> None:
    store = open_store(path, Clock())
    append_values(store, range(30), epoch=4, records=2)
    log = open_log(store)
    for value in range(30):
        assert log.offset_for_timestamp(1000 + value, 60) == (1000 + value, 2 * value, 4)
    assert log.offset_for_timestamp(0, 60) == (1000, 0, 4)
    assert log.offset_for_timestamp(1030, 60) is None
    assert log.offset_for_timestamp(1029, 58) is None
    log.maybe_raise_log_start(11)
    assert log.offset_for_timestamp(0, 60) == (1005, 11, 4)
    kill(store)


def test_timestamp_lookup_out_of_order_timestamps_takes_the_first_offset(path: str) -> None:
    store = open_store(path, Clock())
    log = open_log(store)
    stamps = [50, 90, 20, 90, 95, 10, 99]
    for number, stamp in enumerate(stamps):
        log.append_as_leader(batch(number, 1, stamp), 0)
    log.write()
    for wanted in range(100):
        first = next(n for n, stamp in enumerate(stamps) if stamp >= wanted)
        assert log.offset_for_timestamp(wanted, 7) == (stamps[first], first, 0)
    kill(store)
