from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from broker.wire.records import NewRecord, encode_batch
from harness.clients.fetch import read_records
from harness.clients.values import IDENTITY, VALUE_MAX, encode_key, encode_value, parse_record, parse_value
from tests.support.examples import examples

VALUES = st.integers(0, VALUE_MAX)
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
PARTITIONS = st.integers(0, 1000)
SIZES = st.integers(0, 300)


@given(VALUES, TOPICS, PARTITIONS, SIZES)
@examples()
def test_value_read_back_in_its_place_is_intact(value: int, topic: str, partition: int, size: int) -> None:
    raw = encode_value(value, topic, partition, size)
    assert len(raw) >= size
    assert parse_value(raw, topic, partition) == (value, True)


@given(VALUES, TOPICS, PARTITIONS, TOPICS, PARTITIONS)
@examples()
def test_value_read_elsewhere_is_not_intact(
    value: int, topic: str, partition: int, other_topic: str, other_partition: int
) -> None:
    assume((topic, partition) != (other_topic, other_partition))
    assert parse_value(encode_value(value, topic, partition, 60), other_topic, other_partition) == (value, False)


@given(VALUES, st.integers(0, 10_000), st.integers(1, 255))
@examples()
def test_value_with_a_changed_byte_before_the_padding_is_not_intact(value: int, position: int, change: int) -> None:
    raw = bytearray(encode_value(value, "hw", 3, 0))
    raw[position % (len(raw) - 1)] ^= change
    parsed = parse_value(bytes(raw), "hw", 3)
    assert not parsed.intact


@given(st.binary(max_size=80))
@examples()
def test_value_arbitrary_bytes_are_never_intact(raw: bytes) -> None:
    assert not parse_value(raw, "hw", 0).intact


def test_value_absent_is_not_intact() -> None:
    assert parse_value(None, "hw", 0) == (None, False)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
@examples()
def test_read_records_gives_just_what_lies_in_the_range(sizes: list[int], data: st.DataObject) -> None:
    log, leo = bytearray(), 0
    for size in sizes:
        records = [NewRecord(None, encode_value(leo + index, "hw", 0, 0)) for index in range(size)]
        log += encode_batch(records, timestamps=0, base_offset=leo, leader_epoch=4)
        leo += size
    position = data.draw(st.integers(0, leo))
    cut = data.draw(st.integers(0, len(log)))
    next_position, found = read_records(memoryview(bytes(log[:cut])), "hw", 0, position)
    assert position <= next_position <= leo
    assert found == [(offset, offset, 4, True) for offset in range(position, next_position)]
    if cut == len(log):
        assert next_position == leo


@given(VALUES, st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
@examples()
def test_record_with_a_key_is_read_back_under_that_key_alone(value: int, key: int, other: int, tombstone: bool) -> None:
    body = encode_value(value, "hw", 0, 60, encode_key(key))
    raw, headers = (None, [(IDENTITY, body)]) if tombstone else (body, None)
    for read_with in (encode_key(key), encode_key(other), None):
        same = read_with == encode_key(key)
        assert parse_record(read_with, raw, headers, "hw", 0) == (value, same)
