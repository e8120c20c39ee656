"""Reassignments, added partitions and asked elections in a controller's term, on a store in memory."""

from __future__ import annotations

from dataclasses import replace

from broker.core.controller.cluster_state import Topic
from broker.core.controller.elr import ReplicaReport
from broker.core.controller.preferred import ElectionType
from broker.model.ids import TopicPartition
from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from broker.wire.messages.stop_replica import StopReplicaRequest
from tests.support.reassigned_cluster import PARTITION, TOPIC_ID, ReassignedCluster


def settled(replicas: tuple[int, ...] = (1, 2, 3), brokers: int = 5) -> ReassignedCluster:
    cluster = ReassignedCluster(replicas, brokers)
    cluster.settle()
    return cluster


def topic(cluster: ReassignedCluster) -> Topic:
    return cluster.data.topics["t"][0]


def write_topic(cluster: ReassignedCluster, changed: Topic) -> None:
    """As a tool does, past the controller."""
    cluster.data.topics["t"] = (changed, cluster.data.topics["t"][1] + 1)


def catch_up(cluster: ReassignedCluster) -> None:
    """Everything arrives, followers fetch, leaders propose who has caught up."""
    for id_ in cluster.nodes:
        while cluster.deliver(id_):
            pass
    for id_ in cluster.nodes:
        cluster.fetch(id_)
    for id_ in cluster.nodes:
        cluster.alter_isr(id_)


def test_new_replica_learns_that_it_is_new_and_the_others_that_they_are_not() -> None:
    cluster = settled()
    assert cluster.reassign((4, 2, 3)) == {PARTITION: None}
    received = {}
    for node in cluster.nodes.values():
        for sent in node.queue:
            if sent.api_key == ApiKey.LEADER_AND_ISR:
                (part,) = LeaderAndIsrRequest.decode(sent.api_version, sent.body).topic_states[0].partition_states
                received[node.id] = (part.is_new, part.adding_replicas, part.removing_replicas, part.replicas)
    listed = ([4], [1], [4, 2, 3, 1])
    assert received == {1: (False, *listed), 2: (False, *listed), 3: (False, *listed), 4: (True, *listed)}


def test_removed_replicas_are_deleted_and_forgotten_only_when_their_responses_have_come() -> None:
    cluster = settled()
    cluster.reassign((4, 2))
    catch_up(cluster)
    assert topic(cluster).partitions == {0: (4, 2)}
    assert topic(cluster).removing == {0: (1, 3)}
    assert cluster.term.admin.reassignments.under_way(None) == {}
    (stop,) = [sent for sent in cluster.nodes[1].queue if sent.api_key == ApiKey.STOP_REPLICA]
    (part,) = StopReplicaRequest.decode(stop.api_version, stop.body).topic_states[0].partition_states
    assert part.delete_partition
    cluster.step(lambda: cluster.term.replicas_deleted(1, [PARTITION]))
    assert topic(cluster).removing == {0: (1, 3)}
    cluster.step(lambda: cluster.term.admin.replicas_kept(3, [PARTITION]))
    assert topic(cluster).removing == {}


def test_removed_replica_that_is_dead_is_not_waited_for() -> None:
    cluster = settled()
    cluster.fail(1)
    cluster.reassign((2, 3))
    assert topic(cluster) == Topic("t", TOPIC_ID, {0: (2, 3)})


def test_cancel_that_would_leave_nobody_in_sync_is_refused() -> None:
    cluster = settled()
    cluster.fail(5)
    cluster.start(5)
    cluster.reassign((4, 5))
    cluster.fail(5)
    catch_up(cluster)
    for id_ in (1, 2, 3):
        cluster.fail(id_)
        catch_up(cluster)
    assert cluster.data.states[PARTITION].state.isr == (4,)
    results = cluster.reassign(None)
    assert isinstance(results, dict)
    error, text = results[PARTITION]
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "every live in-sync replica would be removed" in text
    assert cluster.data.states[PARTITION].state.leader == 4


def test_report_of_a_deleted_log_does_not_count_for_the_next() -> None:
    cluster = settled()
    cluster.term.state.reports[(PARTITION, 4)] = ReplicaReport(unclean=False, last_epoch=9, end_offset=1000)
    cluster.reassign((4, 2, 3))
    assert (PARTITION, 4) not in cluster.term.state.reports


def test_topic_that_is_deleted_while_it_moves_loses_all_its_logs() -> None:
    cluster = settled()
    cluster.reassign((4, 2))
    catch_up(cluster)
    cluster.data.deletions.add("t")
    cluster.step(cluster.term.deletions_changed)
    deleted = {
        node.id
        for node in cluster.nodes.values()
        for sent in node.queue
        if sent.api_key == ApiKey.STOP_REPLICA and PARTITION in sent.deletes
    }
    assert deleted == {1, 2, 3, 4}
    for id_ in deleted:
        cluster.step(lambda id_=id_: cluster.term.replicas_deleted(id_, [PARTITION]))
    assert cluster.term.finish_deletions().keys() == {"t"}
    results = cluster.reassign((1, 2))
    assert isinstance(results, dict)
    assert results[PARTITION] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


