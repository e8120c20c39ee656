"""Eligible replicas in the znode, and elections on reports, against a real ZooKeeper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.core.controller.cluster_state import NO_LEADER
from broker.model.ids import TopicPartition
from broker.wire.messages.replica_report import ReplicaReportRequest, ReportedPartition
from broker.zk import paths
from tests.integration.controller.conftest import Cluster, Node
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("R12")

STATE = paths.partition_state(TopicPartition("t", 0))


def start(cluster: Cluster, broker: int, unclean: bool = False, end: int = 10, silent: bool = False) -> Node:
    """A broker that answers for its replica of t-0 like this."""
    cluster.reports.pop((broker, "t", 0), None)
    if not silent:
        cluster.reports[broker, "t", 0] = ReportedPartition("t", 0, 0, unclean, 0 if end else -1, end)
    return cluster.node(broker, reports=True).start()


def kill(cluster: Cluster, node: Node) -> None:
    node.kill()
    cluster.remove(node)


def raw(cluster: Cluster) -> dict[str, Any]:
    node = cluster.client.get(STATE)
    assert node is not None
    loaded: dict[str, Any] = json.loads(node.data)
    return loaded


def told_of(cluster: Cluster, leader: int) -> list[object]:
    """Why this broker was elected, as the controller's event log has it: that is written after the znode."""

    def lines() -> list[object]:
        return [
            fields["reason"]
            for event, fields in list(cluster.log)
            if event == "election" and fields["leader"] == leader
        ]

    return eventually(lines, f"a line on the election of {leader}")


def shrunk_to_one(cluster: Cluster) -> dict[int, Node]:
    """Broker 9 is controller; ISR of t-0 is {1} of 1, 2, 3, below its minimum of 2."""
    nodes = {9: cluster.add(9), **{i: start(cluster, i) for i in (1, 2, 3)}}
    cluster.create_topic("t", {0: (1, 2, 3)}, {"min.insync.replicas": "2"})
    cluster.await_leader("t", 1)
    for gone in (3, 2):
        kill(cluster, nodes.pop(gone))
        eventually(lambda gone=gone: gone not in raw(cluster)["isr"], f"{gone} out of the ISR")  # type: ignore[misc]
    return nodes


def test_who_leaves_an_isr_at_its_minimum_is_noted_with_the_state_that_it_belongs_to(cluster: Cluster) -> None:
    shrunk_to_one(cluster)
    state = raw(cluster)
    assert state["elr"] == {"replicas": [2], "isr": [1], "leader_epoch": state["leader_epoch"], "min_isr": 2}


def test_unclean_isr_member_waits_for_the_eligible_one_which_leads(cluster: Cluster) -> None:
    nodes = shrunk_to_one(cluster)
    kill(cluster, nodes[1])
    eventually(lambda: raw(cluster)["leader"] == NO_LEADER, "no leader")
    start(cluster, 1, unclean=True, end=0)
    start(cluster, 3)
    eventually(
        lambda: any(isinstance(message, ReplicaReportRequest) for message in list(cluster.received[3])), "3 to be asked"
    )
    assert raw(cluster)["leader"] == NO_LEADER
    assert raw(cluster)["isr"] == [1]
    start(cluster, 2)
    state = cluster.await_leader("t", 2)
    assert state.isr == (2,)
    assert told_of(cluster, 2) == ["eligible"]


def test_longest_log_leads_when_everybody_stopped_uncleanly(cluster: Cluster) -> None:
    nodes = shrunk_to_one(cluster)
    kill(cluster, nodes[1])
    eventually(lambda: raw(cluster)["leader"] == NO_LEADER, "no leader")
    start(cluster, 1, unclean=True, end=3)
    start(cluster, 2, unclean=True, end=4)
    start(cluster, 3, unclean=True, end=7)
    state = cluster.await_leader("t", 3)
    assert (state.isr, state.elr) == ((3,), ())
    assert told_of(cluster, 3) == ["longest-log"]


def test_state_that_a_tool_rewrote_has_no_eligible_replica(cluster: Cluster) -> None:
    nodes = shrunk_to_one(cluster)
    kill(cluster, nodes[9])
    kill(cluster, nodes[1])
    node = cluster.client.get(STATE)
    assert node is not None
    fields = {**raw(cluster), "leader": -1, "leader_epoch": 50, "isr": [3]}
    cluster.client.set(STATE, json.dumps(fields).encode(), node.version)
    start(cluster, 2)
    eventually(
        lambda: any(isinstance(message, ReplicaReportRequest) for message in list(cluster.received[2])), "2 to be asked"
    )
    cluster.create_topic("u", {0: (2,)})
    cluster.await_leader("u", 2)
    assert raw(cluster)["leader"] == NO_LEADER
    start(cluster, 3)
    cluster.await_leader("t", 3)


def test_smaller_minimum_voids_eligibility(cluster: Cluster) -> None:
    shrunk_to_one(cluster)
    cluster.active().controller.topic_config_changed("t", {"min.insync.replicas": "1"})
    eventually(lambda: "elr" not in raw(cluster), "no eligible replicas")
    assert raw(cluster)["isr"] == [1]


def test_broker_that_does_not_report_its_replica_is_not_elected(cluster: Cluster) -> None:
    nodes = shrunk_to_one(cluster)
    kill(cluster, nodes[1])
    eventually(lambda: raw(cluster)["leader"] == NO_LEADER, "no leader")
    start(cluster, 1, silent=True)
    start(cluster, 2)
    cluster.create_topic("u", {0: (2,)})
    cluster.await_leader("u", 2)
    assert raw(cluster)["leader"] == NO_LEADER, "a live ISR member has not spoken yet"
