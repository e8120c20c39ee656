"""kill -9 of whoever matters while a retrying idempotent producer writes: every record is there, once and in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers import Broker, Cluster, running_cluster, wait_until

SETTINGS = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
TOPIC = "t"
Killed = Callable[[Cluster], set[int]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def _create(cluster: Cluster, leader: int) -> None:
    replicas = [leader, *(i for i in cluster.brokers if i != leader)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[replicas])])[TOPIC].result(20)
    cluster.wait_state(TOPIC, 0, leader=leader, isr=set(cluster.brokers))


class Writer:
    """Sends numbered values, never more than a few ahead, until told to stop; an error fails the test."""

    def __init__(self, cluster: Cluster) -> None:
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
                "message.timeout.ms": 60000,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.sent - len(self.acknowledged) < 50 and not self.errors:
                self._producer.produce(TOPIC, b"%d" % self.sent, partition=0, on_delivery=self._on_delivery)
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

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.errors


def _read(cluster: Cluster, count: int) -> list[int]:
    """All values of the partition from its start; at least `count`."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)
        assert end >= count
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[int] = []
        while len(values) < end:
            messages = consumer.consume(end - len(values), timeout=20)
            assert messages, f"{len(values)} of {end} came"
            for message in messages:
                value = message.value()
                assert message.error() is None
                assert value is not None
                values.append(int(value))
        return values
    finally:
        consumer.close()


def _leader(cluster: Cluster) -> int:
    state = cluster.state(TOPIC, 0)
    assert state is not None
    assert isinstance(state["leader"], int)
    return state["leader"]


@pytest.mark.parametrize("victim", ["leader", "controller", "leader-and-controller-in-one", "leader-then-controller"])
def test_killed_brokers_cost_no_acknowledged_record_and_no_duplicate(cluster: Cluster, victim: str) -> None:
    controller = cluster.controller()
    assert controller is not None
    others = [i for i in cluster.brokers if i != controller]
    _create(cluster, controller if victim == "leader-and-controller-in-one" else others[0])
    writer = Writer(cluster)
    try:
        writer.wait_for_more(100)
        victims = {
            "leader": [others[0]],
            "controller": [controller],
            "leader-and-controller-in-one": [controller],
            "leader-then-controller": [others[0], controller],
        }[victim]
        for broker in victims:
            cluster.brokers[broker].kill()
            if broker != victims[-1]:
                # One after the other: two dead of three would be below min ISR.
                cluster.brokers[broker].start()
                cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
                writer.wait_for_more(20)
        writer.wait_for_more(100)
        cluster.brokers[victims[-1]].start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        writer.wait_for_more(20)
    finally:
        writer.stop()
    assert sorted(writer.acknowledged) == list(range(writer.sent))
    values = _read(cluster, writer.sent)
    assert values == list(range(writer.sent)), "each once, in the order sent"
    assert [writer.acknowledged[value] for value in values] == list(range(writer.sent))


def test_all_brokers_killed_at_once_cost_no_acknowledged_record(cluster: Cluster) -> None:
    _create(cluster, 1)
    writer = Writer(cluster)
    try:
        writer.wait_for_more(200)
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        writer.wait_for_more(50)
    finally:
        writer.stop()
    assert _read(cluster, writer.sent) == list(range(writer.sent))


def test_broker_killed_and_started_within_its_session_is_back_at_once_and_leads_under_no_old_epoch(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "60000"}
    with running_cluster(tmp_path, settings=settings) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        leader = next(i for i in cluster.brokers if i != cluster.controller())
        _create(cluster, leader)
        writer = Writer(cluster)
        try:
            writer.wait_for_more(50)
            broker = cluster.brokers[leader]
            path = f"/brokers/ids/{leader}"
            before = cluster.zk.get(path)[1].czxid
            broker.kill()
            started = time.monotonic()
            assert cluster.zk.exists(path), "the old session still has its time"
            broker.start()

            def again() -> bool:
                stat = cluster.zk.exists(path)
                return stat is not None and stat.czxid != before

            wait_until(again, lambda: broker.output)
            cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
            assert time.monotonic() - started < 30, "half of the old session's time-out"
            writer.wait_for_more(50)
        finally:
            writer.stop()
        assert _read(cluster, writer.sent) == list(range(writer.sent))
        lives: dict[object, list[int]] = {}
        for event in broker.events():
            lives.setdefault(event["i"], [])
            if event["e"] == "become_leader":
                lives[event["i"]].append(event["le"])  # type: ignore[arg-type]
        first, second = lives.values()
        assert first
        assert all(epoch > max(first) for epoch in second)


def test_leaders_stand_still_while_zookeeper_is_away_for_long_and_go_on_when_it_is_back(cluster: Cluster) -> None:
    _create(cluster, 1)
    writer = Writer(cluster)
    try:
        writer.wait_for_more(50)
        cluster.zookeeper.kill()
        leader = cluster.brokers[1]
        wait_until(lambda: "session deadline passed: True" in leader.output, lambda: leader.output)
        end = _end_offset(leader)
        assert len(_read(cluster, end)) == end, "reads go on"
        assert _end_offset(leader) == end, "nothing is committed"
        cluster.zookeeper.start()
        writer.wait_for_more(50)
    finally:
        writer.stop()
    assert _read(cluster, writer.sent) == list(range(writer.sent))


def _end_offset(broker: Broker) -> int:
    """The watermark that the broker's clients see."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "unused", "enable.auto.commit": False})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1])
    finally:
        consumer.close()
