"""One running cluster for all client tests of this folder; Apache Kafka's jars."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.support.brokers import Cluster, running_cluster
from tests.support.kafka_jars import classpath as classpath


@pytest.fixture(scope="module", autouse=True)
def nothing_of_clients_stays() -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector, whose warning would fail a test of another file."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2", "num.partitions": "3"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running
