"""What looks like a dead process and is none: cut links, a pause, a quick restart. Nothing is lost, little moves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support import namespaces
from tests.support.brokers import Cluster, running_cluster, wait_until

# The session outlives every fault here, so whatever is elected was elected on suspicion.
SETTINGS = {
    "zookeeper.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
}
FAULT_S = 8.0


def with_fault(tmp_path: Path, during: Callable[[Cluster, Writer, int], None]) -> None:
    """A writer on a topic that a broker beside the controller leads; `during` gets that leader."""
    hosts = namespaces.make(3)
    with running_cluster(tmp_path, settings=SETTINGS, hosts=hosts, zookeeper_host=namespaces.BRIDGE_ADDRESS) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        controller = cluster.controller()
        leader = next(i for i in cluster.brokers if i != controller)
        create(cluster, leader)
        writer = Writer(cluster, patience_ms=180_000)
        try:
            writer.wait_for_more(50)
            during(cluster, writer, leader)
            namespaces.heal(*cluster.brokers)
            cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
            writer.wait_for_more(50)
        finally:
            writer.stop()
        values = read(cluster, writer.sent)
        assert values == list(range(writer.sent)), "each once, in the order sent"


def told(cluster: Cluster, event: str) -> list[dict[str, object]]:
    return [line for broker in cluster.brokers.values() for line in broker.events() if line["e"] == event]


def leaders_elected(cluster: Cluster) -> list[object]:
    """Leaders by epoch, the first one left out, repetitions too."""
    of_topic = [line for line in told(cluster, "election") if line["p"] == f"{TOPIC}-0"]
    elected = sorted(of_topic, key=lambda line: int(str(line["le"])))
    leaders = [line["leader"] for line in elected]
    return [now for was, now in itertools.pairwise(leaders) if now != was]


def controllers(cluster: Cluster) -> int:
    return len([line for line in told(cluster, "controller") if line["what"] == "elected"])


@pytest.mark.sandbox
def test_one_rejecting_link_between_controller_and_leader_moves_nothing(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        assert controller is not None
        namespaces.reject(controller, leader)
        time.sleep(FAULT_S)
        assert told(cluster, "suspicion") == []
        assert leaders_elected(cluster) == []
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.nightly
@pytest.mark.sandbox
def test_minute_of_one_rejecting_link_costs_one_election_at_most(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        assert controller is not None
        namespaces.reject(controller, leader)
        # The leader cannot tell the controller that this follower is late: acks=all waits, and goes on afterwards.
        time.sleep(60.0)
        assert len(told(cluster, "suspicion")) <= 1
        assert len(leaders_elected(cluster)) <= 1
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.nightly
@pytest.mark.sandbox
def test_leader_whose_packets_vanish_waits_for_its_session(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        for other in cluster.brokers:
            if other != leader:
                namespaces.drop(leader, other)
        time.sleep(FAULT_S)
        assert told(cluster, "suspicion") == []
        assert leaders_elected(cluster) == []
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.sandbox
def test_controller_that_all_links_reject_is_replaced_once_and_suspects_nobody(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        assert controller is not None
        others = [i for i in cluster.brokers if i != controller]
        for other in others:
            namespaces.reject(controller, other)
        wait_until(lambda: cluster.controller() != controller, "another controller")
        time.sleep(FAULT_S)
        assert controllers(cluster) == 2
        assert [line["target"] for line in told(cluster, "suspicion")] == [controller]
        assert all(line["b"] != controller for line in told(cluster, "suspicion"))
        assert leaders_elected(cluster) == []
        writer.wait_for_more(20)

    with_fault(tmp_path, during)


@pytest.mark.sandbox
def test_leader_that_all_links_reject_is_replaced_once_per_registration(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        others = [i for i in cluster.brokers if i != leader]
        for other in others:
            namespaces.reject(leader, other)
        wait_until(lambda: len(leaders_elected(cluster)) == 1, "another leader")
        writer.wait_for_more(20)
        time.sleep(FAULT_S / 2)
        namespaces.heal(*cluster.brokers)
        cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
        for other in others:
            namespaces.reject(leader, other)
        time.sleep(FAULT_S / 2)
        assert len(leaders_elected(cluster)) == 1
        assert [line["target"] for line in told(cluster, "suspicion")] == [leader]
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.sandbox
def test_paused_leader_waits_for_its_session(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        cluster.brokers[leader].pause()
        time.sleep(3.0)
        assert told(cluster, "suspicion") == []
        assert leaders_elected(cluster) == []
        cluster.brokers[leader].resume()

    with_fault(tmp_path, during)


@pytest.mark.sandbox
def test_leader_that_is_started_again_at_once_costs_one_election_at_most(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        cluster.brokers[leader].kill()
        cluster.brokers[leader].start()
        cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
        writer.wait_for_more(20)
        assert len(leaders_elected(cluster)) <= 1
        assert len(told(cluster, "suspicion")) <= 1
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.sandbox
def test_two_of_three_killed_together_are_not_suspected(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        other = next(i for i in cluster.brokers if i not in (leader, controller))
        for broker in (leader, other):
            process = cluster.brokers[broker].process
            assert process is not None
            process.kill()
        time.sleep(2.0)
        assert told(cluster, "suspicion") == [], "whoever misses most of its peers suspects nobody"
        assert leaders_elected(cluster) == []
        for broker in (leader, other):
            cluster.brokers[broker].kill()
            cluster.brokers[broker].start()

    with_fault(tmp_path, during)
