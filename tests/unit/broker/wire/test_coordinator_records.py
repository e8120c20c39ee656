"""Keys and values of the coordinators' topics: bytes written down from Kafka's definitions, all versions, bad bytes."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.compression import Compression
from broker.wire.coordinator_records.batches import (
    TransactionalProducer,
    coordinator_batch,
    group_record,
    offset_record,
    transaction_record,
)
from broker.wire.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    readable_version,
)
from broker.wire.coordinator_records.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
)
from broker.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    TransactionStatus,
)
from broker.wire.coordinator_records.versioned import UnknownRecordVersion, Versioned
from broker.wire.primitives import MalformedFrame
from broker.wire.record_batch import read_header
from broker.wire.records import NewRecord, decode_records
from tests.support.examples import examples
from tests.support.wire_values import instances

MEMBER = MemberMetadata("m", "i", "c", "/h", 300, 10, b"\1\2", b"\3")
GROUP = GroupMetadataValue("consumer", 5, "range", "m", 1000, [MEMBER])
STABLE = b"\0\x08consumer\0\0\0\5\0\5range\0\1m"
TIME = b"\0\0\0\0\0\0\3\xe8"
TRANSACTION = TransactionLogValue(258, 3, 60_000, 1, [TransactionPartitions("t", [0, 2])], 1000, 1000)
GOLDEN: list[tuple[Versioned, int | None, bytes]] = [
    (OffsetCommitKey("g", "t", 7), None, b"\0\1\0\1g\0\1t\0\0\0\7"),
    (OffsetCommitKey("g", "t", 7), 0, b"\0\0\0\1g\0\1t\0\0\0\7"),
    (OffsetCommitKey("ä", "", -1), None, b"\0\1\0\2\xc3\xa4\0\0\xff\xff\xff\xff"),
    (OffsetCommitValue(258, 4, "md", 1000), None, b"\0\3\0\0\0\0\0\0\1\2\0\0\0\4\0\2md" + TIME),
    (OffsetCommitValue(258, -1, "md", 1000), 0, b"\0\0\0\0\0\0\0\0\1\2\0\2md" + TIME),
    (OffsetCommitValue(258, -1, "", 1000, 1001), None, b"\0\1\0\0\0\0\0\0\1\2\0\0" + TIME + TIME[:-1] + b"\xe9"),
    (OffsetCommitValue(258, -1, "", 1000), 2, b"\0\2\0\0\0\0\0\0\1\2\0\0" + TIME),
    (OffsetCommitValue(258, 4, "md", 1000), 4, b"\0\4\0\0\0\0\0\0\1\2\0\0\0\4\3md" + TIME + b"\0"),
    (GroupMetadataKey("g"), None, b"\0\2\0\1g"),
    (
        GROUP,
        None,
        b"\0\3" + STABLE + TIME + b"\0\0\0\1\0\1m\0\1i\0\1c\0\2/h\0\0\1\x2c\0\0\0\x0a\0\0\0\2\1\2\0\0\0\1\3",
    ),
    (
        dataclasses.replace(GROUP, members=[dataclasses.replace(MEMBER, group_instance_id=None)]),
        2,
        b"\0\2" + STABLE + TIME + b"\0\0\0\1\0\1m\0\1c\0\2/h\0\0\1\x2c\0\0\0\x0a\0\0\0\2\1\2\0\0\0\1\3",
    ),
    (
        GroupMetadataValue("consumer", 5, "range", "m", -1, [MemberMetadata("m", None, "c", "/h", -1, 10, b"", b"\3")]),
        0,
        b"\0\0" + STABLE + b"\0\0\0\1\0\1m\0\1c\0\2/h\0\0\0\x0a\0\0\0\0\0\0\0\1\3",
    ),
    (GroupMetadataValue("", 6, None, None, 1000), None, b"\0\3\0\0\0\0\0\6\xff\xff\xff\xff" + TIME + bytes(4)),
    (GroupMetadataValue("", 6, None, None, 1000), 4, b"\0\4\1\0\0\0\6\0\0" + TIME + b"\1\0"),
    (TransactionLogKey("x"), None, b"\0\0\0\1x"),
    (
        TRANSACTION,
        None,
        b"\0\0" + b"\0\0\0\0\0\0\1\2\0\3\0\0\xea\x60\1" + b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2" + TIME + TIME,
    ),
    (
        dataclasses.replace(TRANSACTION, transaction_status=0, transaction_partitions=None),
        None,
        b"\0\0" + b"\0\0\0\0\0\0\1\2\0\3\0\0\xea\x60\0" + b"\xff\xff\xff\xff" + TIME + TIME,
    ),
    (
        TRANSACTION,
        1,
        b"\0\1" + b"\0\0\0\0\0\0\1\2\0\3\0\0\xea\x60\1" + b"\2\2t\3\0\0\0\0\0\0\0\2\0" + TIME + TIME + b"\0",
    ),
    (ConsumerProtocolSubscription(["t"], b"\7"), 0, b"\0\0\0\0\0\1\0\1t\0\0\0\1\7"),
    (
        ConsumerProtocolSubscription(["t"], None, [OwnedPartitions("t", [1])], 4, "r"),
        None,
        b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\0\0\0\4\0\1r",
    ),
    (ConsumerProtocolAssignment([OwnedPartitions("t", [1])]), 1, b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\xff\xff\xff\xff"),
]
CLASSES: list[type[Versioned]] = [
    OffsetCommitKey,
    OffsetCommitValue,
    GroupMetadataKey,
    GroupMetadataValue,
    TransactionLogKey,
    TransactionLogValue,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
VERSIONS = [(cls, version) for cls in CLASSES for version in range(cls.FIRST, cls.LAST + 1)]
all_versions = pytest.mark.parametrize(
    ("cls", "version"), VERSIONS, ids=[f"{cls.__name__}-{version}" for cls, version in VERSIONS]
)


@pytest.mark.parametrize(("value", "version", "raw"), GOLDEN)
def test_value_is_these_bytes(value: Versioned, version: int | None, raw: bytes) -> None:
    assert value.encode(version) == raw
    assert type(value).decode(raw) == value
    assert type(value).decode(memoryview(raw + b"more")) == value, "what a later version has put behind is ignored"


@all_versions
@examples(30)
@given(data=st.data())
def test_any_value_roundtrips(cls: type[Versioned], version: int, data: st.DataObject) -> None:
    value = data.draw(instances(cls, version))
    raw = value.encode(version)
    assert cls.decode(raw) == value
    if isinstance(value, (OffsetCommitKey, OffsetCommitValue)) and version == cls.WRITTEN:
        assert value.encode() == raw, "by hand as by the engine"


@all_versions
@examples(100)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_read_as_the_engine_reads_them(
    cls: type[Versioned], version: int, data: st.DataObject
) -> None:
    raw = bytearray(data.draw(instances(cls, version)).encode(version))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]

    def read(by: Any) -> object:
        try:
            return by(bytes(raw))
        except (MalformedFrame, UnknownRecordVersion) as error:
            return str(error)

    engine = Versioned.decode.__func__  # type: ignore[attr-defined]
    if not issubclass(cls, (ConsumerProtocolSubscription, ConsumerProtocolAssignment)):
        assert read(cls.decode) == read(lambda some: engine(cls, some))
    with contextlib.suppress(MalformedFrame, UnknownRecordVersion):
        read_key(bytes(raw))
    with contextlib.suppress(MalformedFrame):
        ConsumerProtocolSubscription.decode(bytes(raw))


def test_key_is_of_an_offset_or_of_a_group_by_its_version() -> None:
    for version in (0, 1):
        assert read_key(OffsetCommitKey("g", "t", 1).encode(version)) == OffsetCommitKey("g", "t", 1)
    assert read_key(GroupMetadataKey("g").encode()) == GroupMetadataKey("g")


@pytest.mark.parametrize("version", [3, 8, 32767, -1])
def test_key_of_another_coordinator_is_unknown_not_malformed(version: int) -> None:
    with pytest.raises(UnknownRecordVersion, match="version") as caught:
        read_key(version.to_bytes(2, "big", signed=True) + b"\0\1g")
    assert caught.value.version == version


@pytest.mark.parametrize(
    ("cls", "version", "known"),
    [
        (OffsetCommitValue, 5, "OffsetCommitValue: version 5 is none of 0-4"),
        (GroupMetadataValue, 5, "GroupMetadataValue: version 5 is none of 0-4"),
        (TransactionLogKey, 1, "TransactionLogKey: version 1 is none of 0-0"),
        (TransactionLogValue, 2, "TransactionLogValue: version 2 is none of 0-1"),
    ],
)
def test_value_of_a_later_version_is_refused_by_name(cls: type[Versioned], version: int, known: str) -> None:
    with pytest.raises(UnknownRecordVersion, match=known):
        cls.decode(version.to_bytes(2, "big") + bytes(100))
    with pytest.raises(ValueError, match="is none of"):
        cls().encode(version)


@pytest.mark.parametrize("raw", [b"", b"\0"])
def test_bytes_without_a_version_are_malformed(raw: bytes) -> None:
    for cls in CLASSES:
        with pytest.raises(MalformedFrame, match="version"):
            cls.decode(raw)
    with pytest.raises(MalformedFrame, match="version"):
        read_key(raw)


def test_text_longer_than_its_length_field_is_a_value_error() -> None:
    long = "x" * 32768
    for value in (OffsetCommitKey(long), OffsetCommitKey("g", long), OffsetCommitValue(metadata=long)):
        with pytest.raises(ValueError, match="longer than the 32767 that fit"):
            value.encode()
    with pytest.raises(ValueError, match="longer than the 32767 that fit"):
        GroupMetadataKey(long).encode()
    with pytest.raises(ValueError, match="out of its field's range"):
        OffsetCommitKey("g", "t", 2**31).encode()
    with pytest.raises(ValueError, match="out of its field's range"):
        OffsetCommitValue(2**63).encode()


def test_subscription_of_a_later_version_is_read_as_the_newest_known() -> None:
    newest = ConsumerProtocolSubscription(["t"], None, [], 4, "r")
    raw = b"\0\x09" + newest.encode()[2:] + b"more"
    assert (readable_version(raw), ConsumerProtocolSubscription.decode(raw)) == (3, newest)


def test_status_has_kafkas_numbers_and_names() -> None:
    assert [status.kafkas_name for status in TransactionStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert list(TransactionStatus) == list(range(8))


def test_batch_holds_records_and_tombstones() -> None:
    offset = OffsetCommitValue(5, 1, "", 99)
    records = [
        offset_record("g", "t", 1, offset),
        offset_record("g", "t", 2, None),
        group_record("g", GROUP),
        group_record("h", None),
        transaction_record("x", TRANSACTION),
        transaction_record("y", None),
    ]
    raw = coordinator_batch(records, 1234, compression=Compression.GZIP)
    header = read_header(memoryview(raw))
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (-1, -1, False)
    assert header.compression == Compression.GZIP
    read = decode_records(raw, verify_crc=True)
    assert [NewRecord(record.key, record.value) for record in read] == records
    assert {record.timestamp for record in read} == {1234}
    assert (read_key(read[1].key or b""), read[1].value) == (OffsetCommitKey("g", "t", 2), None)
    with pytest.raises(ValueError, match="at least one record"):
        coordinator_batch([], 1)


def test_batch_of_a_transactions_offsets_names_its_producer() -> None:
    raw = coordinator_batch([offset_record("g", "t", 1, None)], 7, transaction=TransactionalProducer(9, 2))
    header = read_header(memoryview(raw))
    assert header.is_transactional
    assert not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 0)
