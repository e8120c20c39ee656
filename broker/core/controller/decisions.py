"""The controller's decisions: an event and the cluster's state in, partition changes out. No I/O; nothing is applied.

The runtime writes each change to ZooKeeper under a check of controller epoch and partition epoch, applies what was
written, and tells the brokers. Invariants of every change: the leader epoch is larger than before, the ISR is a
non-empty subset of the assignment, the leader is an ISR member or NO_LEADER.
A bounced broker (same id, new registration) is a failure and then a start.
Source: kafka.controller.KafkaController.onBrokerFailure, onBrokerStartup, doControlledShutdown.
C1 and C3 of docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from broker.core.controller import election
from broker.core.controller.cluster_state import NO_BROKER_EPOCH, NO_LEADER, Broker, ClusterState, LeaderAndIsr
from broker.model.ids import BrokerId, Epoch, TopicPartition

OFFLINE = "offline"
UNCLEAN = "unclean"
ELIGIBLE = "eligible"
LONGEST_LOG = "longest-log"
NEW_TOPIC = "new-topic"
REPLICA_OFFLINE = "replica-offline"
CONTROLLED_SHUTDOWN = "controlled-shutdown"
PREFERRED = "preferred"
MIN_ISR = "min-isr"
SUSPECTED = "suspected"


@dataclass(frozen=True, slots=True)
class Change:
    """One partition's decided state. before None: the znode is to be created. reason: as in the event log."""

    topic_partition: TopicPartition
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    reason: str


class BrokerChanges(NamedTuple):
    """What one read of the registrations says against what was known. A bounced broker is in both sets."""

    failed: frozenset[BrokerId]
    started: frozenset[BrokerId]
    updated: frozenset[BrokerId]
    """Same registration, other endpoints or rack."""


def compare_brokers(known: Mapping[BrokerId, Broker], found: Mapping[BrokerId, Broker]) -> BrokerChanges:
    """Failures, starts and updates between two reads; a broker epoch that differs is another registration."""
    bounced = {id_ for id_, broker in found.items() if id_ in known and known[id_].epoch != broker.epoch}
    return BrokerChanges(
        failed=frozenset(known.keys() - found.keys() | bounced),
        started=frozenset(found.keys() - known.keys() | bounced),
        updated=frozenset(id_ for id_ in found.keys() & known.keys() - bounced if known[id_] != found[id_]),
    )


def registered_since(
    current: LeaderAndIsr, written: int, replicas: Iterable[BrokerId], brokers: Mapping[BrokerId, Broker]
) -> set[BrokerId]:
    """Replicas that were admitted to ISR or ELR in an earlier incarnation: they ended and came back without the
    controller's notice.

    written: the transaction that wrote the state last; a registration that is newer was not granted it. One that is
    older may not have been either: the writer had not heard of it yet. So the registrations that the state itself
    names count as well, where it names any (Kafka's controllers do not write them).
    """
    return {
        broker
        for broker in replicas
        if broker in brokers
        and (
            brokers[broker].epoch > written
            or current.isr_epochs.get(broker, brokers[broker].epoch) != brokers[broker].epoch
        )
    }


def with_isr_epochs(
    current: LeaderAndIsr, bounced: AbstractSet[BrokerId], brokers: Mapping[BrokerId, Broker]
) -> LeaderAndIsr:
    """A state as it was read, with what is to be remembered of its members where it does not say so itself.

    A write that comes before `bounced` was judged must not vouch for these.
    """
    epochs = {
        member: current.isr_epochs.get(
            member, NO_BROKER_EPOCH if member in bounced or member not in brokers else brokers[member].epoch
        )
        for member in current.isr
    }
    return replace(current, isr_epochs=epochs)


def brokers_failed(state: ClusterState, failed: AbstractSet[BrokerId], controller_epoch: Epoch) -> list[Change]:
    """One batch for brokers that failed together. `state.brokers` no longer has them."""
    assert failed.isdisjoint(state.brokers)
    gone = frozenset(failed)
    found = (_without(state, topic_partition, gone, controller_epoch) for topic_partition in state.partitions_of(gone))
    return [change for change in found if change is not None]


