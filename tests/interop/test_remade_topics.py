"""Clients that run while their topic is deleted and made anew, after elections: they go on with the new one.

Its leader epochs begin again below the last one that they heard; only the topic's id says that it is another.
librdkafka (2.16) does not look at the id, and stands still before any broker: confluentinc/librdkafka issue 4898.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, wait_until
from tests.support.line_program import Ask, java_program, line_program

pytestmark = [pytest.mark.nightly, pytest.mark.guarantee("C8", "K1")]
_PROGRAM = Path(__file__).with_name("RemadeTopic.java")


def _create(cluster: Cluster, name: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas])])[name].result(20)
    cluster.wait_state(name, 0, leader=replicas[0], isr={1, 2, 3})
    cluster.wait_told(name)


def _elect_twice(cluster: Cluster, name: str) -> None:
    """Leadership goes from broker 1, which is killed, and back to it."""
    cluster.brokers[1].kill()
    cluster.wait_state(name, 0, isr={2, 3})
    cluster.brokers[1].start()
    cluster.wait_state(name, 0, isr={1, 2, 3})
    cluster.wait_known()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 0)]).result(20)
    cluster.wait_state(name, 0, leader=1, isr={1, 2, 3})
    cluster.wait_told(name)
    assert _leader_epoch(cluster, name) >= 2


def _leader_epoch(cluster: Cluster, name: str) -> int:
    state = cluster.state(name, 0)
    assert state is not None
    return int(str(state["leader_epoch"]))


def _make_anew(cluster: Cluster, name: str) -> None:
    """Under another leader, so that a client has to hear of it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([name])[name].result(20)
    wait_until(lambda: not cluster.zk.exists(f"/brokers/topics/{name}"), "the topic is deleted")
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, "a broker forgets the topic")
    _create(cluster, name, [2, 3, 1])
    assert _leader_epoch(cluster, name) == 0


@contextmanager
def _java(classpath: str, what: str, cluster: Cluster, topic: str) -> Iterator[Ask]:
    with line_program(java_program(_PROGRAM, classpath, what, cluster.bootstrap, topic)) as ask:
        yield ask


def test_java_producer_goes_on_with_a_topic_that_was_made_anew(cluster: Cluster, classpath: str) -> None:
    name = f"remade-{uuid.uuid4().hex[:8]}"
    _create(cluster, name, [1, 2, 3])
    with _java(classpath, "produce", cluster, name) as ask:
        assert ask("first") == "done"
        _elect_twice(cluster, name)
        assert ask("second") == "done"
        _make_anew(cluster, name)
        assert ask("third") == "done"


def test_java_consumer_goes_on_with_a_topic_that_was_made_anew(cluster: Cluster, classpath: str) -> None:
    name = f"remade-{uuid.uuid4().hex[:8]}"
    _create(cluster, name, [1, 2, 3])
    with _java(classpath, "consume", cluster, name) as ask:
        _send(cluster, name, "first")
        assert ask("first") == "done"
        _elect_twice(cluster, name)
        _send(cluster, name, "second")
        assert ask("second") == "done"
        _make_anew(cluster, name)
        _send(cluster, name, "third", "fourth", "fifth")
        assert ask("fifth") == "done"


def test_java_admin_deletes_the_topic_of_an_id_and_no_later_one_of_its_name(cluster: Cluster, classpath: str) -> None:
    name = f"remade-{uuid.uuid4().hex[:8]}"
    path = f"/brokers/topics/{name}"

    def topic_id() -> str:
        return str(json.loads(cluster.zk.get(path)[0])["topic_id"])

    _create(cluster, name, [1, 2, 3])
    first = topic_id()
    with _java(classpath, "delete", cluster, name) as ask:
        assert ask(first) == "done"
        assert not cluster.zk.exists(path)
        _create(cluster, name, [2, 3, 1])
        second = topic_id()
        assert ask(first) == "failed: UnknownTopicIdException"
        assert topic_id() == second
        assert ask(second) == "done"
        assert not cluster.zk.exists(path)


def _send(cluster: Cluster, topic: str, *values: str) -> None:
    """By a producer that never heard of another topic of this name."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
