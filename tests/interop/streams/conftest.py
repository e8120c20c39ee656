"""A cluster on which transactions of the dead end soon, and its topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster
from tests.support.group_members import fresh


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.num.partitions": "6",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


def made(cluster: Cluster, prefix: str, partitions: int) -> str:
    """A new topic, empty, of which every broker knows."""
    name = fresh(prefix)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(20)
    cluster.wait_told(name)
    return name
