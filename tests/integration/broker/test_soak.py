"""Ten minutes of high load on three brokers: neither memory nor descriptors grow.

HIGHWATER_SOAK_SECONDS sets another length.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers import Cluster, running_cluster
from tests.support.raw_client import descriptors, resident_kib

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("HIGHWATER_SOAK_SECONDS", "600"))
TOPIC = "soak"
PARTITIONS = 6
_IDLE_FRACTION = 0.2  # of the producer's time: 80 % load
_SAMPLES = 60
_GROWTH_KIB_MAX = 8 * 1024
_DESCRIPTORS_GROWTH_MAX = 20  # segments roll and go, connections come


class Load:
    """A producer with acks=all and a consumer that reads all of it, each on a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._stop = threading.Event()
        self.delivered = 0
        self.consumed = 0
        self.errors: list[object] = []
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)
        self.delivered += 1

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 2, "enable.idempotence": True})
        value = os.urandom(1000)
        while not self._stop.is_set():
            busy_since = time.monotonic()
            for number in range(2000):
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)
            producer.flush(60)
            busy_s = time.monotonic() - busy_since
            time.sleep(busy_s * _IDLE_FRACTION / (1 - _IDLE_FRACTION))
        producer.flush(60)

    def _consume(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        while not self._stop.is_set() or self.consumed < self.delivered:
            messages = consumer.consume(1000, timeout=5)
            self.errors += [message.error() for message in messages if message.error() is not None]
            self.consumed += len(messages)
            if not messages and self._stop.is_set():
                break
        consumer.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_high_load_for_long_grows_neither_memory_nor_descriptors(tmp_path: Path) -> None:
    settings = {
        "log.segment.bytes": str(32 << 20),
        "log.retention.bytes": str(64 << 20),
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }
    with running_cluster(tmp_path, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(20)
        for partition in range(PARTITIONS):
            cluster.wait_state(TOPIC, partition, isr=set(cluster.brokers))
        pids = {i: broker.process.pid for i, broker in cluster.brokers.items() if broker.process is not None}
        memory: dict[int, list[int]] = {i: [] for i in pids}
        opened: dict[int, list[int]] = {i: [] for i in pids}
        load = Load(cluster)
        try:
            for _ in range(_SAMPLES):
                time.sleep(SECONDS / _SAMPLES)
                for i, pid in pids.items():
                    memory[i].append(resident_kib(pid))
                    opened[i].append(descriptors(pid))
        finally:
            load.stop()
        assert not load.errors, load.errors[:3]
        assert load.delivered > 0
        # The start of the load fills caches: the first quarter is no measure.
        for i in pids:
            early, late = slice(_SAMPLES // 4, _SAMPLES // 2), slice(-_SAMPLES // 4, None)
            grown = statistics.median(memory[i][late]) - statistics.median(memory[i][early])
            assert grown < _GROWTH_KIB_MAX, f"broker {i}: {grown} KiB more: {memory[i]}"
            more = statistics.median(opened[i][late]) - statistics.median(opened[i][early])
            assert more <= _DESCRIPTORS_GROWTH_MAX, f"broker {i}: {opened[i]}"
        print(
            f"\n{load.delivered} records in {SECONDS:.0f} s ({load.delivered / SECONDS:.0f}/s), {load.consumed} read; "
            f"memory {memory}, descriptors {opened}"
        )
