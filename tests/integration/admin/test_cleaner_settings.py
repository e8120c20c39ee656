"""The cleaner's settings change while brokers run, and those of threads that highwater has not are taken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from tests.integration.admin.asking import create_topic, log_bytes, set_config, set_for_all_brokers
from tests.support.brokers import Cluster, running_cluster, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "log.cleaner.threads": "0",
        "log.cleaner.backoff.ms": "50",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.segment.bytes": "20000",
        "log.segment.delete.delay.ms": "0",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), brokers=1, settings=settings) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def test_cleaner_that_gets_a_thread_begins_to_clean(cluster: Cluster) -> None:
    create_topic(cluster, "compacted", [[1]], cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.size": 5000})
    for _ in range(200):
        producer.produce("compacted", b"x" * 1000, key=b"k", partition=0)
    assert producer.flush(60) == 0
    before = log_bytes(cluster, 1, "compacted")
    assert before > 200_000, "nobody cleans"
    set_for_all_brokers(cluster, "log.cleaner.threads", "1")
    wait_until(lambda: log_bytes(cluster, 1, "compacted") < before // 2, "the log is cleaned")


def test_threads_that_nobody_has_may_be_set(cluster: Cluster) -> None:
    set_for_all_brokers(cluster, "num.io.threads", "10")
    set_config(cluster, ResourceType.BROKER, "1", num_network_threads="4", background_threads="12")
