"""Real clients, unchanged, against three brokers: what they send comes back, from every partition and in order."""

from __future__ import annotations

import uuid
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.support.brokers import Cluster, wait_until

pytestmark = pytest.mark.guarantee("C7", "C8", "K1", "idempotent-producers")

COUNT = 600
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def _topic(cluster: Cluster, partitions: int = 3) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})])[name].result(20)
    cluster.wait_told(name)
    return name


def _confluent_send(cluster: Cluster, topic: str, count: int = COUNT, **extra: object) -> dict[int, list[bytes]]:
    sent: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            errors.append(error)
        else:
            sent[message.partition()].append((message.offset(), message.value()))  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, **extra})
    for i in range(count):
        producer.produce(topic, f"value-{i}".encode(), partition=i % 3, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not errors
    return {partition: [value for _, value in sorted(pairs)] for partition, pairs in sent.items()}


def _confluent_read(cluster: Cluster, topic: str, count: int = COUNT) -> dict[int, list[bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(3)])
    got: dict[int, list[bytes]] = defaultdict(list)
    try:
        while sum(map(len, got.values())) < count:
            messages = consumer.consume(count - sum(map(len, got.values())), timeout=20)
            assert messages, f"only {sum(map(len, got.values()))} of {count} arrived"
            for message in messages:
                assert message.error() is None
                partition, value = message.partition(), message.value()
                assert partition is not None
                assert value is not None
                got[partition].append(value)
    finally:
        consumer.close()
    return dict(got)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_confluent_records_sent_with_acks_all_come_back_in_order(
    cluster: Cluster, compression: str, idempotent: bool
) -> None:
    topic = _topic(cluster)
    sent = _confluent_send(cluster, topic, COUNT, **{"compression.type": compression, "enable.idempotence": idempotent})
    assert sum(map(len, sent.values())) == COUNT
    assert _confluent_read(cluster, topic) == sent


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("idempotent", [False, True])
def test_kafka_python_records_sent_with_acks_all_come_back_in_order(cluster: Cluster, idempotent: bool) -> None:
    import kafka

    topic = _topic(cluster)
    servers = cluster.bootstrap.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=idempotent)
    futures = [producer.send(topic, f"value-{i}".encode(), partition=i % 3) for i in range(COUNT)]
    producer.flush(30)
    offsets = [(future.get(10).partition, future.get(10).offset) for future in futures]
    producer.close()
    expected = {(p, o): f"value-{i}".encode() for i, (p, o) in enumerate(offsets)}
    assert len(expected) == COUNT

    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, consumer_timeout_ms=20_000, enable_auto_commit=False)
    partitions = [kafka.TopicPartition(topic, p) for p in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    got: dict[tuple[int, int], bytes] = {}
    while len(got) < COUNT:
        batch = consumer.poll(timeout_ms=10_000)
        assert batch, f"only {len(got)} of {COUNT} arrived"
        got.update({(r.partition, r.offset): r.value for records in batch.values() for r in records})
    consumer.close()
    assert got == expected


def test_records_of_one_client_are_read_by_the_other(cluster: Cluster) -> None:
    import kafka

    topic = _topic(cluster)
    sent = _confluent_send(cluster, topic)
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), enable_auto_commit=False)
    partitions = [kafka.TopicPartition(topic, p) for p in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    got: dict[int, list[bytes]] = defaultdict(list)
    while sum(map(len, got.values())) < COUNT:
        batch = consumer.poll(timeout_ms=10_000)
        assert batch
        for partition, records in batch.items():
            got[partition.partition] += [record.value for record in records]
    consumer.close()
    assert dict(got) == sent


def test_offsets_for_times_and_watermarks_are_what_was_written(cluster: Cluster) -> None:
    topic = _topic(cluster)
    sent = _confluent_send(cluster, topic)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        for partition in range(3):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            assert (low, high) == (0, len(sent[partition]))
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1)], timeout=10)
        assert found.offset == 0
    finally:
        consumer.close()


def test_topic_is_described_configured_and_deleted_by_the_admin_client(cluster: Cluster) -> None:
    topic = _topic(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def isrs() -> dict[int, list[int]]:
        described = admin.list_topics(topic, timeout=10).topics[topic]
        return {p: sorted(m.isrs) for p, m in described.partitions.items()}

    # The controller's broker has answered; the others hear of the topic in their own time.
    wait_until(lambda: isrs() == {p: [1, 2, 3] for p in range(3)}, lambda: f"every ISR is whole: {isrs()}")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["min.insync.replicas"].value == "2"
    admin.delete_topics([topic])[topic].result(20)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone everywhere")


def test_topic_with_more_replicas_than_brokers_is_refused_with_kafkas_error(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with pytest.raises(Exception, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topics([NewTopic("too-many", 1, 5)])["too-many"].result(20)
