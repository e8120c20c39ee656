"""Records of coordinators as text: Kafka's names in Kafka's order, and a reason for each that cannot be read."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.dump.coordinator_decoders import offsets, transactions
from broker.wire.coordinator_records.batches import group_record, offset_record, transaction_record
from broker.wire.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from broker.wire.coordinator_records.offsets_topic import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker.wire.coordinator_records.transaction_log import TransactionLogValue, TransactionPartitions
from broker.wire.records import NewRecord, Record
from tests.support.examples import examples

MEMBER = MemberMetadata("m", None, "c", "/h", 300, 10, b"\1\2", b"\3")
GROUP = GroupMetadataValue("connect", 5, "p", "m", 1000, [MEMBER])
TRANSACTION = TransactionLogValue(258, 3, 60_000, 2, [TransactionPartitions("t", [0, 2])], 1001, 1000)


def logged(record: NewRecord) -> Record:
    return Record(42, 1000, record.key, record.value)


def test_offset_is_json_of_its_version() -> None:
    key = '{"type":"1","data":{"group":"g","topic":"t","partition":7}}'
    commit = OffsetCommitValue(258, 4, 'a"\\\x1f\x00u001f\né', 1000)
    data = '{"offset":258,"leaderEpoch":4,"metadata":"a\\"\\\\\\u001F\\u0000u001f\\né","commitTimestamp":1000}'
    assert offsets(logged(offset_record("g", "t", 7, commit))) == (key, f'{{"version":"3","data":{data}}}')
    expiring = dataclasses.replace(commit, metadata="", expire_timestamp=1001)
    data = '{"offset":258,"metadata":"","commitTimestamp":1000,"expireTimestamp":1001}'
    assert offsets(logged(offset_record("g", "t", 7, expiring)))[1] == f'{{"version":"1","data":{data}}}'
    assert offsets(logged(offset_record("g", "t", 7, None))) == (key, "<DELETE>")
    assert offsets(Record(1, 1, OffsetCommitKey("g", "t", 7).encode(0), None))[0].startswith('{"type":"0",')


def test_group_has_its_members_bytes_in_base64() -> None:
    key, value = offsets(logged(group_record("g", GROUP)))
    assert key == '{"type":"2","data":{"group":"g"}}'
    assert value == (
        '{"version":"3","data":{"protocolType":"connect","generation":5,"protocol":"p","leader":"m",'
        '"currentStateTimestamp":1000,"members":[{"memberId":"m","groupInstanceId":null,"clientId":"c",'
        '"clientHost":"/h","rebalanceTimeout":300,"sessionTimeout":10,"subscription":"AQI=","assignment":"Aw=="}]}}'
    )


def test_group_of_consumers_has_subscriptions_and_assignments_in_words() -> None:
    member = dataclasses.replace(
        MEMBER,
        subscription=ConsumerProtocolSubscription(["t"], None, [OwnedPartitions("t", [1])], 4, "r").encode(1),
        assignment=ConsumerProtocolAssignment([OwnedPartitions("t", [1])], b"\7").encode(),
    )
    broken = dataclasses.replace(member, subscription=b"\0\0\0\1")
    text = offsets(logged(group_record("g", dataclasses.replace(GROUP, protocol_type="consumer", members=[member]))))[1]
    owned = '[{"topic":"t","partitions":[1]}]'
    assert text is not None
    assert f'"subscription":{{"topics":["t"],"userData":null,"ownedPartitions":{owned}}}' in text
    assert f'"assignment":{{"assignedPartitions":{owned},"userData":"Bw=="}}' in text
    group = dataclasses.replace(GROUP, protocol_type="consumer", members=[broken])
    assert '"subscription":"AAAAAQ=="' in (offsets(logged(group_record("g", group)))[1] or "")


def test_transaction_is_a_line_of_its_own_kind() -> None:
    key = "transaction_metadata::transactionalId=x"
    assert transactions(logged(transaction_record("x", TRANSACTION))) == (
        key,
        "producerId:258,producerEpoch:3,state=PrepareCommit,partitions=[t-0,t-2],"
        "txnLastUpdateTimestamp=1001,txnTimeoutMs=60000",
    )
    empty = dataclasses.replace(TRANSACTION, transaction_status=0, transaction_partitions=None)
    assert "state=Empty,partitions=[]," in (transactions(logged(transaction_record("x", empty)))[1] or "")
    assert transactions(logged(transaction_record("x", None))) == (key, "<DELETE>")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0\5\0\1g", b"", "Unknown record type 5 at offset 42, skipping."),
        (None, b"", "Error at offset 42, skipping. malformed frame: key"),
        (b"\0", b"", "Error at offset 42, skipping. malformed frame: version"),
        (b"\0\1\0\1g", b"", "Error at offset 42, skipping. malformed frame: OffsetCommitKey.topic"),
        (b"\0\2\0\1g", b"\0\x09", "Error at offset 42, skipping. GroupMetadataValue: version 9 is none of 0-4"),
        (b"\0\2\0\1g", b"\0\3", "Error at offset 42, skipping. malformed frame: GroupMetadataValue.protocol_type"),
    ],
)
def test_record_of_offsets_that_cannot_be_read_has_a_reason(key: bytes | None, value: bytes, said: str) -> None:
    text, payload = offsets(Record(42, 1, key, value))
    assert text.startswith(said)
    assert payload is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0\1\0\1x", b"", "unknown::version=1"),
        (None, b"", "Error at offset 42, skipping. malformed frame: key"),
        (b"\0\0\0\1x", b"\0\2", "Error at offset 42, skipping. TransactionLogValue: version 2 is none of 0-1"),
        (b"\0\0\0\1x", b"\0\0\0", "Error at offset 42, skipping. malformed frame: TransactionLogValue"),
        (
            b"\0\0\0\1x",
            dataclasses.replace(TRANSACTION, transaction_status=9).encode(),
            "Error at offset 42, skipping. 9 is not a valid TransactionStatus",
        ),
    ],
)
def test_record_of_transactions_that_cannot_be_read_has_a_reason(key: bytes | None, value: bytes, said: str) -> None:
    text, payload = transactions(Record(42, 1, key, value))
    assert text.startswith(said)
    assert payload is None


@examples(200)
@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_text(key: bytes | None, value: bytes | None) -> None:
    for version in (None, 0, 1, 2):
        prefixed = key if version is None or key is None else version.to_bytes(2, "big") + key
        offsets(Record(1, 1, prefixed, value))
        transactions(Record(1, 1, prefixed, value))
