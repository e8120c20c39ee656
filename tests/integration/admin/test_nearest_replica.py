"""A consumer with a rack is sent to the follower there, and reads on from the leader when that follower is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from broker.config.table import RACK_AWARE
from tests.integration.admin.asking import create_topic, fill
from tests.support.brokers import Cluster, running_cluster, wait_until

KINDS = ("fetch", "follower-fetch")
"""Of what a leader, and a follower, shows to a consumer."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(
        tmp_path_factory.mktemp("cluster"),
        settings={"replica.selector.class": RACK_AWARE},
        overrides={broker: {"broker.rack": f"r{broker}"} for broker in (1, 2, 3)},
    ) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def served(cluster: Cluster, broker: int, topic: str) -> bool:
    """Whether this broker has sent records of the topic to a consumer."""
    return any(
        event["e"] == "visible" and event["kind"] in KINDS and str(event["p"]).startswith(topic)
        for event in cluster.brokers[broker].events()
    )


def test_records_come_from_the_consumers_rack_while_a_replica_is_there(cluster: Cluster) -> None:
    create_topic(cluster, "near", [[1, 2, 3]])
    fill(cluster, "near", 20)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "client.rack": "r3", "enable.auto.commit": False}
    )
    got = 0

    def read_to(count: int) -> bool:
        nonlocal got
        message = consumer.poll(1)
        got += message is not None and message.error() is None
        return got >= count

    try:
        consumer.assign([TopicPartition("near", 0, 0)])
        wait_until(lambda: read_to(20), lambda: f"20 records, are {got}")
        assert served(cluster, 3, "near")
        assert not served(cluster, 1, "near")
        cluster.brokers[3].kill()
        cluster.wait_state("near", 0, isr={1, 2})
        fill(cluster, "near", 20)
        wait_until(lambda: read_to(40), lambda: f"40 records, are {got}", 60)
    finally:
        consumer.close()
    assert served(cluster, 1, "near")
