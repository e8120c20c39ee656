"""One running cluster for all client tests of this folder; Apache Kafka's jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import Cluster, running_cluster
from tests.support.kafka_jars import classpath as classpath


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2", "num.partitions": "3"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running
