"""Topics whose manual assignment names a broker that is down, as it does during a rolling restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.admin.asking import SETTINGS, create_topic
from tests.support.brokers import Cluster, running_cluster, wait_until

pytestmark = pytest.mark.guarantee("C7")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def _send(cluster: Cluster, topic: str, partition: int) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors == [None]


def test_topic_on_a_broker_that_is_down_is_made_led_and_deleted(cluster: Cluster) -> None:
    create_topic(cluster, "before", [[1, 2, 3]])
    cluster.brokers[3].kill()
    wait_until(lambda: cluster.live() == {1, 2}, "broker 3 is gone")
    cluster.wait_known()
    admin = AdminClient({"bootstrap.servers": ",".join(cluster.brokers[i].address for i in (1, 2))})

    replicas = [[3, 1, 2], [2, 3, 1]]
    admin.create_topics([NewTopic("led", 2, replica_assignment=replicas)])["led"].result(20)
    cluster.wait_state("led", 0, leader=1, isr={1, 2})
    cluster.wait_state("led", 1, leader=2, isr={1, 2})
    cluster.wait_told("led")
    _send(cluster, "led", 0)

    # Nobody can lead it: the topic is there when the wait is over, as in Kafka.
    alone = NewTopic("alone", 1, replica_assignment=[[3]], config={"min.insync.replicas": "1"})
    with pytest.raises(KafkaException, match="REQUEST_TIMED_OUT"):
        admin.create_topics([alone], operation_timeout=1)["alone"].result(20)
    assert cluster.state("alone", 0) is None

    with pytest.raises(KafkaException, match="Some brokers specified for partition id 0 are not available"):
        admin.create_topics([NewTopic("typo", 1, replica_assignment=[[1, 2, 33]])])["typo"].result(20)

    admin.delete_topics(["before"], operation_timeout=1)
    cluster.brokers[3].start()
    for partition in (0, 1):
        cluster.wait_state("led", partition, isr={1, 2, 3})
    cluster.wait_state("alone", 0, leader=3, isr={3})
    cluster.wait_told("alone")
    _send(cluster, "alone", 0)
    admin.delete_topics(["led", "alone"])
    for name in ("before", "led", "alone"):
        wait_until(lambda name=name: not cluster.zk.exists(f"/brokers/topics/{name}"), f"{name} is deleted")  # type: ignore[misc]
