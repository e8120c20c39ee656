"""Elections that are requested, not caused by a failure: preferred leaders, unclean ones by hand, balance. No I/O.

A preferred leader is the first assigned replica; it is elected only while it is live and in the ISR. An unclean
election by hand prefers a live ISR member all the same, and is refused where somebody leads, or where a member of ISR
or ELR is only suspected.
Source: KafkaController.processReplicaLeaderElection, checkAndTriggerAutoLeaderRebalance; KIP-460.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum

from broker.core.controller import election
from broker.core.controller.cluster_state import NO_LEADER, ClusterState, LeaderAndIsr
from broker.core.controller.decisions import ELIGIBLE, LONGEST_LOG, OFFLINE, PREFERRED, UNCLEAN, Change
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.wire.errors import ErrorCode


class ElectionType(IntEnum):
    """As ElectLeaders says it."""

    PREFERRED = 0
    UNCLEAN = 1


_STRATEGY = {
    ElectionType.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    ElectionType.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
}
_NOBODY = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def refusal(
    state: ClusterState, topic_partition: TopicPartition, kind: ElectionType
) -> tuple[ErrorCode, str | None] | None:
    """Why an election of this partition does not take place; None where `elect` elects."""
    replicas = state.replicas(topic_partition)
    current = state.states.get(topic_partition)
    if not replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if topic_partition.topic in state.deleting:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    if current is not None and not _needed(state, current, replicas, kind):
        return ErrorCode.ELECTION_NOT_NEEDED, None
    if current is None or _elected(state, topic_partition, current, kind) is None:
        return _NOBODY[kind], f"Failed to elect leader for partition {topic_partition} under strategy {_STRATEGY[kind]}"
    return None


def elect(
    state: ClusterState, wanted: Iterable[TopicPartition], kind: ElectionType, controller_epoch: Epoch
) -> list[Change]:
    """Changes for those of the partitions where an election is needed and possible."""
    changes = []
    for topic_partition in wanted:
        if refusal(state, topic_partition, kind) is not None:
            continue
        before = state.states[topic_partition]
        after = _elected(state, topic_partition, before, kind)
        assert after is not None
        reason = PREFERRED
        if kind is ElectionType.UNCLEAN:
            if after.lossy:
                reason = LONGEST_LOG if after.leader in before.isr else UNCLEAN
            else:
                reason = OFFLINE if after.leader in before.isr else ELIGIBLE
        changes.append(Change(topic_partition, before, replace(after, controller_epoch=controller_epoch), reason))
    return changes


def imbalanced(state: ClusterState, percentage: int) -> list[TopicPartition]:
    """Partitions whose preferred leader does not lead, of brokers for which these are more than percentage."""
    preferred: dict[BrokerId, int] = defaultdict(int)
    astray: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for topic_partition, replicas in state.partitions():
        if topic_partition.topic in state.deleting or not replicas:
            continue
        preferred[replicas[0]] += 1
        current = state.states.get(topic_partition)
        if current is not None and current.leader != replicas[0]:
            astray[replicas[0]].append(topic_partition)
    return [
        topic_partition
        for broker, partitions in astray.items()
        if 100 * len(partitions) > percentage * preferred[broker]
        for topic_partition in partitions
    ]


def _needed(state: ClusterState, current: LeaderAndIsr, replicas: tuple[BrokerId, ...], kind: ElectionType) -> bool:
    if kind is ElectionType.PREFERRED:
        return current.leader != replicas[0]
    return current.leader == NO_LEADER or current.leader not in state.brokers


def _elected(
    state: ClusterState, topic_partition: TopicPartition, current: LeaderAndIsr, kind: ElectionType
) -> LeaderAndIsr | None:
    replicas = state.replicas(topic_partition)
    live = state.live_for(topic_partition)
    if kind is ElectionType.PREFERRED:
        return election.preferred(current, replicas, live)
    unclean = not state.member_is_suspected(topic_partition)
    return election.elect(current, replicas, live, unclean, reports=state.report_of(topic_partition))
