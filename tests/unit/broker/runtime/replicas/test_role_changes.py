"""LeaderAndIsr and StopReplica: what is refused, which log a role is taken up with, and when none is taken up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.model.ids import TopicPartition
from broker.model.log_errors import LogDirFailed
from broker.runtime.requests.request import Request
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC, FakeSlot
from tests.support.settled_cluster import settled

T0 = TopicPartition(TOPIC, 0)


def test_leader_and_isr_for_another_registration_is_refused() -> None:
    cluster = settled()
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, 5))
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_leader_and_isr_of_an_old_controller_is_refused() -> None:
    cluster = settled()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.controller_epoch = 0
    assert cluster.apply(1, request).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


def test_leader_and_isr_of_known_state_changes_nothing() -> None:
    cluster = settled()
    before = cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].partition.role
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].partition.role is before


def test_partition_that_cannot_be_gets_no_log() -> None:
    cluster = settled()
    for name, partition in [("../t", 0), ("..", 0), ("", 0), ("t", -1)]:
        request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
        request.topic_states[0].topic_name = name
        request.topic_states[0].partition_states[0].partition_index = partition
        answer = cluster.apply(1, request)
        assert answer.topics[0].partition_errors[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(cluster.nodes[1].up.replicas.by_partition) == {T0}


def test_restarted_broker_never_leads_under_its_earlier_epoch() -> None:
    cluster = settled()
    cluster.produce(1, "a")
    cluster.settle()
    cluster.kill(1)
    cluster.start(1, tell=False)
    answer = cluster.apply(1, cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    result = produced(cluster.produce(1, "b"))
    assert result is not None
    assert result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_stop_replica_with_delete_removes_the_log() -> None:
    from broker.wire.messages.stop_replica import (
        StopReplicaPartitionState,
        StopReplicaRequest,
        StopReplicaTopicState,
    )

    cluster = settled()
    node = cluster.nodes[2]
    request = StopReplicaRequest(
        9, False, 1, node.broker_epoch, [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, -2, True)])]
    )
    assert node.up.stop_replicas(request).partition_errors[0].error_code == 0
    assert not node.store.logs()
    assert (TOPIC, 0) not in node.up.replicas.by_partition


def test_log_with_another_topic_id_that_the_partition_rests_on_is_kept_and_goes_offline() -> None:
    cluster = settled()
    cluster.produce(1, "kept")
    cluster.settle()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.topic_states[0].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    answer = cluster.apply(1, request)
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.nodes[1].log.values() == ["kept"]
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].damaged


def test_deleted_topics_log_gives_way_to_a_new_topic_of_that_name() -> None:
    cluster = settled()
    cluster.produce(1, "old")
    cluster.settle()
    request = cluster.leader_and_isr(cluster.state, cluster.nodes[1].broker_epoch)
    request.topic_states[0].topic_id = "BBBBBBBBBBBBBBBBBBBBBQ"
    request.topic_states[0].partition_states[0].is_new = True
    cluster.apply(1, request)
    assert cluster.nodes[1].log.values() == []
    assert cluster.nodes[1].log.topic_id == "BBBBBBBBBBBBBBBBBBBBBQ"


@pytest.mark.parametrize("leader", [1, 2])
def test_role_is_not_taken_up_by_a_log_whose_last_write_as_leader_fails(leader: int) -> None:
    cluster = settled()
    node = cluster.nodes[1]
    replica = node.up.replicas.by_partition[(TOPIC, 0)]
    # Staged in the very turn in which the next role comes.
    slot = FakeSlot()
    batch = memoryview(bytearray(encode_batch([NewRecord(None, b"a")], timestamps=1)))
    part = produce.ProducePartition(TOPIC, 0, batch)
    body = produce.encode_request(9, produce.ProduceRequest(None, 1, 30000, [part]))
    cluster.dispatch(node, Request(ApiKey.PRODUCE, 9, 7, "client", memoryview(bytearray(body)), slot, True))
    assert replica.dirty
    node.log.fail_writes = True
    state = replace(cluster.state, leader=leader, leader_epoch=1, partition_epoch=1)
    answer = cluster.apply(1, cluster.leader_and_isr(state, cluster.registered[1]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.offline
    assert replica.partition.role is None
    assert not any(fetcher.follows(replica) for fetcher in node.up.fetchers.fetchers.values())
    cluster.settle()
    result = produced(slot)
    assert result is not None
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("failure", [LogDirFailed("/data", 5, "Input/output error"), OSError(5, "Input/output error")])
def test_leadership_that_the_log_cannot_note_is_none(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    node = cluster.nodes[2]

    def fails(epoch: int, start_offset: int) -> None:
        raise failure

    monkeypatch.setattr(node.log, "assign_epoch", fails)
    state = replace(cluster.state, leader=2, leader_epoch=1, partition_epoch=1)
    answer = cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.up.replicas.by_partition[(TOPIC, 0)].partition.role is None


def test_role_that_an_error_of_the_broker_keeps_from_being_taken_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = settled()
    node = cluster.nodes[2]

    def fails(epoch: int, start_offset: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(node.log, "assign_epoch", fails)
    state = replace(cluster.state, leader=2, leader_epoch=1, partition_epoch=1)
    answer = cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    replica = node.up.replicas.by_partition[T0]
    assert (replica.partition.role, replica.offline) == (None, False)


def test_leader_knows_from_the_first_which_brokers_are_alive() -> None:
    """A follower that is not may not join its ISR, whatever it fetches."""
    cluster = MemoryCluster(2)
    cluster.settle()
    cluster.nodes[1].up.on_live_brokers({1})
    cluster.state = replace(cluster.state, leader=1, leader_epoch=1, partition_epoch=1, isr=(1,))
    cluster.tell_all()
    cluster.advance(5_000)
    assert set(cluster.state.isr) == {1}
    cluster.nodes[1].up.on_live_brokers({1, 2})
    cluster.advance(5_000)
    assert set(cluster.state.isr) == {1, 2}


def test_log_that_is_elected_vouches_for_what_it_has() -> None:
    cluster = settled()
    node = cluster.nodes[2]
    node.store.mark_unclean(T0, "power failure")
    state = replace(cluster.state, leader=1, leader_epoch=1, partition_epoch=1)
    cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert T0 in node.store.unclean, "a follower has to be let into the ISR first"
    state = replace(state, leader=2, leader_epoch=2, partition_epoch=2)
    cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert T0 not in node.store.unclean


@pytest.mark.parametrize(("isr", "noted"), [((1,), True), ((1, 2), False)])
def test_log_made_anew_for_an_old_partition_is_noted_where_the_isr_lacks_its_broker(
    isr: tuple[int, ...], noted: bool
) -> None:
    """Once this broker is let in from outside the log has all that counts; a member was never outside."""
    cluster = MemoryCluster(2)
    cluster.settle()
    cluster.kill(2)
    cluster.nodes[2].store.delete(T0)
    cluster.start(2, tell=False)
    node = cluster.nodes[2]
    state = replace(cluster.state, isr=isr, leader_epoch=1, partition_epoch=1)
    cluster.apply(2, cluster.leader_and_isr(state, cluster.registered[2]))
    assert T0 in node.store.unclean
    assert node.up.remade_logs.outside == ({T0: cluster.registered[2]} if noted else {})
