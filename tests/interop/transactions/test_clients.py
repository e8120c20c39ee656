"""Transactional producers of each library: what they commit is read, what they abort is not, a zombie is fenced."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.interop.transactions.conftest import Open, made
from tests.support.brokers import Cluster
from tests.support.group_members import fresh
from tests.support.reading import read_values
from tests.support.transactional_clients import ABORTED, COMMITTED

pytestmark = [
    pytest.mark.guarantee("transactions", "K1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
NIGHTLY = pytest.mark.nightly
CLIENTS = [
    # In integration/broker/test_transactions.py it does the same, and more.
    pytest.param("confluent-kafka", marks=NIGHTLY),
    "kafka-python",
    "aiokafka",
    "java-3.9",
    pytest.param("java-4", marks=NIGHTLY),
    pytest.param("franz-go", marks=NIGHTLY),
]


@pytest.mark.parametrize("library", CLIENTS)
def test_transactions_of_a_client_are_read_whole_or_not_at_all(
    cluster: Cluster, topic: str, opened: Open, library: str
) -> None:
    client = opened(library, fresh("tx"))
    first, aborted, second = ([f"{name}{n}" for n in range(6)] for name in "abc")
    assert client.transact(topic, True, first) == COMMITTED
    assert client.transact(topic, False, aborted) == ABORTED
    assert client.transact(topic, True, second) == COMMITTED
    assert sorted(read_values(cluster, topic)) == sorted(first + second)
    assert set(aborted) <= set(read_values(cluster, topic, "read_uncommitted"))


@pytest.mark.parametrize("library", CLIENTS)
def test_consume_transform_produce_reads_again_what_was_aborted(
    cluster: Cluster, topic: str, opened: Open, library: str
) -> None:
    target, group = made(cluster, "target", 1), fresh("g")
    source = Producer({"bootstrap.servers": cluster.bootstrap})
    for n in range(6):
        source.produce(topic, str(n), partition=0)
    assert source.flush(30) == 0
    client = opened(library, fresh("tx"))
    for commit in (False, True, False, True):
        assert client.transform(topic, target, group, 3, commit) == (COMMITTED if commit else ABORTED)
    assert read_values(cluster, target) == [f"<{n}>" for n in range(6)]


@pytest.mark.parametrize(
    "library",
    [
        "confluent-kafka",
        "kafka-python",
        *(pytest.param(name, marks=NIGHTLY) for name in ("java-3.9", "java-4", "franz-go")),
    ],
)
def test_client_whose_id_another_took_commits_nothing_more(
    cluster: Cluster, topic: str, opened: Open, library: str
) -> None:
    transactional_id = fresh("tx")
    zombie = opened(library, transactional_id)
    assert zombie.transact(topic, True, ["old"]) == COMMITTED
    successor = opened(library, transactional_id)
    assert zombie.transact(topic, True, ["too late"]) != COMMITTED
    assert successor.transact(topic, True, ["new"]) == COMMITTED
    assert sorted(read_values(cluster, topic)) == ["new", "old"]
