"""Settings that change at run time take hold in the logs and the leaders of every broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from broker.wire.list_offsets_timestamps import EARLIEST
from harness.clients.connection import Address, Connection
from harness.clients.fetch_session import FetchSession, Wanted
from harness.clients.requests import list_offset
from tests.integration.admin.asking import (
    GAP_MAX_S,
    SETTINGS,
    create_topic,
    fill,
    log_folder,
    longest_gap_s,
    set_config,
    set_for_all_brokers,
)
from tests.integration.broker.writing import Writer, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.guarantee("R5", "C6", "L3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {**SETTINGS, "log.retention.check.interval.ms": "200"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def segments(cluster: Cluster, topic: str) -> list[int]:
    """Segments per broker."""
    return [len(list(log_folder(cluster, broker, topic).glob("*.log"))) for broker in cluster.brokers]


def test_segments_and_retention_follow_the_topic_on_every_broker(cluster: Cluster) -> None:
    create_topic(cluster, "rolled", [[1, 2, 3]])
    fill(cluster, "rolled", 20)
    assert segments(cluster, "rolled") == [1, 1, 1]
    set_config(cluster, ResourceType.TOPIC, "rolled", segment_bytes="30000")

    def rolls() -> bool:
        fill(cluster, "rolled", 10)
        return all(count > 3 for count in segments(cluster, "rolled"))

    wait_until(rolls, lambda: f"several segments each, are {segments(cluster, 'rolled')}")
    with idle_consumer(cluster, "rolled") as starts:
        assert [starts() for _ in range(3)] == [(0, 0)] * 3
        set_config(cluster, ResourceType.TOPIC, "rolled", retention_bytes="60000")

        def both_know() -> bool:
            listed, told = starts()
            assert told >= listed, "a session leaves a partition out of which nothing has changed"
            return told > 0

        wait_until(both_know, "the log begins later, for a consumer to whom nothing else is sent, too")
    wait_until(
        lambda: all(count <= 4 for count in segments(cluster, "rolled")),
        lambda: f"few segments each, are {segments(cluster, 'rolled')}",
    )


@contextmanager
def idle_consumer(cluster: Cluster, topic: str) -> Iterator[Callable[[], tuple[int, int]]]:
    """Asks where partition 0 begins: (by ListOffsets, by the request after that in a fetch session, at the end)."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    _, end = watermarks(consumer, topic)
    consumer.close()
    host, port = cluster.brokers[1].address.rsplit(":", 1)
    connection = Connection(Address(host, int(port)), "idle")
    session = FetchSession(topic)

    def starts() -> tuple[int, int]:
        deadline_ns = time.monotonic_ns() + 10_000_000_000
        connection.connect(deadline_ns)
        listed = list_offset(
            connection, topic, 0, timestamp=EARLIEST, isolation=0, leader_epoch=-1, deadline_ns=deadline_ns
        )
        assert listed.error is None
        polled = session.poll(
            connection, {0: Wanted(end, -1)}, isolation=0, max_wait_ms=0, max_bytes=1000, deadline_ns=deadline_ns
        )[0]
        assert (polled.error, polled.records) == (None, [])
        return listed.offset, polled.log_start

    try:
        yield starts
    finally:
        connection.close()


def test_default_of_all_brokers_follows_too_but_for_topics_with_their_own(cluster: Cluster) -> None:
    create_topic(cluster, "common", [[1, 2, 3]])
    create_topic(cluster, "own", [[1, 2, 3]], segment_bytes="1000000")
    set_for_all_brokers(cluster, "log.segment.bytes", "30000")

    def rolls() -> bool:
        fill(cluster, "common", 10)
        fill(cluster, "own", 10)
        return all(count > 3 for count in segments(cluster, "common"))

    wait_until(rolls, lambda: f"several segments each, are {segments(cluster, 'common')}")
    assert segments(cluster, "own") == [1, 1, 1]
    set_for_all_brokers(cluster, "log.segment.bytes", None)