def test_znode_of_a_tool_is_done_partition_by_partition_and_again_after_a_failover() -> None:
    cluster = settled()
    cluster.data.reassignments = {PARTITION: (4, 2, 3), TopicPartition("no", 0): (1,), TopicPartition("t", 9): (1,)}
    cluster.step(cluster.term.admin.reassignments.on_request)
    assert cluster.data.reassignments == {PARTITION: (4, 2, 3)}
    cluster.die_at(1, landed=False)
    catch_up(cluster)
    assert cluster.deaths == 1
    catch_up(cluster)
    cluster.settle()
    assert topic(cluster) == Topic("t", TOPIC_ID, {0: (4, 2, 3)})
    assert cluster.data.reassignments is None


def test_later_request_of_a_client_wins_over_the_znode() -> None:
    cluster = settled()
    cluster.data.reassignments = {PARTITION: (4, 2, 3)}
    cluster.step(cluster.term.admin.reassignments.on_request)
    cluster.reassign((5, 2, 3))
    assert cluster.data.reassignments is None
    cluster.settle()
    assert topic(cluster) == Topic("t", TOPIC_ID, {0: (5, 2, 3)})
    assert cluster.nodes[4].log is None


def test_assignment_that_someone_else_wrote_meanwhile_is_read_and_decided_anew() -> None:
    cluster = settled()
    write_topic(cluster, replace(topic(cluster), partitions={0: (1, 2, 3), 1: (2, 3)}))
    assert cluster.reassign((4, 2, 3)) == {PARTITION: None}
    assert topic(cluster).partitions == {0: (4, 2, 3, 1), 1: (2, 3)}


def test_partitions_that_are_added_get_leaders_and_others_keep_what_they_have() -> None:
    cluster = settled()
    cluster.reassign((4, 2, 3))
    write_topic(cluster, replace(topic(cluster), partitions={0: (1,), 1: (5, 2), 2: (9,)}))
    cluster.step(lambda: cluster.term.admin.topics_rewritten({"t"}))
    added = cluster.data.states[TopicPartition("t", 1)].state
    assert (added.leader, added.isr) == (5, (5, 2))
    assert TopicPartition("t", 2) not in cluster.data.states
    assert cluster.term.state.replicas(PARTITION) == (4, 2, 3, 1)


def test_partitions_that_a_reassignment_found_first_get_leaders_all_the_same() -> None:
    cluster = settled()
    write_topic(cluster, replace(topic(cluster), partitions={0: (1, 2, 3), 1: (2, 3)}))
    cluster.reassign((4, 2, 3))
    cluster.step(lambda: cluster.term.admin.topics_rewritten({"t"}))
    assert cluster.data.states[TopicPartition("t", 1)].state.leader == 2


def test_preferred_election_on_request_is_done_once() -> None:
    cluster = settled()
    cluster.fail(1)
    cluster.start(1)
    cluster.settle()
    assert cluster.data.states[PARTITION].state.leader == 2
    cluster.data.elections = [PARTITION, TopicPartition("no", 0)]
    cluster.step(cluster.term.admin.elections.on_request)
    assert cluster.data.states[PARTITION].state.leader == 1
    assert cluster.data.elections is None
    results = cluster.term.admin.elections.elect(None, ElectionType.PREFERRED)
    assert results == {PARTITION: (ErrorCode.ELECTION_NOT_NEEDED, None)}


def test_rebalance_moves_leadership_only_beyond_the_percentage() -> None:
    cluster = settled()
    cluster.fail(1)
    cluster.start(1)
    cluster.settle()
    cluster.term.admin.elections.rebalance(100)
    assert cluster.data.states[PARTITION].state.leader == 2
    cluster.term.admin.elections.rebalance(99)
    assert cluster.data.states[PARTITION].state.leader == 1


def test_rebalance_goes_on_while_partitions_are_reassigned() -> None:
    # A reassignment takes hours, and a broker that crashes meanwhile gets its leaderships back all the same:
    # KAFKA-10149, since Kafka 3.4.
    cluster = settled()
    cluster.fail(1)
    cluster.start(1)
    cluster.settle()
    cluster.reassign((1, 2, 4))
    assert cluster.term.admin.reassignments.under_way(None)
    cluster.term.admin.elections.rebalance(99)
    assert cluster.data.states[PARTITION].state.leader == 1
    assert cluster.term.admin.reassignments.under_way(None)
