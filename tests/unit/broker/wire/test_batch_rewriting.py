"""Batches with another codec or another time: the records stay, and so does all that the header says of them."""

from __future__ import annotations

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.batch_rewriting import follow_lengths, with_append_time, with_codec
from broker.wire.compression import (
    CodecMissing,
    Compression,
    CompressionError,
    InflatesTooFar,
    check_installed,
    compress,
    decompress,
)
from broker.wire.record_batch import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    CorruptBatch,
    check_crc,
    read_header,
)
from broker.wire.records import NewRecord, decode_records, encode_batch
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("L4")

STILL = examples()
BLOB = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(NewRecord, BLOB, BLOB, st.lists(st.tuples(st.text("abc", max_size=5), BLOB), max_size=3).map(tuple)),
    min_size=1,
    max_size=8,
)
CODECS = st.sampled_from(list(Compression))
KEPT = (
    *("base_offset", "partition_leader_epoch", "magic", "last_offset_delta", "base_timestamp"),
    *("producer_id", "producer_epoch", "base_sequence", "record_count"),
)
MB = 1 << 20


def _view(raw: bytes) -> memoryview:
    return memoryview(bytearray(raw))


@STILL
@given(RECORDS, CODECS, CODECS, st.booleans(), st.booleans(), st.none() | st.integers(0, 2**50), st.data())
def test_rewritten_batch_decodes_to_the_same_records(
    records: list[NewRecord],
    source: Compression,
    target: Compression,
    transactional: bool,
    control: bool,
    append_time_ms: int | None,
    data: st.DataObject,
) -> None:
    times = data.draw(st.lists(st.integers(-1, 2**50), min_size=len(records), max_size=len(records)))
    batch = _view(
        encode_batch(
            records,
            timestamps=times,
            base_offset=77,
            leader_epoch=3,
            producer_id=2**40,
            producer_epoch=5,
            base_sequence=2**31 - 2,
            compression=source,
            transactional=transactional,
            control=control,
        )
    )
    before, decoded = read_header(batch), decode_records(batch)
    header, new = with_codec(before, batch, target, None, MB, append_time_ms)

    assert header == read_header(new)
    assert header.size == len(new)
    check_crc(new, 0, header)
    assert {name: getattr(header, name) for name in KEPT} == {name: getattr(before, name) for name in KEPT}
    other_bits = ~(COMPRESSION_MASK | TIMESTAMP_TYPE_BIT)
    assert header.compression == target
    assert header.attributes & other_bits == before.attributes & other_bits
    if append_time_ms is None:
        assert (header.is_log_append_time, header.max_timestamp) == (False, before.max_timestamp)
        assert decode_records(new) == decoded
    else:
        assert (header.is_log_append_time, header.max_timestamp) == (True, append_time_ms)
        assert decode_records(new) == [record._replace(timestamp=append_time_ms) for record in decoded]


@STILL
@given(RECORDS, CODECS, st.integers(0, 2**50))
def test_append_time_changes_time_bit_and_crc_and_no_other_byte(
    records: list[NewRecord], codec: Compression, append_time_ms: int
) -> None:
    raw = encode_batch(records, timestamps=5, compression=codec, producer_id=9, producer_epoch=0, base_sequence=4)
    batch = _view(raw)
    header = with_append_time(read_header(batch), batch, append_time_ms)
    assert header == read_header(batch)
    check_crc(batch, 0, header)
    assert [record.timestamp for record in decode_records(batch)] == [append_time_ms] * len(records)
    assert bytes(batch[:17]) == raw[:17]
    assert bytes(batch[23:35]) == raw[23:35]
    assert bytes(batch[43:]) == raw[43:]
    assert header.attributes == read_header(memoryview(raw)).attributes | TIMESTAMP_TYPE_BIT


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_batch_that_inflates_too_far_is_refused(codec: Compression) -> None:
    batch = _view(encode_batch([NewRecord(None, bytes(8 * MB))], timestamps=1, compression=codec))
    assert len(batch) < MB
    with pytest.raises(InflatesTooFar, match=f"inflates to more than {MB} bytes"):
        with_codec(read_header(batch), batch, Compression.NONE, None, MB)


def _with_payload(payload: bytes, codec: Compression, count: int) -> memoryview:
    """A batch that claims so many records and holds these bytes; its CRC is not looked at."""
    raw = encode_batch([NewRecord(None, b"v")] * count, timestamps=1)
    header = read_header(memoryview(raw))._replace(attributes=int(codec), batch_length=HEADER_SIZE - 12 + len(payload))
    return _view(HEADER.pack(*header) + payload)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_count_that_the_records_do_not_have_is_corrupt(count: int) -> None:
    two = encode_batch([NewRecord(None, b"v" * 30)] * 2, timestamps=1)[HEADER_SIZE:]
    batch = _with_payload(compress(Compression.GZIP, two), Compression.GZIP, count)
    with pytest.raises(CorruptBatch):
        with_codec(read_header(batch), batch, Compression.ZSTD, None, MB)


def test_records_that_the_codecs_reader_leaves_out_are_not_lost_silently() -> None:
    one = encode_batch([NewRecord(None, b"v" * 30)], timestamps=1)[HEADER_SIZE:]
    twice = compress(Compression.GZIP, one) * 2
    batch = _with_payload(twice, Compression.GZIP, 2)
    with pytest.raises(CorruptBatch):
        with_codec(read_header(batch), batch, Compression.NONE, None, MB)


@pytest.mark.parametrize(
    "payload", [b"\x01" + bytes(9), b"\xff" * 12, b"\x80" * 11, b"\x12" + bytes(8), b"\x12" + bytes(10), b""]
)
def test_lengths_that_do_not_fill_the_payload_are_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        follow_lengths(payload, 1)
    follow_lengths(b"\x12" + bytes(9), 1)


def test_bytes_that_are_not_what_their_codec_writes_are_an_error() -> None:
    batch = _with_payload(b"certainly no zstd", Compression.ZSTD, 1)
    with pytest.raises(CompressionError, match="not zstd"):
        with_codec(read_header(batch), batch, Compression.NONE, None, MB)


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_codec_that_is_not_installed_is_named(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    check_installed(Compression.GZIP)
    with pytest.raises(CodecMissing, match=f"{codec.name.lower()} needs the package cramjam"):
        check_installed(codec)


@pytest.mark.parametrize("level", [None, 1, 9, 12, 17])
def test_lz4_has_independent_blocks_as_kafkas_reader_demands(level: int | None) -> None:
    data = bytes(i * i % 251 for i in range(300_000))
    packed = compress(Compression.LZ4, data, level)
    assert packed[4] & 0x20
    assert decompress(Compression.LZ4, packed) == data


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Compression.GZIP, 1, 9), (Compression.LZ4, 9, 12), (Compression.ZSTD, -5, 19)]
)
def test_level_makes_a_difference(codec: Compression, low: int, high: int) -> None:
    data = b" ".join(b"%d" % (crc32c.crc32c(b"%d" % i) % 5000) for i in range(40_000))
    assert len(compress(codec, data, high)) < len(compress(codec, data, low))
    assert decompress(codec, compress(codec, data, low)) == data
