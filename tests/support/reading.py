"""All that a reader finds in a topic, up to the ends that it is told."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.brokers import Cluster
from tests.support.wait import eventually
from tests.support.watermarks import watermarks


def read_values(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    """Values from every partition's first offset to its end: for read_committed once no transaction is open."""
    settings = {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "isolation.level": isolation, **settings}
    )
    try:
        partitions = sorted(consumer.list_topics(topic, 20).topics[topic].partitions)
        if isolation == "read_committed":
            eventually(lambda: all(_is_stable(cluster, topic, partition) for partition in partitions), "all is decided")
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[str] = []
        ended: set[int] = set()
        while ended != set(partitions):
            message = consumer.poll(30)
            assert message is not None, f"nothing more after {len(found)} values"
            partition, value = message.partition(), message.value()
            assert partition is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
            else:
                found.append((value or b"").decode())
        return found
    finally:
        consumer.close()


def stable_end(cluster: Cluster, topic: str, partition: int) -> int:
    """Up to where committed records are read."""
    return _end(cluster, topic, partition, "read_committed")


def _is_stable(cluster: Cluster, topic: str, partition: int) -> bool:
    """Whether no transaction is open: committed records are read up to the high watermark."""
    return stable_end(cluster, topic, partition) == _end(cluster, topic, partition, "read_uncommitted")


def _end(cluster: Cluster, topic: str, partition: int, isolation: str) -> int:
    settings = {"group.id": "unused", "isolation.level": isolation, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    try:
        return watermarks(consumer, topic, partition)[1]
    finally:
        consumer.close()
