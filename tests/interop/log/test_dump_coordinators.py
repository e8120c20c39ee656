"""Records of coordinators, in every version: Kafka's DumpLogSegments says of them what ours says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.wire.coordinator_records.batches import TransactionalProducer, coordinator_batch
from broker.wire.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
)
from broker.wire.coordinator_records.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker.wire.coordinator_records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    TransactionStatus,
)
from broker.wire.records import NewRecord
from tests.interop.log.test_dump_beside_kafkas import both
from tests.property.log.log_tools import TP, Clock, open_log, open_store
from tests.support.dump import segment_files

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.guarantee("L1")]

OFFSETS, TRANSACTIONS = "--offsets-decoder", "--transaction-log-decoder"


def _written(path: Path, batches: Sequence[bytes]) -> list[Path]:
    store = open_store(str(path), Clock(), {"segment.bytes": "1000000"})
    log = open_log(store)
    for data in batches:
        log.append_as_leader(memoryview(bytearray(data)), 0)
        log.write()
    store.close(clean=True)
    return segment_files(path / str(TP), ".log")


def _offsets_of_every_version() -> list[NewRecord]:
    commit = OffsetCommitValue(2**40, 3, 'née "x"\\\x01\n\x1f', 1_700_000_000_000)
    key = OffsetCommitKey("gruppe-ä", "t", 7)
    records = [NewRecord(key.encode(version), None) for version in (0, 1)]
    records += [NewRecord(key.encode(), commit.encode(version)) for version in (0, 1, 2, 3, 4)]
    return [*records, NewRecord(key.encode(), OffsetCommitValue(5, -1, "", 1, 2).encode())]


def _groups_of_every_version() -> list[NewRecord]:
    owned = [OwnedPartitions("t", [0, 2])]
    group_key = GroupMetadataKey("g").encode()
    records = [NewRecord(group_key, None)]
    for version in range(4):
        subscription = ConsumerProtocolSubscription(["t", "u"], b"\1", owned, 4, "r").encode(version)
        assignment = ConsumerProtocolAssignment(owned, None).encode(version)
        member = MemberMetadata("m", "i", "c", "/10.0.0.1", 300, 10, subscription, assignment)
        for kind, protocol, members in (("consumer", "range", [member]), ("", None, []), ("connect", "p", [member])):
            value = GroupMetadataValue(kind, 5, protocol, "m" if members else None, 1000, members)
            records += [NewRecord(group_key, value.encode(of)) for of in range(GroupMetadataValue.LAST + 1)]
    return records


def _transactions_of_every_version() -> list[NewRecord]:
    key = TransactionLogKey("meine-ü").encode()
    records = [NewRecord(key, None)]
    for status in TransactionStatus:
        partitions = None if status is TransactionStatus.EMPTY else [TransactionPartitions("t", [3])]
        value = TransactionLogValue(2**40, 7, 60_000, status, partitions, 1001, 1000)
        records += [NewRecord(key, value.encode(version)) for version in (0, 1)]
    return records


def test_kafka_says_of_our_offsets_and_groups_what_we_say(tmp_path: Path, classpath: str) -> None:
    records = [*_offsets_of_every_version(), *_groups_of_every_version()]
    batches = [
        coordinator_batch(records, 1234),
        coordinator_batch(records[:3], 1235, transaction=TransactionalProducer(9, 2)),
    ]
    ours, _ = both(classpath, _written(tmp_path, batches), OFFSETS)
    assert ours.code == 0
    assert len(ours.records) == len(records) + 3
    assert not any("skipping" in line for line in ours.out)


def test_kafka_says_of_our_transactions_what_we_say(tmp_path: Path, classpath: str) -> None:
    records = _transactions_of_every_version()
    ours, _ = both(classpath, _written(tmp_path, [coordinator_batch(records, 1234)]), TRANSACTIONS)
    assert (ours.code, len(ours.records)) == (0, len(records))
    assert sum("state=PrepareEpochFence" in line for line in ours.out) == 2


def test_records_that_no_coordinator_of_classic_groups_knows_are_told_apart_as_kafka_does(
    tmp_path: Path, classpath: str
) -> None:
    records = [NewRecord(b"\x03\xe7\0\1g", b"\0\0")]
    both(classpath, _written(tmp_path / "offsets", [coordinator_batch(records, 1)]), OFFSETS)
    both(classpath, _written(tmp_path / "transactions", [coordinator_batch(records, 1)]), TRANSACTIONS)
