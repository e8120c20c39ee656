from __future__ import annotations

import contextlib
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.compression import Compression, CompressionError, compress, decompress
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import (
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    RECORD_SIZE_MIN,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    iter_batches,
    read_header,
    stamp,
    validate_produced,
)
from broker.wire.records import NewRecord, decode_records, encode_batch
from tests.support.examples import examples

NO_RECORDS = HEADER_SIZE - LENGTH_PREFIX_SIZE
"""The batch length of a batch without records."""
STILL = examples()
BLOB = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(NewRecord, BLOB, BLOB, st.lists(st.tuples(st.text("abc", max_size=5), BLOB), max_size=3).map(tuple)),
    min_size=1,
    max_size=6,
)
CODECS = st.sampled_from(list(Compression))


def batch(count: int = 2, **options: object) -> bytes:
    return encode_batch([NewRecord(b"k", b"v%d" % i) for i in range(count)], timestamps=1000, **options)  # type: ignore[arg-type]


@STILL
@given(RECORDS, CODECS, st.integers(0, 2**62), st.data())
def test_batch_any_records_roundtrip(
    records: list[NewRecord], codec: Compression, base_offset: int, data: st.DataObject
) -> None:
    times = data.draw(st.lists(st.integers(-1, 2**50), min_size=len(records), max_size=len(records)))
    raw = encode_batch(records, timestamps=times, base_offset=base_offset, compression=codec)
    ((position, header),) = iter_batches(memoryview(raw), verify_crc=True)
    assert (position, header.size, header.record_count) == (0, len(raw), len(records))
    assert (header.compression, header.max_timestamp) == (codec, max(times))
    assert validate_produced(header) is None
    read = decode_records(raw, verify_crc=True)
    assert [record.offset for record in read] == list(range(base_offset, base_offset + len(records)))
    assert [record.timestamp for record in read] == times
    assert [NewRecord(*record[2:]) for record in read] == records


@STILL
@given(st.integers(0, 200), st.integers(0, 7))
def test_batch_any_flipped_bit_is_refused_unless_it_lies_outside_the_crc(at: int, bit: int) -> None:
    raw = bytearray(batch(3))
    at %= len(raw)
    outside_crc = at < 8 or 12 <= at < 16
    intact = read_header(memoryview(raw))
    raw[at] ^= 1 << bit
    try:
        ((_, header),) = iter_batches(memoryview(raw), verify_crc=True)
    except CorruptBatch:
        assert not outside_crc
    else:
        # Base offset and leader epoch are the broker's to write; everything else is the same.
        assert outside_crc
        assert header._replace(base_offset=0, partition_leader_epoch=0) == intact._replace(
            base_offset=0, partition_leader_epoch=0
        )


@STILL
@given(st.binary(max_size=200))
def test_batches_arbitrary_bytes_are_corrupt_or_read(raw: bytes) -> None:
    for verify_crc in (True, False):
        with contextlib.suppress(CorruptBatch):
            for _ in iter_batches(memoryview(raw), verify_crc=verify_crc):
                pass
    with contextlib.suppress(CorruptBatch):
        decode_records(raw)


@STILL
@given(st.data())
def test_records_damaged_behind_a_good_header_are_corrupt_or_read(data: st.DataObject) -> None:
    raw = bytearray(batch(3, compression=data.draw(CODECS)))
    at = data.draw(st.integers(HEADER_SIZE, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        decode_records(bytes(raw))


def test_iter_batches_several_gives_positions_in_order() -> None:
    first, second = batch(1), batch(2, base_offset=1)
    found = list(iter_batches(memoryview(first + second), verify_crc=True))
    assert [position for position, _ in found] == [0, len(first)]
    assert [header.last_offset for _, header in found] == [0, 2]


def test_iter_batches_cut_off_tail_is_corrupt_unless_allowed() -> None:
    whole = batch(1)
    for cut in range(1, len(whole)):
        view = memoryview(whole + whole[:cut])
        with pytest.raises(CorruptBatch) as caught:
            list(iter_batches(view, verify_crc=True))
        assert caught.value.position == len(whole)
        assert len(list(iter_batches(view, verify_crc=True, allow_partial_tail=True))) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_read_header_old_magic_is_refused_distinctly(magic: int) -> None:
    raw = bytearray(batch())
    raw[16] = magic
    with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
        read_header(memoryview(raw))
    # An old message set may be shorter than a v2 header.
    with pytest.raises(UnsupportedMagic):
        read_header(memoryview(raw[:40]))


def test_read_header_unknown_magic_is_corrupt_and_not_old() -> None:
    raw = bytearray(batch())
    raw[16] = 3
    with pytest.raises(CorruptBatch, match="magic 3") as caught:
        read_header(memoryview(raw))
    assert not isinstance(caught.value, UnsupportedMagic)


@pytest.mark.parametrize("length", [-1, 0, 48, 1 << 30])
def test_read_header_impossible_length_is_corrupt(length: int) -> None:
    raw = bytearray(batch())
    struct.pack_into(">i", raw, 8, length)
    with pytest.raises(CorruptBatch, match="batch length"):
        read_header(memoryview(raw))


def test_stamp_in_place_keeps_the_crc() -> None:
    raw = bytearray(batch() + batch())
    view = memoryview(raw)
    at = len(raw) // 2
    stamp(view, at, 2**40, 7)
    header = read_header(view, at)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 7)
    check_crc(view, at, header)
    assert read_header(view).base_offset == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"record_count": 3}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "base_sequence": 0}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_validate_produced_bad_header_is_refused(change: dict[str, int], error: ErrorCode) -> None:
    header = read_header(memoryview(batch()))._replace(**change)
    refusal = validate_produced(header)
    assert refusal is not None
    assert refusal.error == error


