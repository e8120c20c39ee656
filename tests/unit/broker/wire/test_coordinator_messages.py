"""Messages of groups and transactions: bytes written down from Kafka's definitions, and sizes that lie."""

from __future__ import annotations

import pytest

from broker.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker.wire.messages.list_transactions import ListTransactionsRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from broker.wire.primitives import MalformedFrame
from broker.wire.schema import Message

JOIN = JoinGroupRequest("g", 10_000, 300_000, "m", "i", "consumer", [JoinGroupRequestProtocol("range", b"\1\2")])
TIMES = b"\0\0\x27\x10" + b"\0\4\x93\xe0"
COMMIT = OffsetCommitRequest(
    "g", 3, "m", topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(1, 258, 7, None)])]
)
TOPICS = [AddPartitionsToTxnTopic("t", [1, 2])]
PARTITIONS = b"\0\0\0\1\0\0\0\2"
GOLDEN: list[tuple[Message, int, bytes]] = [
    (
        JoinGroupRequest("g", 10_000, protocol_type="consumer", protocols=JOIN.protocols),
        0,
        b"\0\1g" + TIMES[:4] + b"\0\0" + b"\0\x08consumer" + b"\0\0\0\1" + b"\0\5range" + b"\0\0\0\2\1\2",
    ),
    (
        JOIN,
        5,
        b"\0\1g" + TIMES + b"\0\1m" + b"\0\1i" + b"\0\x08consumer" + b"\0\0\0\1" + b"\0\5range" + b"\0\0\0\2\1\2",
    ),
    (JOIN, 9, b"\2g" + TIMES + b"\2m\2i" + b"\x09consumer" + b"\2" + b"\6range\3\1\2\0" + b"\0" + b"\0"),
    (JoinGroupResponse(error_code=79, member_id="m"), 0, b"\0\x4f\xff\xff\xff\xff\0\0\0\0\0\1m\0\0\0\0"),
    (JoinGroupResponse(0, 25, 4, None, None), 9, b"\0\0\0\0\0\x19\0\0\0\4\0\0\1\0\1\1\0"),
    (
        SyncGroupRequest("g", 4, "m", assignments=[SyncGroupRequestAssignment("m", b"\7")]),
        0,
        b"\0\1g\0\0\0\4\0\1m\0\0\0\1\0\1m\0\0\0\1\7",
    ),
    (SyncGroupResponse(0, 0, "consumer", "range", b"\7\x08"), 5, b"\0\0\0\0\0\0\x09consumer\6range\3\7\x08\0"),
    (COMMIT, 2, b"\0\1g\0\0\0\3\0\1m" + b"\xff" * 8 + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\0\0\0\0\0\0\1\2\xff\xff"),
    (COMMIT, 6, b"\0\1g\0\0\0\3\0\1m\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\0\0\0\0\0\0\1\2\0\0\0\7\xff\xff"),
    (COMMIT, 9, b"\2g\0\0\0\3\2m\0\2\2t\2\0\0\0\1\0\0\0\0\0\0\1\2\0\0\0\7\0\0\0\0"),
    (OffsetFetchRequest("g", None, require_stable=True), 7, b"\2g\0\1\0"),
    (OffsetFetchRequest("g", None), 2, b"\0\1g\xff\xff\xff\xff"),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", "m", 5, None)]), 9, b"\2\2g\2m\0\0\0\5\0\0\0\0"),
    (
        OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(3)])]),
        0,
        b"\0\1g\0\0\0\1\0\1t\0\0\0\1\0\0\0\3",
    ),
    (
        AddPartitionsToTxnRequest([], "x", 300, 2, TOPICS),
        0,
        b"\0\1x\0\0\0\0\0\0\1\x2c\0\2\0\0\0\1\0\1t\0\0\0\2" + PARTITIONS,
    ),
    (
        AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", 300, 2, True, TOPICS)]),
        4,
        b"\2\2x\0\0\0\0\0\0\1\x2c\0\2\1\2\2t\3" + PARTITIONS + b"\0\0\0",
    ),
    (
        WriteTxnMarkersRequest([WritableTxnMarker(300, 2, True, [WritableTxnMarkerTopic("t", [1, 2])], 9)]),
        1,
        b"\2\0\0\0\0\0\0\1\x2c\0\2\1\2\2t\3" + PARTITIONS + b"\0\0\0\0\x09\0\0",
    ),
    (ListTransactionsRequest(["Ongoing"], [300], 5), 1, b"\2\x08Ongoing\2\0\0\0\0\0\0\1\x2c\0\0\0\0\0\0\0\5\0"),
]


@pytest.mark.parametrize(
    ("message", "version", "raw"), GOLDEN, ids=[f"{type(message).__name__}-{version}" for message, version, _ in GOLDEN]
)
def test_message_is_these_bytes(message: Message, version: int, raw: bytes) -> None:
    assert message.encode(version) == raw
    read = type(message).decode(version, raw, exact=True)
    assert read.encode(version) == raw


def test_what_only_later_versions_can_say_is_refused() -> None:
    """Ignorable fields are dropped as Kafka drops them; a static member's name must not be."""
    with pytest.raises(ValueError, match="group_instance_id = 'i' cannot be encoded in version 4"):
        JOIN.encode(4)
    with pytest.raises(ValueError, match="null"):
        OffsetFetchRequest("g", None).encode(1)
    with pytest.raises(ValueError, match="null where bytes are required"):
        SyncGroupResponse(assignment=None).encode(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (0, b"\0\0\x7f\xff\xff\xff"),
        (0, b"\0\0\xff\xff\xff\xff"),
        (0, b"\0\0\xff\xff\xff\xfe"),
        (4, b"\0\0\0\0\0\0\xff\xff\xff\xff\x0f"),
        (4, b"\0\0\0\0\0\0\0"),
    ],
)
def test_bytes_whose_length_is_a_lie_are_malformed(version: int, raw: bytes) -> None:
    with pytest.raises(MalformedFrame, match=r"SyncGroupResponse\.assignment"):
        SyncGroupResponse.decode(version, raw)


@pytest.mark.parametrize(
    ("version", "count"), [(0, b"\x7f\xff\xff\xff"), (0, b"\0\1\0\0"), (6, b"\xff\xff\xff\xff\x0f")]
)
def test_more_protocols_than_the_frame_can_hold_are_malformed_before_any_is_read(version: int, count: bytes) -> None:
    head = b"\2g" + TIMES + b"\2m\0\x09consumer" if version else b"\0\1g" + TIMES[:4] + b"\0\0\0\x08consumer"
    with pytest.raises(MalformedFrame, match=r"JoinGroupRequest\.protocols.*more array elements"):
        JoinGroupRequest.decode(version, head + count + b"\0" * 100)


def test_bytes_outlive_the_frame() -> None:
    frame = bytearray(b"\0\0\0\0\0\3abc")
    read = SyncGroupResponse.decode(0, memoryview(frame))
    frame[:] = bytes(len(frame))
    assert read.assignment == b"abc"
