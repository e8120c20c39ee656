"""A cluster for Kafka 4's tools, and these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import Cluster, running_cluster
from tests.support.kafka_jars import newest_classpath as newest_classpath
from tests.support.kafka_tools import Tools


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "6",
        "group.initial.rebalance.delay.ms": "0",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def tools(cluster: Cluster, newest_classpath: str) -> Tools:
    return Tools(newest_classpath, cluster)
