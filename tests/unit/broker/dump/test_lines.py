"""Lines of a dump: the fields of Kafka's tool, in its order."""

from __future__ import annotations

import struct

import pytest

from broker.core.producers.snapshot import SnapshotRow
from broker.dump.decoders import by_class, key_and_value
from broker.dump.lines import AbortedTransaction, batch_line, codec_name, producer_line, record_line, transaction_line
from broker.log.cleaner.batches import DELETE_HORIZON_BIT
from broker.wire.compression import Compression
from broker.wire.record_batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, BatchHeader
from broker.wire.records import Record

HEADER = BatchHeader(40, 88, 3, 2, 0xF2345678, int(Compression.GZIP), 4, 1000, 1009, 7, 2, 11, 5)
RECORD = Record(42, 1004, b"k", "wört".encode(), (("a", b"1"), ("b", None)))
STRINGS = key_and_value(by_class("StringDecoder"), by_class("StringDecoder"))


def test_batch_line_has_all_fields_of_kafkas() -> None:
    assert batch_line(HEADER, 512, valid=True) == (
        "baseOffset: 40 lastOffset: 44 count: 5 baseSequence: 11 lastSequence: 15 producerId: 7 producerEpoch: 2 "
        "partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 512 CreateTime: 1009 size: 100 magic: 2 compresscodec: gzip crc: 4063516280 isvalid: true"
    )


def test_batch_line_attributes_are_printed() -> None:
    bits = TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT | TIMESTAMP_TYPE_BIT
    line = batch_line(HEADER._replace(attributes=bits, base_sequence=-1, producer_id=-1), 0, valid=False)
    for part in (
        "baseSequence: -1 lastSequence: -1 producerId: -1",
        "isTransactional: true isControl: true deleteHorizonMs: OptionalLong[1000]",
        "LogAppendTime: 1009",
        "compresscodec: none",
    ):
        assert part in line
    assert line.endswith("isvalid: false")


def test_codec_that_does_not_exist_is_printed_by_its_number() -> None:
    assert [codec_name(codec) for codec in range(6)] == ["none", "gzip", "snappy", "lz4", "zstd", "5"]


def test_record_line_without_contents_names_sizes_and_headers() -> None:
    assert record_line(HEADER, RECORD, True, None) == (
        "| offset: 42 CreateTime: 1004 keySize: 1 valueSize: 5 sequence: 13 headerKeys: [a,b]"
    )


def test_record_line_with_contents_ends_in_key_and_payload() -> None:
    line = record_line(HEADER, RECORD, True, STRINGS)
    assert line.endswith("headerKeys: [a,b] key: k payload: wört")


def test_record_line_null_key_and_value_have_size_minus_one_and_no_text() -> None:
    line = record_line(HEADER, RECORD._replace(key=None, value=None, headers=()), True, STRINGS)
    assert line == "| offset: 42 CreateTime: 1004 keySize: -1 valueSize: -1 sequence: 13 headerKeys: []"


def test_record_line_without_metadata_is_key_and_payload() -> None:
    assert record_line(HEADER, RECORD, False, STRINGS) == "| key: k payload: wört"


def test_record_line_sequence_wraps_and_is_absent_without_a_producer() -> None:
    wrapping = HEADER._replace(base_sequence=2**31 - 1)
    assert "sequence: 1 " in record_line(wrapping, RECORD, True, None)
    assert "sequence: -1 " in record_line(HEADER._replace(base_sequence=-1), RECORD, True, None)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 9), "endTxnMarker: ABORT coordinatorEpoch: 9"),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 9), "endTxnMarker: COMMIT coordinatorEpoch: 9"),
        (struct.pack(">hh", 0, 2), b"", "controlType: LEADER_CHANGE(2)"),
        (struct.pack(">hh", 0, 77), None, "controlType: UNKNOWN(77)"),
        (struct.pack(">hh", 0, 1), b"\0", "controlType: UNKNOWN(1)"),
        (b"\0", None, "controlType: UNKNOWN(-1)"),
        (None, None, "controlType: UNKNOWN(-1)"),
    ],
)
def test_control_record_is_printed_by_its_kind_not_as_text(key: bytes | None, value: bytes | None, said: str) -> None:
    control = HEADER._replace(attributes=CONTROL_BIT)
    line = record_line(control, RECORD._replace(key=key, value=value), True, STRINGS)
    assert line.endswith(said)


def test_producer_line_has_the_newest_batch_if_there_is_one() -> None:
    row = SnapshotRow(7, 2, 4, 104, 4, 1_700, -1, -1)
    head = "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
    batch = "firstSequence: 0 lastSequence: 4 lastOffset: 104 offsetDelta: 4 timestamp: 1700"
    assert producer_line(row) == f"{head} lastTimestamp: 1700 {batch}"
    assert producer_line(row._replace(last_offset=-1)) == f"{head} lastTimestamp: 1700 "
    assert "currentTxnFirstOffset: OptionalLong[100] " in producer_line(row._replace(transaction_first_offset=100))


def test_transaction_line_has_all_fields() -> None:
    assert transaction_line(AbortedTransaction(0, 7, 10, 20, 8)) == (
        "version: 0 producerId: 7 firstOffset: 10 lastOffset: 20 lastStableOffset: 8"
    )


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("kafka.serializer.StringDecoder", b"a\xffb", "a\N{REPLACEMENT CHARACTER}b"),
        ("org.apache.kafka.tools.api.IntegerDecoder", b"\xff\xff\xff\xfe", "-2"),
        ("IntegerDecoder", b"\0\0\0\x05rest", "5"),
        ("LongDecoder", b"\0" * 7 + b"\x09", "9"),
        ("LongDecoder", b"abc", "(no number of 8 bytes: 616263)"),
        ("DefaultDecoder", b"\x01\xfe", "01fe"),
    ],
)
def test_decoder_by_kafkas_class_name_makes_text(name: str, data: bytes, text: str) -> None:
    assert by_class(name)(data) == text


def test_decoder_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"'org\.example\.Avro' is no decoder; there are StringDecoder, Integer"):
        by_class("org.example.Avro")