def test_validate_produced_counts_the_smallest_records_exactly() -> None:
    raw = encode_batch([NewRecord(None, None)] * 5, timestamps=1)
    header = read_header(memoryview(raw))
    assert validate_produced(header) is None
    more = header._replace(record_count=6, last_offset_delta=5)
    assert validate_produced(more) is not None
    assert validate_produced(more._replace(attributes=2)) is None, "compressed records may be smaller"


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_validate_produced_refuses_no_count_that_its_codec_can_hold(codec: Compression) -> None:
    inflated = 32 * 2**20
    most = inflated // RECORD_SIZE_MIN
    header = read_header(memoryview(batch()))
    size = len(compress(codec, bytes(inflated)))
    honest = header._replace(
        attributes=int(codec), batch_length=NO_RECORDS + size, record_count=most, last_offset_delta=most - 1
    )
    assert validate_produced(honest) is None
    lie = honest._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2, batch_length=NO_RECORDS + 100)
    refusal = validate_produced(lie)
    assert refusal is not None
    assert refusal.error == ErrorCode.INVALID_RECORD
    assert f"100 bytes of compression type {int(codec)}" in refusal.reason


def test_validate_produced_idempotent_and_transactional_batches_pass() -> None:
    options = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    for raw in (batch(), batch(**options), batch(**options, transactional=True)):
        assert validate_produced(read_header(memoryview(raw))) is None


def test_last_sequence_wraps_to_zero() -> None:
    header = read_header(memoryview(batch(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)))
    assert header.last_sequence == 0


def test_decode_records_hostile_count_is_corrupt_before_allocation() -> None:
    raw = bytearray(batch())
    struct.pack_into(">i", raw, 57, 2**31 - 1)
    with pytest.raises(CorruptBatch, match="2147483647 records"):
        decode_records(bytes(raw))


def test_decode_records_log_append_time_gives_the_batchs_time() -> None:
    raw = bytearray(batch(2))
    struct.pack_into(">h", raw, 21, 0x08)
    struct.pack_into(">q", raw, 35, 5555)
    assert [record.timestamp for record in decode_records(bytes(raw))] == [5555, 5555]


def test_decompress_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.wire.compression.INFLATED_BYTES_MAX", 1000)
    packed = compress(Compression.GZIP, bytes(1001))
    with pytest.raises(CompressionError, match="more than 1000"):
        decompress(Compression.GZIP, packed)
    assert len(decompress(Compression.GZIP, compress(Compression.GZIP, bytes(1000)))) == 1000


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_decompress_bomb_is_refused_before_it_goes_off(codec: Compression) -> None:
    packed = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="more than 1000000"):
            decompress(codec, packed, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000 + 2 * len(packed)
    finally:
        tracemalloc.stop()
    assert len(decompress(codec, compress(codec, bytes(1_000_000)), 1_000_000)) == 1_000_000


def test_decompress_without_cramjam_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(CompressionError, match="snappy needs the package cramjam"):
        decompress(Compression.SNAPPY, b"x")


def test_encode_batch_empty_or_uneven_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([], timestamps=1)
    with pytest.raises(ValueError, match="2 timestamps for 1 records"):
        encode_batch([NewRecord(None, None)], timestamps=[1, 2])
