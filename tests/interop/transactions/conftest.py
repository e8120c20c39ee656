"""A cluster whose transactions end soon, a topic of three partitions, and clients of many libraries by their names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster
from tests.support.franz_go import franz as franz
from tests.support.group_members import fresh
from tests.support.kafka_jars import classpath as classpath
from tests.support.kafka_jars import newest_classpath as newest_classpath
from tests.support.line_program import java_program
from tests.support.transactional_clients import (
    LIBRARIES,
    PARTITIONS,
    TransactionalClient,
    library_client,
    program_client,
)

Open = Callable[[str, str], TransactionalClient]
_JAVA = Path(__file__).with_name("TransactionalClient.java")
_JARS = {"java-3.9": "classpath", "java-4": "newest_classpath"}
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """kafka-python logs its lost connections, and pytest would keep these, with their sockets, beyond the test."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return made(cluster, "t", PARTITIONS)


def made(cluster: Cluster, prefix: str, partitions: int) -> str:
    """A new topic, empty, of which every broker knows."""
    name = fresh(prefix)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(20)
    cluster.wait_told(name)
    return name


@pytest.fixture
def opened(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a client of that library, or of java-3.9, java-4 or franz-go, with that transactional id."""
    with ExitStack() as stack:

        def open_client(library: str, transactional_id: str) -> TransactionalClient:
            if library in LIBRARIES:
                return stack.enter_context(library_client(library, cluster.bootstrap, transactional_id))
            words = (cluster.bootstrap, transactional_id)
            if library == "franz-go":
                return stack.enter_context(program_client([request.getfixturevalue("franz"), *words]))
            jars: str = request.getfixturevalue(_JARS[library])
            return stack.enter_context(program_client(java_program(_JAVA, jars, *words)))

        yield open_client
