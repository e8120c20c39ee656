"""kafka-transactions of both versions of Kafka: list, describe, describe-producers, find-hanging and abort."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.interop.transactions.conftest import SETTINGS
from tests.support.brokers import Cluster, running_cluster
from tests.support.group_members import fresh
from tests.support.kafka_tools import Tools, named, table
from tests.support.raw_client import RawClient
from tests.support.reading import read_values
from tests.support.transactions import transactional

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300), pytest.mark.guarantee("K1", "no-hanging-transactions")]
TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Whose leaders ask no coordinator, as before Kafka 3.6: so transactions can hang."""
    settings = {**SETTINGS, "transaction.partition.verification.enable": "false"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture(params=["classpath", "newest_classpath"])
def tools(cluster: Cluster, request: pytest.FixtureRequest) -> Tools:
    return Tools(request.getfixturevalue(request.param), cluster)


@pytest.fixture
def transactional_id(cluster: Cluster, topic: str) -> Iterator[str]:
    """Of a producer with an open transaction: three records in partition 0."""
    name = fresh("tx")
    client = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0})
    client.init_transactions(30)
    client.begin_transaction()
    for value in ("a", "b", "c"):
        client.produce(topic, value, partition=0)
    assert client.flush(30) == 0
    yield name
    client.abort_transaction(30)


def test_tool_shows_an_open_transaction(tools: Tools, topic: str, transactional_id: str) -> None:
    listed = named(table(tools.run(TOOL, "list"), "TransactionalId"), "TransactionalId", transactional_id)
    assert listed["TransactionState"] == "Ongoing"
    described = tools.run(TOOL, "describe", "--transactional-id", transactional_id)
    [row] = table(described, "CoordinatorId")
    assert (row["TransactionalId"], row["ProducerId"]) == (transactional_id, listed["ProducerId"])
    assert (row["CoordinatorId"], row["TransactionState"]) == (listed["Coordinator"], "Ongoing")
    assert (row["TopicPartitions"], row["TransactionTimeoutMs"]) == (f"{topic}-0", "60000")
    producers = tools.run(TOOL, "describe-producers", "--topic", topic, "--partition", "0")
    shown = named(table(producers, "ProducerId"), "ProducerId", listed["ProducerId"])
    assert (shown["LastSequence"], shown["CurrentTransactionStartOffset"]) == ("2", "0")
    assert hanging(tools, topic) == []


def test_tool_describes_no_id_that_nobody_has(tools: Tools) -> None:
    said = tools.run(TOOL, "describe", "--transactional-id", fresh("nobody"), code=1)
    assert "failed because the ID could not be found" in said


def test_tool_finds_a_hanging_transaction_and_aborts_it(cluster: Cluster, tools: Tools, topic: str) -> None:
    hang(cluster, topic, 77_000)
    client = Producer({"bootstrap.servers": cluster.bootstrap})
    client.produce(topic, "behind it", partition=0)
    assert client.flush(30) == 0
    [found] = hanging(tools, topic)
    assert (found["Topic"], found["Partition"], found["ProducerId"], found["StartOffset"]) == (topic, "0", "77000", "0")
    tools.run(TOOL, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert read_values(cluster, topic) == ["behind it"]
    assert hanging(tools, topic) == []
    refused = tools.run(TOOL, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", code=1)
    assert "Could not find any open transactions" in refused


def hanging(tools: Tools, topic: str) -> list[dict[str, str]]:
    """Also those of just now: transactions that their coordinator knows do not count."""
    found = tools.run(TOOL, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    return table(found, "Topic")


def hang(cluster: Cluster, topic: str, producer_id: int) -> None:
    """A transaction that no coordinator knows, in partition 0."""
    state = cluster.state(topic, 0)
    assert state is not None
    leader = cluster.brokers[int(str(state["leader"]))]
    client = RawClient(leader.port)
    try:
        batch = bytes(transactional("hanging", producer_id))
        assert client.produce(topic, batch, acks=-1, transactional_id="forgotten").error == 0
    finally:
        client.close()
