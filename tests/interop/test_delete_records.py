"""DeleteRecords from real admin clients, against three brokers, and what other clients then see."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.brokers import Cluster, wait_until

pytestmark = pytest.mark.guarantee("L3", "K1")

COUNT = 100


def _topic(cluster: Cluster, **config: str) -> str:
    name = f"d-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 2, 3, config=named)])[name].result(20)
    cluster.wait_told(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 10})
    for partition in (0, 1):
        cluster.wait_state(name, partition, isr={1, 2, 3})
        for number in range(COUNT):
            producer.produce(name, b"%d" % number, b"key", partition=partition)
    assert producer.flush(30) == 0
    return name


def _low(cluster: Cluster, topic: str, partition: int) -> int:
    """The start offset. Asked again as a Java client does: a broker may tell of a leader before that one knows."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = TopicPartition(topic, partition)
    told: list[int] = []

    def answered() -> bool:
        try:
            first: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
            told.append(admin.list_offsets({asked: first})[asked].result(20).offset)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_LEADER_EPOCH:
                raise
        return bool(told)

    wait_until(answered, f"the start of {topic}-{partition}")
    return told[0]


def test_confluent_deletes_up_to_an_offset_and_to_the_end(cluster: Cluster) -> None:
    topic = _topic(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = [TopicPartition(topic, 0, 42), TopicPartition(topic, 1, -1)]
    done = {found.partition: future.result(20) for found, future in admin.delete_records(asked).items()}
    assert {partition: result.low_watermark for partition, result in done.items()} == {0: 42, 1: COUNT}
    assert [_low(cluster, topic, partition) for partition in (0, 1)] == [42, COUNT]


def test_confluent_sees_what_cannot_be_deleted(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = _topic(cluster)
    compacted = _topic(cluster, cleanup_policy="compact")
    for partition, code in (
        (TopicPartition(topic, 0, COUNT + 1), KafkaError.OFFSET_OUT_OF_RANGE),
        (TopicPartition(compacted, 0, 1), KafkaError.POLICY_VIOLATION),
    ):
        [future] = admin.delete_records([partition]).values()
        with pytest.raises(KafkaException) as caught:
            future.result(20)
        assert caught.value.args[0].code() == code
    assert _low(cluster, topic, 0) == _low(cluster, compacted, 0) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_deletes_and_consumers_begin_behind(cluster: Cluster) -> None:
    import kafka
    from kafka.admin import KafkaAdminClient

    topic = _topic(cluster)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.delete_records({kafka.TopicPartition(topic, 0): 42})
    finally:
        admin.close()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        # Below the log start is out of range: the client falls back to the earliest.
        consumer.assign([TopicPartition(topic, 0, 5)])
        messages = consumer.consume(COUNT - 42, timeout=20)
        assert [message.offset() for message in messages] == list(range(42, COUNT))
    finally:
        consumer.close()


def test_deletion_outlives_its_leader_and_a_restart_of_all(cluster: Cluster) -> None:
    topic = _topic(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    [future] = admin.delete_records([TopicPartition(topic, 0, 42)]).values()
    future.result(20)
    state = cluster.state(topic, 0)
    assert state is not None
    leader = cluster.brokers[int(str(state["leader"]))]
    leader.kill()
    cluster.wait_state(topic, 0, isr={1, 2, 3} - {leader.broker_id})
    cluster.wait_told(topic)
    assert _low(cluster, topic, 0) == 42
    leader.start()
    cluster.wait_state(topic, 0, isr={1, 2, 3})

    def checkpointed(path: Path) -> bool:
        return path.exists() and f"{topic} 0 42" in path.read_text()

    # The starts are checkpointed within a second or so.
    for broker in cluster.brokers.values():
        path = broker.folder / "data" / "log-start-offset-checkpoint"
        wait_until(partial(checkpointed, path), f"the deletion is in {path}")
    for broker in cluster.brokers.values():
        broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    cluster.wait_state(topic, 0, isr={1, 2, 3})
    cluster.wait_told(topic)
    assert _low(cluster, topic, 0) == 42
