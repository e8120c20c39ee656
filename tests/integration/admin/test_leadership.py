"""Who leads while brokers come and go: rolling restarts, the rebalance afterwards, unclean elections on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from tests.integration.admin.asking import (
    GAP_MAX_S,
    SETTINGS,
    create_topic,
    fill,
    longest_gap_s,
    set_config,
    set_for_all_brokers,
)
from tests.integration.broker.writing import Writer, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.guarantee("R9", "C4", "C5")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        **SETTINGS,
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "leader.imbalance.per.broker.percentage": "0",
    }
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def test_rolling_restart_fails_no_write_and_leadership_comes_back(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(cluster, "rolled", [[1, 2, 3]])
    writer = Writer(cluster, "rolled")
    writer.wait_for_more(100)
    for broker in (cluster.brokers[id_] for id_ in (2, 3, 1)):
        assert broker.stop() == 0
        writer.wait_for_more(100)
        broker.start()
        cluster.wait_state("rolled", 0, isr={1, 2, 3})
        writer.wait_for_more(100)
    cluster.wait_state("rolled", 0, leader=1, isr={1, 2, 3})
    writer.wait_for_more(100)
    writer.stop()
    assert read(cluster, writer.sent, topic="rolled") == sorted(writer.acknowledged)
    events = [event for broker in cluster.brokers.values() for event in broker.events()]
    away_s = longest_gap_s(cluster, "rolled-0")
    with capsys.disabled():
        print(f"\nrolling restart: {len(writer.acknowledged)} acknowledgements, at most {away_s:.2f} s between two")
    assert away_s < GAP_MAX_S, "leaders were moved, none was waited for"
    elections = [event for event in events if event["e"] == "election"]
    assert {event["reason"] for event in elections if event["p"] == "rolled-0"} >= {"controlled-shutdown", "preferred"}


def leaderless(cluster: Cluster, topic: str) -> None:
    """Broker 1 has the newest record alone, and is gone."""
    create_topic(cluster, topic, [[1, 2]], min_insync_replicas="1")
    fill(cluster, topic, 10, 100)
    cluster.brokers[2].kill()
    cluster.wait_state(topic, 0, leader=1, isr={1})
    fill(cluster, topic, 5, 100)
    cluster.brokers[1].kill()
    wait_until(lambda: cluster.live() == {3}, "both are gone")
    cluster.brokers[2].start()
    wait_until(lambda: cluster.live() == {2, 3}, "broker 2 is back")
    # A registration is read before the controller has: an election by hand would find nobody to elect.
    cluster.wait_known()
    wait_until(lambda: (cluster.state(topic, 0) or {})["leader"] == -1, "nobody leads")


def back(cluster: Cluster, topic: str) -> None:
    cluster.brokers[1].start()
    cluster.wait_state(topic, 0, isr={1, 2})


def wait_end(cluster: Cluster, topic: str, end: int) -> None:
    """Until every broker has heard of the leader, and the leader's watermark is this."""
    cluster.wait_told(topic)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        wait_until(
            lambda: watermarks(consumer, topic)[1] == end,
            lambda: f"end {end} of {topic}, is {watermarks(consumer, topic)}",
        )
    finally:
        consumer.close()


def test_allowing_unclean_election_elects_at_once(cluster: Cluster) -> None:
    leaderless(cluster, "torn")
    set_config(cluster, ResourceType.TOPIC, "torn", unclean_leader_election_enable="true")
    cluster.wait_state("torn", 0, leader=2, isr={2})
    wait_end(cluster, "torn", 10)
    back(cluster, "torn")
    wait_end(cluster, "torn", 10)


def test_unclean_election_by_hand_is_only_of_the_named_partition(cluster: Cluster) -> None:
    leaderless(cluster, "by-hand")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    named = TopicPartition("by-hand", 0)
    early = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    with pytest.raises(KafkaException):
        early.get_watermark_offsets(named, timeout=20)
    results = admin.elect_leaders(ElectionType.UNCLEAN, [named]).result(20)
    assert list(results.values()) == [None]
    cluster.wait_state("by-hand", 0, leader=2, isr={2})
    assert watermarks(early, "by-hand") == (0, 10), "also who heard that nobody leads finds the leader"
    early.close()
    wait_end(cluster, "by-hand", 10)
    back(cluster, "by-hand")


def test_allowing_unclean_election_for_all_brokers_elects_at_once(cluster: Cluster) -> None:
    leaderless(cluster, "wide")
    set_for_all_brokers(cluster, "unclean.leader.election.enable", "true")
    cluster.wait_state("wide", 0, leader=2, isr={2})
    set_for_all_brokers(cluster, "unclean.leader.election.enable", None)
    back(cluster, "wide")
