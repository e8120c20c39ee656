"""What a controller said earlier, of a topic that is gone, comes after what it said later."""

from __future__ import annotations

from dataclasses import replace

from broker.core.controller.cluster_state import Broker, ClusterState, LeaderAndIsr, Topic
from broker.model.ids import TopicPartition
from broker.runtime.controller.request_batch import STOP_REPLICA_VERSION, RequestBatch
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import fetch
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from tests.support.memory_cluster import MemoryCluster
from tests.support.memory_node import TOPIC, TOPIC_ID

NEW_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
DELETED = -2


def roles(cluster: MemoryCluster, topic_id: str) -> LeaderAndIsrRequest:
    request = cluster.leader_and_isr(cluster.state, cluster.registered[1])
    request.controller_epoch = cluster.controller_epoch
    request.topic_states[0].topic_id = topic_id
    request.topic_states[0].partition_states[0].is_new = True
    return request


def apply(cluster: MemoryCluster, topic_id: str) -> int:
    answer = cluster.apply(1, roles(cluster, topic_id))
    return answer.topics[0].partition_errors[0].error_code


def stop(cluster: MemoryCluster, topic_id: str, leader_epoch: int = DELETED) -> int:
    request = StopReplicaRequest(
        9,
        False,
        cluster.controller_epoch,
        cluster.registered[1],
        [StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, leader_epoch, True)], topic_id)],
    )
    request = StopReplicaRequest.decode(STOP_REPLICA_VERSION, request.encode(STOP_REPLICA_VERSION))
    return cluster.nodes[1].up.stop_replicas(request).partition_errors[0].error_code


def settled() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.settle()
    cluster.produce(1, "a")
    cluster.settle()
    return cluster


def test_leader_and_isr_of_a_replaced_topic_leaves_the_new_ones_log_alone() -> None:
    cluster = settled()
    assert apply(cluster, NEW_ID) == ErrorCode.NONE
    cluster.produce(1, "new", acks=1)
    assert apply(cluster, TOPIC_ID) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert (cluster.nodes[1].log.topic_id, cluster.nodes[1].log.values()) == (NEW_ID, ["new"])


def test_log_that_gives_way_to_another_topic_id_is_not_deleted() -> None:
    # Nobody said that the topic was deleted: a tool may have lost its id (KAFKA-14190).
    cluster = settled()
    assert apply(cluster, NEW_ID) == ErrorCode.NONE
    store = cluster.nodes[1].store
    assert [(log.topic_id, log.values()) for log in store.strays] == [(TOPIC_ID, ["a"])]
    assert stop(cluster, NEW_ID) == ErrorCode.NONE
    assert not store.logs()
    assert len(store.strays) == 1, "what the controller wants deleted is"


def test_leader_and_isr_of_a_deleted_topic_makes_no_log() -> None:
    cluster = settled()
    assert stop(cluster, TOPIC_ID) == ErrorCode.NONE
    assert apply(cluster, TOPIC_ID) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert not cluster.nodes[1].store.logs()


def test_deletion_of_a_replaced_topic_leaves_the_new_ones_log_alone() -> None:
    cluster = settled()
    assert apply(cluster, NEW_ID) == ErrorCode.NONE
    cluster.produce(1, "new", acks=1)
    assert stop(cluster, TOPIC_ID) == ErrorCode.NONE
    assert cluster.nodes[1].log.values() == ["new"]
    assert cluster.nodes[1].up.replicas.by_partition[(TOPIC, 0)].leader is not None


def test_replica_that_was_moved_away_may_come_back() -> None:
    cluster = settled()
    assert stop(cluster, TOPIC_ID, leader_epoch=0) == ErrorCode.NONE
    assert not cluster.nodes[1].store.logs()
    assert apply(cluster, TOPIC_ID) == ErrorCode.NONE
    assert cluster.nodes[1].log.topic_id == TOPIC_ID


def test_move_away_of_an_older_leader_epoch_is_fenced() -> None:
    cluster = settled()
    cluster.elect(1)
    cluster.settle()
    assert stop(cluster, TOPIC_ID, leader_epoch=0) == ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.nodes[1].log.values() == ["a"]


def test_new_controllers_update_counts_on_a_topic_that_the_one_before_deleted() -> None:
    cluster = settled()
    stop(cluster, TOPIC_ID)
    cluster.controller_epoch = 2
    assert apply(cluster, TOPIC_ID) == ErrorCode.NONE


def test_stop_replica_names_the_topic_by_id_and_its_leader_epoch_unless_the_topic_goes() -> None:
    moved, doomed = TopicPartition("moved", 0), TopicPartition("doomed", 0)
    state = ClusterState(
        brokers={1: Broker(1, 7, ())},
        topics={name: Topic(name, id_, {0: (1,)}) for name, id_ in (("moved", TOPIC_ID), ("doomed", NEW_ID))},
        states={tp: LeaderAndIsr(2, 5, (2,), 1, 3) for tp in (moved, doomed)},
        deleting={"doomed"},
    )
    batch = RequestBatch(9, 1)
    batch.stop_replica(1, moved, delete=True)
    batch.stop_replica(1, doomed, delete=True)
    (outgoing,) = batch.encode(state)
    request = StopReplicaRequest.decode(STOP_REPLICA_VERSION, outgoing.body)
    said = [(t.topic_name, t.topic_id, t.partition_states[0].leader_epoch) for t in request.topic_states]
    assert said == [("doomed", NEW_ID, DELETED), ("moved", TOPIC_ID, 5)]


def test_fetch_by_the_id_of_a_replaced_topic_is_of_an_unknown_topic() -> None:
    cluster = settled()
    manager = cluster.nodes[1].up

    def both(topic_id: str) -> None:
        request = roles(cluster, topic_id)
        (first,) = request.topic_states[0].partition_states
        request.topic_states[0].partition_states.append(replace(first, partition_index=1, leader_epoch=9))
        first.leader_epoch = 9
        cluster.apply(1, request)

    def error(partition: int) -> int:
        asked = fetch.FetchPartition(topic_id=TOPIC_ID, partition=partition)
        slot = cluster.request(
            1, ApiKey.FETCH, 13, fetch.encode_request(13, fetch.FetchRequest(max_wait_ms=0, partitions=[asked]))
        )
        assert slot.response is not None
        return fetch.decode_response(13, memoryview(slot.response)[5:]).results[0].error

    both(TOPIC_ID)
    assert (error(0), error(1)) == (0, 0)
    assert apply(cluster, NEW_ID) == ErrorCode.NONE
    # Partition 1 is still the old topic's.
    assert (error(0), error(1)) == (ErrorCode.UNKNOWN_TOPIC_ID, 0)
    both(NEW_ID)
    assert manager.replicas.topic_of_id(TOPIC_ID) == ""
    assert (error(0), error(1)) == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)