def replicas_failed(
    state: ClusterState, failed: Iterable[TopicPartition], broker: BrokerId, controller_epoch: Epoch
) -> list[Change]:
    """A live broker cannot use its files of these partitions; `state.offline` has them already."""
    gone = frozenset((broker,))
    failed = list(failed)
    assert all((topic_partition, broker) in state.offline for topic_partition in failed)
    found = (_without(state, topic_partition, gone, controller_epoch) for topic_partition in failed)
    return [change for change in found if change is not None]


def epochs_refused(
    state: ClusterState, refused: Mapping[TopicPartition, Epoch], broker: BrokerId, controller_epoch: Epoch
) -> list[Change]:
    """Partitions whose LeaderAndIsr a live broker refused get a new leader epoch.

    A broker that refuses to lead may have led under that epoch before it ended: the controller saw neither its end nor
    its start, because a state that was written after its new registration looked as if that registration had been
    admitted. One that refuses to follow has to discard its log, which the leader may just have seen whole: whatever
    that leader still proposes under the epoch has to fail.
    """
    found = (_refused(state, tp, leader_epoch, broker, controller_epoch) for tp, leader_epoch in refused.items())
    return [change for change in found if change is not None]


def elect_offline(state: ClusterState, controller_epoch: Epoch) -> list[Change]:
    """Leaders for all partitions that have none, and first states for new ones, as far as live replicas allow."""
    changes = []
    for topic_partition, replicas in state.partitions():
        if topic_partition.topic in state.deleting or topic_partition in state.unreadable:
            continue
        current = state.states.get(topic_partition)
        if current is None:
            first = election.initial(replicas, state.live_for(topic_partition), controller_epoch)
            if first is not None:
                changes.append(Change(topic_partition, None, first, NEW_TOPIC))
        elif current.leader == NO_LEADER or current.leader not in state.brokers:
            change = _without(state, topic_partition, frozenset((current.leader,)), controller_epoch)
            if change is not None:
                changes.append(change)
    return changes


def failover(
    state: ClusterState,
    bounced: Mapping[TopicPartition, AbstractSet[BrokerId]],
    controller_epoch: Epoch,
) -> list[Change]:
    """What a new controller changes after it read everything.

    bounced: as `registered_since` says, of each partition.
    """
    changes = []
    for topic_partition, replicas in state.partitions():
        ended = bounced.get(topic_partition, frozenset())
        gone = frozenset(replica for replica in replicas if replica not in state.brokers or replica in ended)
        change = _after_bounce(state, topic_partition, gone, controller_epoch)
        if change is not None:
            changes.append(change)
    return changes + [change for change in elect_offline(state, controller_epoch) if change.before is None]


def broker_shutdown(state: ClusterState, stopping: BrokerId, controller_epoch: Epoch) -> list[Change]:
    """Moves every leadership and ISR place of a broker that asked to stop; `state.shutting_down` has it already."""
    assert stopping in state.shutting_down
    changes = []
    for topic_partition in state.partitions_of((stopping,)):
        live = state.live_for(topic_partition)
        current = state.states.get(topic_partition)
        replicas = state.replicas(topic_partition)
        if current is None or len(replicas) < 2 or topic_partition.topic in state.deleting:
            continue
        after = election.for_shutdown(current, replicas, live, stopping)
        if after is not None:
            after = replace(after, controller_epoch=controller_epoch)
            changes.append(Change(topic_partition, current, after, CONTROLLED_SHUTDOWN))
    return changes


def remaining_leaderships(state: ClusterState, broker: BrokerId) -> list[TopicPartition]:
    """Replicated partitions that a broker still leads: what its controlled shutdown waits for.

    None of topics that are being deleted: nobody leads these on, and a deletion may wait for a broker that is dead.
    Source: ControllerContext.partitionLeadersOnBroker.
    """
    return [
        topic_partition
        for topic_partition, current in state.states.items()
        if current.leader == broker
        and len(state.replicas(topic_partition)) > 1
        and topic_partition.topic not in state.deleting
    ]


