"""Real clients on topics with the leader's time or a codec of their own: values, times, equal bytes on all brokers."""

from __future__ import annotations

import time
import uuid
import warnings
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from broker.wire.compression import Compression
from broker.wire.record_batch import BatchHeader, iter_batches
from tests.support.brokers import Cluster, wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.guarantee("L4", "K1")]

COUNT = 60
SENT_MS = 1_500_000_000_000


def _topic(cluster: Cluster, **config: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 3, config=settings)])[name].result(20)
    cluster.wait_told(name)
    return name


def _send(cluster: Cluster, topic: str, **more: object) -> list[tuple[int, tuple[int, int]]]:
    """(offset, (type, time)) of each record, as the producer is told."""
    told: list[tuple[int, tuple[int, int]]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        told.append((offset, message.timestamp()))

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20, "enable.idempotence": True, **more}
    )
    for n in range(COUNT):
        producer.produce(topic, b"value-%d" % n * 20, b"k", 0, delivered, timestamp=SENT_MS + n)
    assert producer.flush(30) == 0
    return sorted(told)


def _read(cluster: Cluster, topic: str) -> list[tuple[bytes, tuple[int, int]]]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[tuple[bytes, tuple[int, int]]] = []
    try:
        while len(got) < COUNT:
            messages = consumer.consume(COUNT - len(got), timeout=20)
            assert messages, f"only {len(got)} of {COUNT} arrived"
            for message in messages:
                assert message.error() is None
                value = message.value()
                assert value is not None
                got.append((value, message.timestamp()))
    finally:
        consumer.close()
    return got


def _segments(cluster: Cluster, topic: str) -> list[bytes]:
    """The partition's bytes on each broker."""
    found = []
    for broker in cluster.brokers.values():
        home = Path(broker.folder, "data", f"{topic}-0")
        found.append(b"".join(path.read_bytes() for path in sorted(home.glob("*.log"))))
    return found


def _headers(cluster: Cluster, topic: str) -> list[BatchHeader]:
    """Of the batches, once they are byte for byte the same on all brokers."""
    wait_until(lambda: len(set(_segments(cluster, topic))) == 1, "the brokers hold the same bytes")
    return [header for _, header in iter_batches(memoryview(_segments(cluster, topic)[0]), verify_crc=True)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_append_time_is_what_producer_consumer_and_lookups_see(cluster: Cluster, compression: str) -> None:
    topic = _topic(cluster, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    told = _send(cluster, topic, **{"compression.type": compression})
    after_ms = time.time_ns() // 1_000_000
    got = _read(cluster, topic)
    assert [value for value, _ in got] == [b"value-%d" % n * 20 for n in range(COUNT)]
    assert {kind for _, (kind, _) in got} == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(before_ms <= at <= after_ms for _, (_, at) in got)
    assert [stamp for _, stamp in told] == [stamp for _, stamp in got]
    assert all(header.is_log_append_time for header in _headers(cluster, topic))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        first, none = (
            consumer.offsets_for_times([TopicPartition(topic, 0, at)], timeout=10)[0].offset
            for at in (SENT_MS + COUNT, after_ms + 1)
        )
    finally:
        consumer.close()
    assert (first, none) == (0, -1)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *(("none", target) for target in ("uncompressed", "gzip", "snappy", "lz4", "zstd")),
        *((source, "uncompressed") for source in ("gzip", "snappy", "lz4", "zstd")),
        ("zstd", "lz4"),
        ("lz4", "snappy"),
    ],
)
def test_records_come_back_from_the_codec_of_the_topic(cluster: Cluster, source: str, target: str) -> None:
    topic = _topic(cluster, compression_type=target)
    _send(cluster, topic, **{"compression.type": source})
    codec = Compression.NONE if target == "uncompressed" else Compression[target.upper()]
    assert {header.compression for header in _headers(cluster, topic)} == {codec}
    expected = [(b"value-%d" % n * 20, (TIMESTAMP_CREATE_TIME, SENT_MS + n)) for n in range(COUNT)]
    assert _read(cluster, topic) == expected
    if target in ("uncompressed", "gzip"):
        _check_kafka_python(cluster, topic)


def _check_kafka_python(cluster: Cluster, topic: str) -> None:
    """The other client; it brings no codec but gzip."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), enable_auto_commit=False)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    values: list[bytes] = []
    try:
        while len(values) < COUNT:
            batch = consumer.poll(timeout_ms=20_000)
            assert batch, f"only {len(values)} of {COUNT} arrived"
            values += [record.value for record in batch[partition]]
    finally:
        consumer.close()
    assert values == [b"value-%d" % n * 20 for n in range(COUNT)]


def test_settings_are_altered_described_and_refused_by_name(cluster: Cluster) -> None:
    topic = _topic(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def alter(name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(20)

    def stamps() -> set[int]:
        return {header.attributes & 0x0F for header in _headers(cluster, topic)[-1:]}

    alter("compression.type", "lz4")
    alter("message.timestamp.type", "LogAppendTime")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(10)
    assert (described["compression.type"].value, described["message.timestamp.type"].value) == ("lz4", "LogAppendTime")
    assert described["compression.lz4.level"].value == "9"

    def taken_up() -> bool:
        _send(cluster, topic)
        return stamps() == {Compression.LZ4 | 0x08}

    wait_until(taken_up, "the leader has taken up both settings")
    for name, value in (("compression.type", "brotli"), ("compression.gzip.level", "0")):
        with pytest.raises(KafkaException, match=name) as refused:
            alter(name, value)
        assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
