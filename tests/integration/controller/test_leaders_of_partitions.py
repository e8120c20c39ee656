"""Who leads a partition, and who is told, as the controller sees brokers come, die, bounce and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.controller.cluster_state import NO_LEADER
from broker.model.ids import TopicPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.update_metadata import UpdateMetadataRequest
from broker.zk import paths, topic_codecs
from broker.zk.registration import end_session
from broker.zk.session_file import RecordedSession
from tests.support.wait import eventually

if TYPE_CHECKING:
    from .conftest import Cluster
from tests.integration.controller.requests import alter, ask

pytestmark = pytest.mark.guarantee("C3", "C9")


def test_new_topic_gets_first_replica_as_leader_and_all_brokers_hear(cluster: Cluster) -> None:
    for id_ in (1, 2, 3):
        cluster.add(id_)
    cluster.create_topic("t", {0: (2, 3), 1: (3, 1)})
    assert cluster.await_leader("t", 2).isr == (2, 3)
    assert cluster.await_leader("t", 3, 1).leader_epoch == 0
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(3) and ("t", 0, 2, 0) in cluster.roles(2))
    assert not [role for role in cluster.roles(1) if role[:2] == ("t", 0)]

    def everyone_knows() -> bool:
        return all(
            any(isinstance(m, UpdateMetadataRequest) and m.topic_states for m in list(cluster.received[id_]))
            for id_ in (1, 2, 3)
        )

    eventually(everyone_knows)


def test_election_is_logged_before_leader_and_isr_is_sent(cluster: Cluster) -> None:
    cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    eventually(lambda: cluster.roles(1))
    events = [
        event
        for event, what in cluster.log
        if event == "election" or (isinstance(what, LeaderAndIsrRequest) and what.topic_states)
    ]
    assert events[:2] == ["election", "to-1"]


def test_dead_broker_loses_all_partitions_in_one_batch(cluster: Cluster) -> None:
    cluster.add(1)
    dead = cluster.add(2)
    cluster.add(3)
    cluster.create_topic("t", dict.fromkeys(range(20), (2, 3, 1)))
    for partition in range(20):
        cluster.await_leader("t", 2, partition)
    eventually(lambda: len(cluster.roles(3)) == 20)
    before = len(cluster.received[3])
    dead.kill()
    cluster.remove(dead)
    for partition in range(20):
        assert cluster.await_leader("t", 3, partition).isr == (3, 1)
    eventually(lambda: len([role for role in cluster.roles(3) if role[2:] == (3, 1)]) == 20)
    requests = [m for m in cluster.received[3][before:] if isinstance(m, LeaderAndIsrRequest)]
    assert len(requests) == 1
    eventually(
        lambda: any(
            isinstance(m, UpdateMetadataRequest) and [b.id for b in m.live_brokers] == [1, 3]
            for m in list(cluster.received[3][before:])
        )
    )


def test_whole_isr_dead_keeps_isr_and_first_to_return_leads(cluster: Cluster) -> None:
    cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    state = cluster.await_leader("t", 2)
    first = cluster.active()
    answer = alter(first, state, {2: second.epoch}, second.epoch, "tAAAAAAAAAAAAAAAAAAAAA")
    assert answer.topics[0].partitions[0].isr == [2]
    second.kill()
    cluster.remove(second)
    offline = cluster.await_leader("t", NO_LEADER)
    assert offline.isr == (2,)
    cluster.add(2)
    back = cluster.await_leader("t", 2)
    assert back.leader_epoch == offline.leader_epoch + 1


@pytest.mark.guarantee("C1")
def test_bounced_broker_never_leads_under_old_epoch(cluster: Cluster) -> None:
    cluster.add(1)
    bouncing = cluster.add(2)
    cluster.create_topic("t", {0: (2,)})
    before = cluster.await_leader("t", 2)
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(2))
    cluster.received[2].clear()
    credentials = bouncing.client.credentials
    assert credentials is not None
    end_session(cluster.hosts, RecordedSession(*credentials))
    eventually(lambda: bouncing.client.session_id not in (None, credentials[0]))
    new_epoch = bouncing.registration.register()
    assert new_epoch > bouncing.epoch
    bouncing.controller.registered()
    eventually(lambda: [role for role in cluster.roles(2) if role[2] == 2])
    assert all(role[3] > before.leader_epoch for role in cluster.roles(2) if role[2] == 2)
    assert all(m.broker_epoch == new_epoch for m in cluster.received[2])


@pytest.mark.guarantee("C1")
def test_bounce_without_a_controller_is_seen_by_the_next_one(cluster: Cluster) -> None:
    first = cluster.add(1)
    cluster.create_topic("t", {0: (1,)})
    before = cluster.await_leader("t", 1)
    first.kill()
    cluster.remove(first)
    cluster.received[1].clear()
    cluster.add(1)
    eventually(lambda: cluster.roles(1))
    after = cluster.state("t")
    assert after is not None
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > before.leader_epoch
    assert all(role[3] > before.leader_epoch for role in cluster.roles(1))


def test_stale_state_version_does_not_wedge(cluster: Cluster) -> None:
    """KAFKA-2729: the cached version is old for ever. Here it is read again and the change is made."""
    cluster.add(1)
    dead = cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    state = cluster.await_leader("t", 2)
    path = paths.partition_state(TopicPartition("t", 0))
    cluster.client.set(path, topic_codecs.encode_partition_state(state), state.partition_epoch)
    dead.kill()
    cluster.remove(dead)
    assert cluster.await_leader("t", 1).isr == (1,)


@pytest.mark.guarantee("R6")
def test_alter_partition_writes_once_and_returns_the_new_version(cluster: Cluster) -> None:
    first = cluster.add(1)
    second = cluster.add(2)
    cluster.create_topic("t", {0: (1, 2)})
    state = cluster.await_leader("t", 1)
    id_ = "tAAAAAAAAAAAAAAAAAAAAA"
    answer = alter(first, state, {1: first.epoch}, first.epoch, id_)
    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.isr, row.partition_epoch) == (0, [1], state.partition_epoch + 1)
    again = alter(first, state, {1: first.epoch}, first.epoch, id_).topics[0].partitions[0]
    assert (again.error_code, again.partition_epoch) == (0, row.partition_epoch)
    stored = cluster.state("t")
    assert stored is not None
    assert (stored.isr, stored.partition_epoch) == ((1,), row.partition_epoch)
    back = alter(first, stored, {1: first.epoch, 2: second.epoch - 1}, first.epoch, id_)
    assert back.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    late = alter(first, stored, {1: first.epoch}, first.epoch - 1, id_)
    assert late.error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = alter(first, stored, {1: first.epoch}, first.epoch, "B" * 22)
    assert unknown.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def propagated() -> bool:
        return any(
            part.isr == [1]
            for m in list(cluster.received[2])
            if isinstance(m, UpdateMetadataRequest)
            for topic in m.topic_states
            for part in topic.partition_states
        )

    eventually(propagated, "the ISR change on the other broker")


def test_request_is_repeated_until_broker_takes_it(cluster: Cluster) -> None:
    cluster.add(1)
    eventually(lambda: cluster.nodes[0].controller.active)
    cluster.unreachable.add(2)
    cluster.errors[(2, ApiKey.LEADER_AND_ISR)] = ErrorCode.STALE_BROKER_EPOCH
    cluster.add(2)
    cluster.create_topic("t", {0: (2, 1)})
    cluster.await_leader("t", 2)
    assert not cluster.roles(2)
    cluster.unreachable.clear()
    eventually(lambda: ("t", 0, 2, 0) in cluster.roles(2))


def test_controlled_shutdown_moves_leaders_and_names_what_stays(cluster: Cluster) -> None:
    for id_ in (1, 2):
        cluster.add(id_)
    leaving = cluster.nodes[1]
    cluster.create_topic("moves", {0: (2, 1)})
    cluster.create_topic("stays", {0: (2, 1)})
    cluster.await_leader("moves", 2)
    state = cluster.await_leader("stays", 2)
    alter(cluster.active(), state, {2: leaving.epoch}, leaving.epoch, "staysAAAAAAAAAAAAAAAAA")
    answer: ControlledShutdownResponse = ask(
        lambda on: cluster.active().controller.controlled_shutdown(ControlledShutdownRequest(2, leaving.epoch), on)
    )
    assert answer.error_code == 0
    assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [("stays", 0)]
    moved = cluster.state("moves")
    assert moved is not None
    assert (moved.leader, moved.isr) == (1, (1,))
    late: ControlledShutdownResponse = ask(
        lambda on: cluster.active().controller.controlled_shutdown(ControlledShutdownRequest(2, 1), on)
    )
    assert late.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_broker_that_leaves_is_given_no_new_topic_by_the_next_controller_either(cluster: Cluster) -> None:
    first, leaving, _ = (cluster.add(id_) for id_ in (1, 2, 3))
    assert cluster.active() is first
    answer: ControlledShutdownResponse = ask(
        lambda on: first.controller.controlled_shutdown(ControlledShutdownRequest(2, leaving.epoch), on)
    )
    assert answer.error_code == 0
    first.stop()
    cluster.remove(first)
    cluster.active()
    cluster.create_topic("t", {0: (2, 3)})
    assert cluster.await_leader("t", 3).isr == (3,)
    leaving.stop()
    cluster.remove(leaving)
    cluster.add(2)
    cluster.create_topic("u", {0: (2, 3)})
    assert cluster.await_leader("u", 2).isr == (2, 3)
