"""Records of coordinators: ours as Kafka's DumpLogSegments reads them, and those of a real Kafka broker as we do."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

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
from tests.interop.log.test_dump_beside_kafkas import both, theirs
from tests.property.log.log_tools import TP, Clock, open_log, open_store
from tests.support.dump import Dumped, dump, segment_files
from tests.support.kafka_brokers import kafka_brokers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.guarantee("L1")]

OFFSETS, TRANSACTIONS = "--offsets-decoder", "--transaction-log-decoder"
_PARTITIONS = re.compile(r"partitions=\[(.*?)\]")


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


def _use_groups(bootstrap: str) -> None:
    """Two members share a topic, commit with metadata and go: one leaves, the static one stays a member."""
    consumers = [
        Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **more})
        for more in ({"client.id": "one"}, {"client.id": "two", "group.instance.id": "static"})
    ]
    for consumer in consumers:
        consumer.subscribe(["t"])
    seen = 0
    deadline = time.monotonic() + 60
    while seen < 40 or not all(consumer.assignment() for consumer in consumers):
        seen += sum(len(consumer.consume(20, 0.2)) for consumer in consumers)
        assert time.monotonic() < deadline, f"{seen} records read"
    for consumer in consumers:
        consumer.commit(
            offsets=[
                TopicPartition("t", one.partition, 5, metadata="wörter", leader_epoch=0)
                for one in consumer.assignment()
            ],
            asynchronous=False,
        )
        consumer.close()


def _transact(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    producer.init_transactions(60)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "h"})
    for number in range(3):
        producer.begin_transaction()
        for n in range(4):
            producer.produce("t", b"v", partition=n % 2)
        offsets = [TopicPartition("t", 1, number)]
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 60)
        if number == 1:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    reader.close()


def _sorted_sets(lines: Sequence[str]) -> list[str]:
    """A transaction's partitions are a set, which Kafka prints in the order of its hashes."""
    return [_PARTITIONS.sub(lambda found: "partitions=" + str(sorted(found[1].split(","))), line) for line in lines]


def _both_of_sets(classpath: str, files: list[Path]) -> Dumped:
    ours, kafkas = dump(files, TRANSACTIONS), theirs(classpath, files, TRANSACTIONS)
    assert _sorted_sets(ours.out) == _sorted_sets(kafkas.out)
    return ours


def test_we_say_of_a_real_kafka_brokers_coordinators_what_kafka_says(tmp_path: Path, classpath: str) -> None:
    with kafka_brokers(tmp_path, 1) as (_, (broker,)):
        admin = AdminClient({"bootstrap.servers": broker.address})
        for made in admin.create_topics([NewTopic("t", 2, 1)]).values():
            made.result(60)
        producer = Producer({"bootstrap.servers": broker.address})
        for n in range(40):
            producer.produce("t", b"v%d" % n, partition=n % 2)
        assert producer.flush(60) == 0
        _use_groups(broker.address)
        _transact(broker.address)
        broker.daemon.stop()
        offsets = segment_files(broker.data / "__consumer_offsets-0", ".log")
        ours, _ = both(classpath, offsets, OFFSETS)
        text = "\n".join(ours.out)
        assert ours.code == 0
        assert not any("skipping" in line for line in ours.out)
        for part in ('"metadata":"wörter', '"groupInstanceId":"static"', '"assignedPartitions":[{"topic":"t"'):
            assert part in text
        states = _both_of_sets(classpath, segment_files(broker.data / "__transaction_state-0", ".log"))
        assert states.code == 0
        for state in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"):
            assert f"state={state}," in "\n".join(states.out)
        assert "partitions=[]" in "\n".join(states.out)