def offline_replicas(state: ClusterState, topic_partition: TopicPartition) -> list[BrokerId]:
    """Assigned replicas whose broker is not registered, or whose files failed, as UpdateMetadata tells."""
    return [
        broker
        for broker in state.replicas(topic_partition)
        if broker not in state.brokers or (topic_partition, broker) in state.offline
    ]


def drop_elrs(state: ClusterState, topic: str, controller_epoch: Epoch) -> list[Change]:
    """After a smaller min.insync.replicas: an ISR that meets it may commit what its ELR does not have."""
    return [
        Change(
            topic_partition,
            current,
            replace(current.changed(current.leader, current.isr), controller_epoch=controller_epoch),
            MIN_ISR,
        )
        for topic_partition, current in state.states.items()
        if topic_partition.topic == topic and current.elr and len(current.isr) >= state.min_isr_of(topic_partition)
    ]


def _without(
    state: ClusterState, topic_partition: TopicPartition, gone: AbstractSet[BrokerId], epoch: Epoch
) -> Change | None:
    """One partition after brokers, or their files, failed; None where nothing changes."""
    current = state.states.get(topic_partition)
    if current is None or topic_partition.topic in state.deleting:
        return None
    unclean = state.may_lose(topic_partition)
    replicas, live = state.replicas(topic_partition), state.live_for(topic_partition)
    after = election.after_failure(current, replicas, live, gone, unclean, state.report_of(topic_partition))
    return None if after is None else _change(topic_partition, current, after, epoch, unclean)


def _refused(
    state: ClusterState, topic_partition: TopicPartition, refused_epoch: Epoch, broker: BrokerId, epoch: Epoch
) -> Change | None:
    """One partition after a broker refused this leader epoch; None where the partition has another by now."""
    current = state.states.get(topic_partition)
    if current is None or current.leader_epoch != refused_epoch or broker not in state.replicas(topic_partition):
        return None
    if current.leader == broker or broker in current.isr:
        return _after_bounce(state, topic_partition, frozenset((broker,)), epoch)
    if current.leader == NO_LEADER or topic_partition.topic in state.deleting:
        return None
    after = replace(current.changed(current.leader, current.isr), controller_epoch=epoch)
    return Change(topic_partition, current, after, REPLICA_OFFLINE)


def _after_bounce(
    state: ClusterState, topic_partition: TopicPartition, gone: AbstractSet[BrokerId], epoch: Epoch
) -> Change | None:
    """The same where some of `gone` are back already, unnoticed: replicas that stayed lead before those."""
    current = state.states.get(topic_partition)
    if current is None or topic_partition.topic in state.deleting:
        return None
    unclean, reports = state.may_lose(topic_partition), state.report_of(topic_partition)
    replicas, live = state.replicas(topic_partition), state.live_for(topic_partition)
    after = election.after_failure(current, replicas, live - gone, gone, False, reports)
    if (after or current).leader == NO_LEADER:
        # Nobody but those that bounced: their start, which has happened already, may elect them anew.
        after = election.elect(current, replicas, live, unclean, reports) or after
    return None if after is None else _change(topic_partition, current, after, epoch, unclean)


def _change(
    topic_partition: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr, epoch: Epoch, unclean: bool
) -> Change:
    if after.lossy:
        reason = UNCLEAN if unclean and after.leader not in before.isr else LONGEST_LOG
    elif after.leader == before.leader and after.leader != NO_LEADER:
        reason = REPLICA_OFFLINE
    elif after.leader not in (NO_LEADER, *before.isr):
        reason = ELIGIBLE if after.leader in before.elr else UNCLEAN
    else:
        reason = OFFLINE
    return Change(topic_partition, before, replace(after, controller_epoch=epoch), reason)
