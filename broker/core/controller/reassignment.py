"""Giving a partition other replicas, step by step. Pure rules on one partition.

All that a reassignment is stands in the topic's znode, so that any controller can carry it on from wherever the last
one stopped. Three steps, each one atomic write of assignment and partition state together:
1. `towards`: targets are listed first, then the replicas of before; the new ones fetch and may join the ISR.
2. `switched`, once every target is in the ISR: only targets are left, leader and ISR among them. The former replicas
   stay listed as doomed until their logs are deleted.
3. `cleaned`, once every doomed replica that lives has deleted its log.
Invariants: an ISR is never given to a replica by a step, only cut to the assignment; it keeps a member; a leader is an
ISR member; a live leader is replaced only by a live ISR member, in the write that takes its place away.
Kafka writes the same fields, but deletes logs before the assignment is written, so its doomed replicas still count as
assigned; it reads ours as a reassignment of which only the deletion is left, which it is.
Source: KafkaController.onPartitionReassignment, ReplicaAssignment.reassignTo; KIP-455.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from broker.core.controller.cluster_state import NO_LEADER, LeaderAndIsr, Topic
from broker.model.ids import BrokerId
from broker.wire.errors import ErrorCode

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One partition's part of a topic znode. replicas: all that count, targets first."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def target(self) -> Replicas:
        """The replicas once all is moved, the preferred leader first. Source: ReplicaAssignment.targetReplicas."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> Replicas:
        """The replicas before the move began. Source: ReplicaAssignment.originReplicas."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def doomed(self) -> Replicas:
        """Former replicas whose logs are to be deleted."""
        return tuple(broker for broker in self.removing if broker not in self.replicas)

    @property
    def moving(self) -> bool:
        """Whether targets are still waited for."""
        return bool(self.adding) or len(self.doomed) < len(self.removing)

    def towards(self, target: Sequence[BrokerId]) -> Assignment:
        """Begin to move to target, in place of any other target. The same replicas in another order move nothing."""
        full = _distinct((*target, *self.origin))
        former = (*self.replicas, *self.doomed)
        return Assignment(
            full,
            tuple(broker for broker in full if broker not in self.origin),
            _distinct(
                (
                    *(broker for broker in full if broker not in target),
                    *(broker for broker in former if broker not in full),
                )
            ),
        )

    def switched(self) -> Assignment:
        """The targets are in sync: they alone count from now on."""
        return Assignment(self.target, (), self.removing)

    def cleaned(self, gone: AbstractSet[BrokerId]) -> Assignment:
        """Logs of these doomed replicas are deleted, or will never be."""
        return replace(
            self, removing=tuple(broker for broker in self.removing if broker not in gone or broker in self.replicas)
        )


def _distinct(brokers: Iterable[BrokerId]) -> Replicas:
    return tuple(dict.fromkeys(brokers))


def assignment_of(topic: Topic, partition: int) -> Assignment | None:
    """None when the topic has no such partition."""
    replicas = topic.partitions.get(partition)
    if replicas is None:
        return None
    return Assignment(replicas, topic.adding.get(partition, ()), topic.removing.get(partition, ()))


def with_assignments(topic: Topic, changed: Mapping[int, Assignment]) -> Topic:
    """The topic with these partitions assigned anew."""
    partitions, adding, removing = dict(topic.partitions), dict(topic.adding), dict(topic.removing)
    for partition, assignment in changed.items():
        partitions[partition] = assignment.replicas
        for kept, brokers in ((adding, assignment.adding), (removing, assignment.removing)):
            if brokers:
                kept[partition] = brokers
            else:
                kept.pop(partition, None)
    return replace(topic, partitions=partitions, adding=adding, removing=removing)


def refusal(
    target: Sequence[BrokerId], current: Assignment | None, live: AbstractSet[BrokerId]
) -> tuple[ErrorCode, str] | None:
    """Why a target is refused. live: registered brokers, those that are shutting down included. Texts are Kafka's."""
    error = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    listed = ",".join(map(str, target))
    if not target:
        return error, "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return error, f"Duplicate replica ids in partition reassignment replica list: {listed}"
    if any(broker < 0 for broker in target):
        return error, f"Invalid broker id in replica list: {listed}"
    adding = (current or Assignment(())).towards(target).adding
    if not live >= set(adding):
        return error, (
            "Replica assignment has brokers that are not alive. Replica list: "
            f"{','.join(map(str, adding))}, live broker list: {','.join(map(str, sorted(live)))}"
        )
    return None


def state_under(state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> LeaderAndIsr | None:
    """The partition's state when only these replicas count: a new leader epoch, so that every replica hears of it.

    live: brokers that may be elected. The leader stays where it may. None when no ISR member would be left, or none
    that may lead although somebody leads now: committed records would be lost, or out of reach. While nobody leads,
    any member of ISR or ELR may be the only one that still holds them: None where one would go.
    """
    isr = tuple(broker for broker in replicas if broker in state.isr)
    if not isr:
        return None
    if state.leader == NO_LEADER:
        return state.changed(NO_LEADER, isr) if {*state.isr, *state.elr} <= set(replicas) else None
    if state.leader in isr:
        return state.changed(state.leader, isr)
    return next((state.changed(broker, isr) for broker in isr if broker in live), None)


def after_switch(
    assignment: Assignment, state: LeaderAndIsr | None, live: AbstractSet[BrokerId]
) -> LeaderAndIsr | None:
    """The state with which the second step may be written; None while it must wait."""
    if not assignment.moving or state is None or state.leader == NO_LEADER:
        return None
    target = assignment.target
    if not set(target) <= set(state.isr):
        return None
    return state_under(state, target, live)
