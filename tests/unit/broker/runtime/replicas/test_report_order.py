"""A replica is asked what its stop has cost it when it has been told that nobody leads, and follows nobody."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from broker.core.controller.stored import StoredState
from broker.core.replication.partition import PartitionState
from broker.runtime.replicas.replica_reports import ReplicaReports
from broker.wire.api import ApiKey
from broker.wire.messages.replica_report import ReplicaReportRequest, ReportedPartition, ReportTopic
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, TOPIC_ID
from tests.support.reassigned_cluster import PARTITION, ReassignedCluster

pytestmark = pytest.mark.guarantee("R12")

ROLES_FIRST = ["LEADER_AND_ISR", "REPLICA_REPORT", "UPDATE_METADATA"]
ADDRESSES_FIRST = ["UPDATE_METADATA", "LEADER_AND_ISR", "REPLICA_REPORT"]


def one_in_sync() -> ReassignedCluster:
    """Leader 1 alone in the ISR; all brokers report on their stops."""
    world = ReassignedCluster((1, 2, 3), 3)
    state = LeaderAndIsr(1, 5, (1,), 1, 3)
    world.data.states[PARTITION] = StoredState(state, world.data.next_transaction())
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.step(world.term.load)
    return world


def said(world: ReassignedCluster, broker: int) -> list[str]:
    return [ApiKey(request.api_key).name for request in world.nodes[broker].queue]


def new_to(world: ReassignedCluster, broker: int) -> list[bool]:
    return [state.is_new for _, state in world.nodes[broker].roles_told()]


def test_replica_learns_that_nobody_leads_before_its_report_is_requested() -> None:
    world = one_in_sync()
    for node in world.nodes.values():
        node.queue.clear()
    world.fail(1)
    assert [said(world, id_) for id_ in (2, 3)] == [ROLES_FIRST] * 2
    world.nodes[2].queue.clear()
    world.step(world.term.load)
    assert said(world, 2) == ADDRESSES_FIRST


def reported_by(cluster: MemoryCluster, broker: int) -> ReportedPartition:
    manager = cluster.nodes[broker].up
    cache: Any = SimpleNamespace(updated_epoch=-1)
    request = ReplicaReportRequest(9, 1, cluster.registered[broker], [ReportTopic(TOPIC, TOPIC_ID, [0])])
    reports = ReplicaReports(
        manager.replicas,
        cluster.nodes[broker].store,
        cache,
        manager.remade_logs,
        lambda: cluster.nodes[broker].broker_epoch,
        manager.controller_fence,
    )
    (reported,) = reports.report(request).partitions
    return reported


def nobody_leads(cluster: MemoryCluster, broker: int) -> None:
    state = cluster.state
    cluster.state = PartitionState(
        1, NO_LEADER, state.leader_epoch + 1, state.isr, state.partition_epoch + 1, state.replicas
    )
    cluster.tell(broker)
    cluster.settle()


def test_replica_that_learned_that_nobody_leads_takes_nothing_more_of_the_deposed_leader() -> None:
    cluster = MemoryCluster(2, 1)
    cluster.settle()
    cluster.hold = lambda message: message.kind == "answer" and message.source == 1
    cluster.produce(1, "late")
    cluster.settle()
    assert cluster.held
    nobody_leads(cluster, 2)
    before = reported_by(cluster, 2)
    assert (before.error_code, before.unclean, before.end_offset) == (0, False, 0)
    cluster.hold = lambda message: False
    cluster.release()
    cluster.settle()
    cluster.advance(2000.0)
    assert cluster.nodes[1].log.values() == ["late"]
    assert reported_by(cluster, 2) == before


@pytest.mark.parametrize("is_new", [True, False])
def test_log_that_is_made_as_it_learns_that_nobody_leads_vouches_for_nothing_unless_it_is_new(is_new: bool) -> None:
    cluster = MemoryCluster(2, 1, start=False)
    cluster.start(2, tell=False)
    state = replace(cluster.state, leader=NO_LEADER, leader_epoch=5)
    cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2], is_new))
    reported = reported_by(cluster, 2)
    assert (reported.error_code, reported.unclean, reported.end_offset) == (0, not is_new, 0)


def test_partition_without_a_leader_is_new_to_nobody() -> None:
    """As in states that a tool has copied: their versions begin anew."""
    world = ReassignedCluster((1, 2, 3), 3)
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 0), world.data.next_transaction())
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world._elect()
    assert world.data.states[PARTITION].state.partition_epoch == 0, "all are waited for"
    assert new_to(world, 2) == [False]
