"""Who leads a partition next, and with which ISR. Pure rules on one partition.

Order of choice is the assignment's: the first live ISR member leads. A replica outside the ISR leads only where unclean
election is allowed; then it is the whole ISR and the partition is marked as recovering. When every ISR member is dead
the ISR is kept as it was and nobody leads: each of them holds all that is committed, nobody else is sure to.
Source: kafka.controller.Election, PartitionStateMachine, ReplicaStateMachine.removeReplicasFromIsr; KIP-704.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from broker.core.cluster_state import INITIAL_LEADER_EPOCH, NO_LEADER, LeaderAndIsr
from broker.runtime.ports import BrokerId, Epoch

NOT_WRITTEN = -1


def initial(replicas: Sequence[BrokerId], live: AbstractSet[BrokerId], controller_epoch: Epoch) -> LeaderAndIsr | None:
    """First state of a new partition: every live replica in the ISR, the first of them leads; None while none lives."""
    isr = tuple(broker for broker in replicas if broker in live)
    if not isr:
        return None
    return LeaderAndIsr(isr[0], INITIAL_LEADER_EPOCH, isr, controller_epoch, NOT_WRITTEN)


def elect(
    state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId], unclean: bool
) -> LeaderAndIsr | None:
    """A new leader for a partition whose leader is gone; None when no replica may lead."""
    live_isr = tuple(broker for broker in replicas if broker in state.isr and broker in live)
    if live_isr:
        return state.changed(live_isr[0], live_isr)
    if unclean:
        for broker in replicas:
            if broker in live:
                return replace(state.changed(broker, (broker,)), recovering=True)
    return None


def after_failure(
    state: LeaderAndIsr,
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    gone: AbstractSet[BrokerId],
    unclean: bool,
) -> LeaderAndIsr | None:
    """The state after brokers of `gone` failed together; None where nothing changes.

    live: brokers that may be elected. A leader that is neither gone nor electable (it is shutting down) stays.
    """
    assert live.isdisjoint(gone)
    if state.leader in state.isr and state.leader not in gone:
        isr = tuple(broker for broker in state.isr if broker not in gone)
        return state.changed(state.leader, isr) if len(isr) < len(state.isr) else None
    elected = elect(state, replicas, live, unclean)
    if elected is not None:
        return elected
    return state.changed(NO_LEADER, state.isr) if state.leader != NO_LEADER else None


def for_shutdown(
    state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId], leaving: BrokerId
) -> LeaderAndIsr | None:
    """Take a broker that is about to stop out of leadership and ISR; None where that is not possible.

    live: brokers that may be elected, without the one that leaves. The last ISR member cannot be replaced.
    """
    assert leaving not in live
    rest = tuple(broker for broker in state.isr if broker != leaving)
    if not rest:
        return None
    if state.leader != leaving:
        return state.changed(state.leader, rest) if leaving in state.isr and state.leader != NO_LEADER else None
    for broker in replicas:
        if broker in rest and broker in live:
            return state.changed(broker, rest)
    return None


def preferred(state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> LeaderAndIsr | None:
    """Give leadership to the first assigned replica; None unless it is live, in the ISR, and not leading already."""
    first = replicas[0]
    if state.leader == first or first not in live or first not in state.isr:
        return None
    return state.changed(first, state.isr)
