"""Whether the controller takes an ISR that a leader proposes. Pure.

Only the registered incarnation of the partition's leader may propose, under the leader's epoch and the newest partition
epoch; every member must be a live assigned replica, and a member that joins must be the incarnation that the leader saw
catching up. A proposal of the ISR that already stands changes nothing, and its response holds that ISR: a repeated
request is harmless. Source: KafkaController.tryProcessAlterPartition; KIP-497, 841, 903; ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.core.controller.cluster_state import NO_BROKER_EPOCH, ClusterState, LeaderAndIsr
from broker.model.ids import BrokerId, Epoch, TopicPartition
from broker.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Proposal:
    """One partition of an AlterPartition request. isr: member → broker epoch, −1 where the leader does not say."""

    topic_partition: TopicPartition
    leader_epoch: Epoch
    partition_epoch: int
    isr: Mapping[BrokerId, int]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Accepted: to be written on top of `before`."""

    before: LeaderAndIsr
    after: LeaderAndIsr


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The partition is in that state already."""

    current: LeaderAndIsr


def check_sender(state: ClusterState, sender: BrokerId, sender_epoch: int) -> ErrorCode:
    """Whether the sender is the registered incarnation."""
    return ErrorCode.NONE if state.is_registered(sender, sender_epoch) else ErrorCode.STALE_BROKER_EPOCH


def decide(
    state: ClusterState, sender: BrokerId, proposal: Proposal, epochs_required: bool, controller_epoch: Epoch
) -> Write | Unchanged | ErrorCode:
    """epochs_required: the request's version carries broker epochs, so a joiner without one is refused."""
    current = state.states.get(proposal.topic_partition)
    replicas = state.replicas(proposal.topic_partition)
    if current is None or not replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if proposal.leader_epoch > current.leader_epoch or proposal.partition_epoch > current.partition_epoch:
        # The leader knows a newer state than this broker: another is probably controller by now.
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if current.leader != sender or sender not in proposal.isr or not proposal.isr.keys() <= set(replicas):
        return ErrorCode.INVALID_REQUEST
    if proposal.isr.keys() == set(current.isr) and proposal.recovering == current.recovering:
        return Unchanged(current)
    if proposal.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if proposal.recovering and (len(proposal.isr) > 1 or not current.recovering):
        return ErrorCode.INVALID_REQUEST
    if any(not _eligible(state, current, id_, epoch, epochs_required) for id_, epoch in proposal.isr.items()):
        return ErrorCode.INELIGIBLE_REPLICA
    isr = tuple(broker for broker in replicas if broker in proposal.isr)
    return Write(current, replace(current, isr=isr, recovering=proposal.recovering, controller_epoch=controller_epoch))


def _eligible(state: ClusterState, current: LeaderAndIsr, member: BrokerId, epoch: int, epochs_required: bool) -> bool:
    broker = state.brokers.get(member)
    if broker is None:
        return False
    joins = member not in current.isr
    if joins and member in state.shutting_down:
        return False
    if epoch == NO_BROKER_EPOCH:
        return not (joins and epochs_required)
    return epoch == broker.epoch