def test_partitions_and_settings_change_under_a_producer_that_notices_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(cluster, "busy", [[1, 2, 3]])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    writer = Writer(cluster, "busy")
    try:
        writer.wait_for_more(100)
        admin.create_partitions([NewPartitions("busy", 4)])["busy"].result(20)
        for partition in range(1, 4):
            cluster.wait_state("busy", partition, isr={1, 2, 3})
        writer.wait_for_more(100)
        set_config(cluster, ResourceType.TOPIC, "busy", segment_bytes="8000", retention_ms="-1")
        wait_until(
            lambda: all(count > 3 for count in segments(cluster, "busy")),
            lambda: f"several segments each, are {segments(cluster, 'busy')}",
        )
        set_for_all_brokers(cluster, "min.insync.replicas", "3")
        writer.wait_for_more(100)
        set_for_all_brokers(cluster, "min.insync.replicas", None)
        admin.create_topics([NewTopic("beside", 3, 3)])["beside"].result(20)
        admin.delete_topics(["beside"])["beside"].result(20)
        writer.wait_for_more(100)
    finally:
        writer.stop()
    stopped_s = time.time()
    assert read(cluster, writer.sent, topic="busy") == list(range(writer.sent))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for partition in range(4):
        producer.produce("busy", b"0", partition=partition)
    assert producer.flush(30) == 0
    events = [event for broker in cluster.brokers.values() for event in broker.events()]
    gap_s = longest_gap_s(cluster, "busy-0", until_s=stopped_s)
    with capsys.disabled():
        print(f"\nchanges under load: {len(writer.acknowledged)} acknowledgements, at most {gap_s:.2f} s between two")
    assert gap_s < GAP_MAX_S, "no downtime"
    assert not [event for event in events if event["e"] == "election" and event["p"] == "busy-0" and event["le"] != 0]


def test_min_insync_replicas_follows_for_one_topic_and_for_all(cluster: Cluster) -> None:
    create_topic(cluster, "two", [[1, 2]])
    create_topic(cluster, "plain", [[1, 2]])

    def accepts(topic: str) -> bool:
        errors: list[KafkaError | None] = []
        settings = {"acks": "all", "retries": 0, "linger.ms": 0, "request.timeout.ms": 2000, "message.timeout.ms": 4000}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        producer.produce(topic, b"x", partition=0, on_delivery=lambda error, message: errors.append(error))
        assert producer.flush(20) == 0
        # What was appended just before the minimum rose waits in vain.
        refusals = (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.REQUEST_TIMED_OUT, KafkaError._MSG_TIMED_OUT)
        assert errors[0] is None or errors[0].code() in refusals
        return errors[0] is None

    cluster.brokers[2].kill()
    for topic in ("two", "plain"):
        cluster.wait_state(topic, 0, leader=1, isr={1})
        assert not accepts(topic)
    set_config(cluster, ResourceType.TOPIC, "two", min_insync_replicas="1")
    wait_until(lambda: accepts("two"), "one replica is enough for this topic")
    assert not accepts("plain")
    set_for_all_brokers(cluster, "min.insync.replicas", "1")
    wait_until(lambda: accepts("plain"), "one replica is enough for all")
    set_config(cluster, ResourceType.TOPIC, "two", min_insync_replicas="2")
    wait_until(lambda: not accepts("two"), "not for a topic that wants two")
    set_for_all_brokers(cluster, "min.insync.replicas", None)
    cluster.brokers[2].start()
    cluster.wait_state("plain", 0, isr={1, 2})


def test_topic_with_a_setting_of_another_system_can_be_altered_and_keeps_it(cluster: Cluster) -> None:
    create_topic(cluster, "moved", [[1, 2, 3]], message_format_version="2.8", preallocate="false")
    stored = {"message.format.version": "2.8", "preallocate": "true", "no.such": "x"}
    cluster.zk.set("/config/topics/moved", json.dumps({"version": 1, "config": stored}).encode())
    set_config(cluster, ResourceType.TOPIC, "moved", segment_bytes="30000")
    stored["segment.bytes"] = "30000"
    assert json.loads(cluster.zk.get("/config/topics/moved")[0])["config"] == stored
    resource = ConfigResource(ResourceType.TOPIC, "moved")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_configs([resource])[resource].result(20)
    assert {name: described[name].value for name in stored} == stored
    with pytest.raises(KafkaException, match="preallocate='TRUE': highwater takes false only"):
        set_config(cluster, ResourceType.TOPIC, "moved", preallocate="TRUE")
    set_config(cluster, ResourceType.TOPIC, "moved", preallocate="false", no_such=None)
    for said in (
        "settings of topics/moved without effect: preallocate=false",
        "settings of topic moved without effect: message.format.version=2.8, preallocate=false",
    ):
        # Brokers hear of a topic, and say it, when its creation is answered already.
        wait_until(lambda said=said: any(said in one.output for one in cluster.brokers.values()), said)  # type: ignore[misc]
