"""What looks like a dead process and is none: cut links, a pause, a quick restart. Nothing is lost, little moves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support import namespaces
from tests.support.brokers import Cluster, running_cluster, wait_until

pytestmark = pytest.mark.guarantee("C10")

# The session outlives every fault here, so whatever is elected was elected on suspicion.
SETTINGS = {
    "zookeeper.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
}
FAULT_S = 8.0
# Longer than the kernel's keepalives bear: only then has a silent link shown anything.
SILENCE_S = 16.0
SHORT_SESSION_S = 4.0


def with_fault(
    tmp_path: Path,
    during: Callable[[Cluster, Writer, int], None],
    leader_is_controller: bool = False,
    session_ms: str = SETTINGS["zookeeper.session.timeout.ms"],
) -> None:
    """A writer on a topic that the controller leads, or a broker beside it; `during` gets that leader."""
    hosts = namespaces.make(3)
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": session_ms}
    with running_cluster(tmp_path, settings=settings, hosts=hosts, zookeeper_host=namespaces.BRIDGE_ADDRESS) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        controller = cluster.controller()
        leader = next(i for i in cluster.brokers if (i == controller) is leader_is_controller)
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


def events_of(cluster: Cluster, event: str) -> list[dict[str, object]]:
    return [line for broker in cluster.brokers.values() for line in broker.events() if line["e"] == event]


def leaders_elected(cluster: Cluster) -> list[object]:
    """Leaders by epoch, the first one left out, repetitions too."""
    of_topic = [line for line in events_of(cluster, "election") if line["p"] == f"{TOPIC}-0"]
    elected = sorted(of_topic, key=lambda line: int(str(line["le"])))
    leaders = [line["leader"] for line in elected]
    return [now for was, now in itertools.pairwise(leaders) if now != was]


def controllers(cluster: Cluster) -> int:
    return len([line for line in events_of(cluster, "controller") if line["what"] == "elected"])


LINKS = ("controller-leader", "controller-follower", "leader-follower", "controller-all")


def links(name: str, cluster: Cluster, leader: int) -> list[tuple[int, int]]:
    controller = cluster.controller()
    assert controller is not None
    follower = next(i for i in cluster.brokers if i not in (controller, leader))
    return {
        "controller-leader": [(controller, leader)],
        "controller-follower": [(controller, follower)],
        "leader-follower": [(leader, follower)],
        "controller-all": [(controller, i) for i in cluster.brokers if i != controller],
    }[name]


def cases() -> list[ParameterSet]:
    """Where the controller leads there are two links; in `make test` one; a rejecting cut from all has a test below."""
    beside = [(verdict, link, False) for verdict in ("reject", "drop") for link in LINKS]
    leading = [(verdict, link, True) for verdict in ("reject", "drop") for link in LINKS[1::2]]
    quick = {("reject", "controller-leader", False)}
    marks = {case: () if case in quick else (pytest.mark.nightly,) for case in (*beside, *leading)}
    return [pytest.param(*case, marks=marks[case]) for case in marks]


@pytest.mark.sandbox
@pytest.mark.parametrize(("verdict", "link", "leader_is_controller"), cases())
def test_cut_links_cost_one_election_at_most_and_nothing_written(
    tmp_path: Path, verdict: str, link: str, leader_is_controller: bool
) -> None:
    taken_over = (verdict, link) == ("reject", "controller-all")

    def holds(cluster: Cluster, controller: int | None) -> None:
        """Only a controller that looks gone to all is suspected, and only its own partitions get another leader."""
        suspected = [(line["target"], line["b"] == controller) for line in events_of(cluster, "suspicion")]
        assert suspected == ([(controller, False)] if taken_over else [])
        assert len(leaders_elected(cluster)) == (taken_over and leader_is_controller)
        assert controllers(cluster) == 1 + taken_over

    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        cut = namespaces.reject if verdict == "reject" else namespaces.drop
        for one, other in links(link, cluster, leader):
            cut(one, other)
        if taken_over:
            wait_until(lambda: cluster.controller() != controller, "another controller")
        time.sleep(FAULT_S if verdict == "reject" else SILENCE_S)
        holds(cluster, controller)
        # Where leader and controller cannot talk, a follower that is late stays in the ISR, and acks=all waits.
        if taken_over or link == "leader-follower" or link == "controller-follower":
            writer.wait_for_more(20)
        namespaces.heal(*cluster.brokers)
        cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
        writer.wait_for_more(20)
        holds(cluster, controller)

    with_fault(tmp_path, during, leader_is_controller)


@pytest.mark.nightly
@pytest.mark.sandbox
def test_minute_of_one_rejecting_link_costs_one_election_at_most(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        controller = cluster.controller()
        assert controller is not None
        namespaces.reject(controller, leader)
        # The leader cannot tell the controller that this follower is late: acks=all waits, and goes on afterwards.
        time.sleep(60.0)
        assert len(events_of(cluster, "suspicion")) <= 1
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
        time.sleep(SILENCE_S)
        assert events_of(cluster, "suspicion") == []
        assert leaders_elected(cluster) == []
        assert controllers(cluster) == 1

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
        assert [line["target"] for line in events_of(cluster, "suspicion")] == [leader]
        assert controllers(cluster) == 1

    with_fault(tmp_path, during)


@pytest.mark.sandbox
@pytest.mark.parametrize("leader_is_controller", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_paused_leader_is_replaced_once_when_its_session_ends(tmp_path: Path, leader_is_controller: bool) -> None:
    def holds(cluster: Cluster) -> None:
        assert events_of(cluster, "suspicion") == [], "its connections were not reset"
        assert len(leaders_elected(cluster)) == 1
        of_topic = [line for line in events_of(cluster, "election") if line["p"] == f"{TOPIC}-0" and line["le"] != 0]
        assert {line["reason"] for line in of_topic} == {"offline"}
        assert controllers(cluster) == 1 + leader_is_controller

    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        paused_s = time.monotonic()
        cluster.brokers[leader].pause()
        wait_until(lambda: len(leaders_elected(cluster)) == 1, "another leader")
        # The session is as old as the last contact, at most a quarter of it ago.
        assert time.monotonic() - paused_s > 0.75 * SHORT_SESSION_S - 0.5
        time.sleep(max(0.0, paused_s + FAULT_S - time.monotonic()))
        holds(cluster)
        cluster.brokers[leader].resume()
        cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
        holds(cluster)

    with_fault(tmp_path, during, leader_is_controller, f"{SHORT_SESSION_S * 1000:.0f}")


@pytest.mark.sandbox
def test_leader_that_is_started_again_at_once_costs_one_election_at_most(tmp_path: Path) -> None:
    def during(cluster: Cluster, writer: Writer, leader: int) -> None:
        cluster.brokers[leader].kill()
        cluster.brokers[leader].start()
        cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
        writer.wait_for_more(20)
        assert len(leaders_elected(cluster)) <= 1
        assert len(events_of(cluster, "suspicion")) <= 1
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
        assert events_of(cluster, "suspicion") == [], "whoever misses most of its peers suspects nobody"
        assert leaders_elected(cluster) == []
        for broker in (leader, other):
            cluster.brokers[broker].kill()
            cluster.brokers[broker].start()

    with_fault(tmp_path, during)
