"""A cluster on which groups rebalance at once, with topics of three partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster
from tests.support.group_members import Member, fresh, members
from tests.support.kafka_jars import classpath as classpath

PARTITIONS = 3
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "200",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def kcat() -> str:
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("needs kcat on the PATH")
    return found


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A new topic of three partitions, empty."""
    name = fresh("t")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(20)
    cluster.wait_told(name)
    return name


@pytest.fixture
def send(cluster: Cluster, topic: str) -> Callable[[int, int], set[bytes]]:
    """Sends the records numbered from the first to before the last, and returns their values."""

    def sent(first: int, last: int) -> set[bytes]:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        values = [b"%d" % number for number in range(first, last)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        return set(values)

    return sent


@pytest.fixture
def join(cluster: Cluster, topic: str) -> Iterator[Callable[..., Member]]:
    """Makes a member of a group on the topic: join(library, group, instance=None, **settings of the client)."""
    with members() as make:

        def joined(library: str, group: str, instance: str | None = None, **extra: object) -> Member:
            return make(library, cluster.bootstrap, group, topic, instance, **extra)

        yield joined
