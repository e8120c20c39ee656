"""R12: what a replica reports of its log counts under the leader epoch that it was asked under, and under no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr
from broker.core.controller.elr import CLEAN, ReplicaReport
from broker.core.controller.stored import StoredState
from broker.wire.api import ApiKey
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster
from tests.support.stored_partition import cluster, stored


@pytest.mark.guarantee("R12")
def test_report_that_comes_after_the_election_decides_no_later_one() -> None:
    world = cluster(LeaderAndIsr(1, 5, (1, 2), 1, 3))
    world.term.load()
    state = world.term.state
    report = {PARTITION: ReplicaReport(False, 5, 1000)}
    world.term.replicas_reported(3, state.brokers[3].epoch, report, {PARTITION: 5})
    assert not state.reports
    world.fail(1)
    world.fail(2)
    assert stored(world).leader == NO_LEADER
    now = stored(world).leader_epoch
    world.term.replicas_reported(3, state.brokers[3].epoch, report, {PARTITION: now})
    assert list(state.reports) == [(PARTITION, 3)]


def request_epochs(world: ReassignedCluster, broker: int) -> list[int]:
    """Leader epochs of the questions after this broker's stop that wait to be sent."""
    return [
        dict(request.request_epochs)[PARTITION]
        for request in world.nodes[broker].queue
        if request.api_key == ApiKey.REPLICA_REPORT
    ]


@pytest.mark.guarantee("R12")
def test_report_that_was_on_its_way_while_somebody_led_is_requested_again() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    assert request_epochs(world, 3) == [5]
    world.term.replicas_reported(1, state.brokers[1].epoch, {PARTITION: CLEAN}, {PARTITION: 5})
    assert stored(world).leader == 1
    world.fail(1)
    assert stored(world).leader == NO_LEADER
    assert request_epochs(world, 3) == [5, 7]
    world.nodes[3].queue.clear()
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: ReplicaReport(False, 5, 1000)}, {PARTITION: 5})
    assert not state.reports
    assert request_epochs(world, 3) == [7]
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: ReplicaReport(False, 6, 9)}, {PARTITION: 7})
    assert state.reports == {(PARTITION, 3): ReplicaReport(False, 6, 9)}


@pytest.mark.guarantee("R12")
def test_report_is_forgotten_where_somebody_else_has_written_who_leads() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    report = ReplicaReport(False, 5, 1000)
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: report}, {PARTITION: 5})
    assert state.reports
    world.data.states[PARTITION] = StoredState(LeaderAndIsr(2, 6, (2,), 2, 3), 99)
    world.term._writer.reread([PARTITION])
    assert stored(world).leader == 2
    assert not state.reports


def test_log_that_is_ahead_of_the_state_costs_one_election() -> None:
    """As after a ZooKeeper that came back from a backup: what was kept is refused, what is elected then is not."""
    world = cluster(LeaderAndIsr(1, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    epoch = world.term.state.brokers[1].epoch
    world.term.epochs_refused(1, epoch, [(TOPIC_ID, 0, 5)])
    assert (stored(world).leader, stored(world).leader_epoch) == (NO_LEADER, 6)
    world.term.replicas_reported(1, epoch, {PARTITION: ReplicaReport(False, 1000, 10)}, {PARTITION: 6})
    assert (stored(world).leader, stored(world).leader_epoch) == (1, 1001)


def test_broker_that_is_no_replica_any_more_gets_no_further_request() -> None:
    world = cluster(LeaderAndIsr(NO_LEADER, 5, (1,), 1, 3))
    world.data.brokers = {id_: replace(broker, reports=True) for id_, broker in world.data.brokers.items()}
    world.term.load()
    state = world.term.state
    world.nodes[3].queue.clear()
    topic = state.topics[PARTITION.topic]
    state.topics[PARTITION.topic] = replace(topic, partitions={PARTITION.partition: (1, 2)})
    world.term.replicas_reported(3, state.brokers[3].epoch, {PARTITION: CLEAN}, {PARTITION: 4})
    assert request_epochs(world, 3) == []
