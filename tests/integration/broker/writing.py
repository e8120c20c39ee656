"""A retrying idempotent producer in the background, and a look at everything that a partition holds."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Broker, Cluster, wait_until
from tests.support.watermarks import watermarks

TOPIC = "t"


def known_by(broker: Broker) -> int:
    """How many brokers its metadata lists."""
    return len(AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=20).brokers)


def create(cluster: Cluster, leader: int, topic: str = TOPIC) -> None:
    """The topic, with one partition on all brokers; returns when all are in sync, and its leader leads."""
    running = [broker for broker in cluster.brokers.values() if broker.process is not None]
    wait_until(lambda: all(known_by(broker) == len(running) for broker in running), "the brokers in all metadata", 60)
    replicas = [leader, *(i for i in cluster.brokers if i != leader)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(20)
    cluster.wait_state(topic, 0, leader=leader, isr=set(cluster.brokers))
    # The state is written before its leader hears of it, and has a log.
    cluster.wait_told(topic)


class Writer:
    """Sends numbered values, never more than a few ahead, until told to stop; an error fails the test."""

    def __init__(self, cluster: Cluster, topic: str = TOPIC, patience_ms: int = 60_000, value_bytes: int = 0) -> None:
        """patience_ms: after so much a record that is not acknowledged is an error. value_bytes: at least so long."""
        self._topic = topic
        self._value_bytes = value_bytes
        self.acknowledged: dict[int, int] = {}
        """Offset by number."""
        self.errors: list[KafkaError] = []
        self.sent = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 5,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 3000,
                "message.timeout.ms": patience_ms,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.sent - len(self.acknowledged) < 50 and not self.errors:
                value = (b"%d" % self.sent).ljust(self._value_bytes)
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
                self.sent += 1
            self._producer.poll(0.001)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        self.acknowledged[int(value)] = offset

    def wait_for_more(self, count: int) -> None:
        """Until so many more are acknowledged."""
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal or bool(self.errors), "acknowledgements", 60)
        assert not self.errors

    def abandon(self) -> None:
        """Stop sending, and give up what is not acknowledged."""
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(10)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.errors


def read(cluster: Cluster, count: int, skip: bytes | None = None, topic: str = TOPIC) -> list[int]:
    """All values of the partition from its start, but those equal to skip; it has at least `count`."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        _, end = watermarks(consumer, topic)
        assert end >= count
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while len(values) < end:
            messages = consumer.consume(end - len(values), timeout=20)
            assert messages, f"{len(values)} of {end} came"
            for message in messages:
                value = message.value()
                assert message.error() is None
                assert value is not None
                values.append(value)
        return [int(value) for value in values if value != skip]
    finally:
        consumer.close()


def end_offset(broker: Broker) -> int:
    """The watermark that the broker's clients see."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused", "enable.auto.commit": False})
    try:
        return watermarks(consumer, TOPIC)[1]
    finally:
        consumer.close()
