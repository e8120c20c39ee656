"""Who leads a partition next, and with which ISR. Pure rules on one partition.

Order of choice is the assignment's: the first live ISR member leads. While somebody led, an ISR member that lives on is
trusted; after an outage what a replica reports of its stop counts, and an eligible replica outside the ISR may lead
(`broker.core.controller.elr`). Any other leads only where unclean election is allowed: the one with the longest log
of those that live; then it is the whole ISR and the partition is marked as recovering. When nobody may lead the ISR
is kept as it was: it never becomes empty.
Source: kafka.controller.Election, PartitionStateMachine, ReplicaStateMachine.removeReplicasFromIsr; KIP-704.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from broker.core.controller import elr
from broker.core.controller.cluster_state import INITIAL_LEADER_EPOCH, NO_LEADER, LeaderAndIsr
from broker.model.ids import BrokerId, Epoch

NOT_WRITTEN = -1
OUTDONE_MAX = 2**31 - 2**20
"""The largest epoch of a log for which a replica still gets a larger leader epoch. Epochs are int32, and every later
election needs another; elections that each add one never come this far, so a larger epoch in a log is damage.
"""


def initial(replicas: Sequence[BrokerId], live: AbstractSet[BrokerId], controller_epoch: Epoch) -> LeaderAndIsr | None:
    """First state of a new partition: every live replica in the ISR, the first of them leads; None while none lives."""
    isr = tuple(broker for broker in replicas if broker in live)
    if not isr:
        return None
    return LeaderAndIsr(isr[0], INITIAL_LEADER_EPOCH, isr, controller_epoch, NOT_WRITTEN)


def elect(
    state: LeaderAndIsr,
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    unclean: bool,
    reports: elr.Reports = elr.trust_all,
) -> LeaderAndIsr | None:
    """A new leader for a partition that nobody led on; None when no replica may lead, or one is waited for.

    Every member of the new ISR reported under its present registration. The leader epoch is newer than any in the new
    leader's log, also where ZooKeeper has lost epochs, or a bit of the log's is wrong: else the leader would refuse it,
    or nobody could follow.
    """

    def beyond(broker: BrokerId) -> Epoch:
        report = reports(broker)
        return state.leader_epoch if report is None else max(state.leader_epoch, report.newest_epoch)

    def led(leader: BrokerId, isr: tuple[BrokerId, ...]) -> LeaderAndIsr:
        return replace(state, isr_epochs={}, leader_epoch=beyond(leader)).changed(leader, isr)

    live = frozenset(broker for broker in live if beyond(broker) <= max(state.leader_epoch, OUTDONE_MAX))
    choice = elr.choose(state.isr, state.elr, replicas, live, reports)
    if choice is not None:
        after = led(choice.leader, choice.isr)
        return replace(after, recovering=True, lossy=True) if choice.lossy else after
    if unclean:
        longest = elr.longest_alive(state.isr, state.elr, replicas, live, reports)
        if longest is not None:
            return replace(led(longest, (longest,)), recovering=True, lossy=True)
    return None


def after_failure(
    state: LeaderAndIsr,
    replicas: Sequence[BrokerId],
    live: AbstractSet[BrokerId],
    gone: AbstractSet[BrokerId],
    unclean: bool,
    reports: elr.Reports = elr.trust_all,
) -> LeaderAndIsr | None:
    """The state after brokers of `gone` failed together; None where nothing changes.

    live: brokers that may be elected. A leader that is neither gone nor electable (it is shutting down) stays.
    """
    assert live.isdisjoint(gone)
    if state.leader in state.isr and state.leader not in gone:
        isr = tuple(broker for broker in state.isr if broker not in gone)
        return state.changed(state.leader, isr) if len(isr) < len(state.isr) else None
    if state.leader != NO_LEADER:
        successor = _successor(state, replicas, live)
        if successor is not None:
            return successor
    elected = elect(state, replicas, live, unclean, reports)
    if elected is not None:
        return elected
    return state.changed(NO_LEADER, state.isr) if state.leader != NO_LEADER else None


def _successor(state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> LeaderAndIsr | None:
    """The first live ISR member: it has not stopped since it was admitted, so it still has every committed record."""
    isr = tuple(broker for broker in replicas if broker in state.isr and broker in live)
    return state.changed(isr[0], isr) if isr else None


def for_shutdown(
    state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId], stopping: BrokerId
) -> LeaderAndIsr | None:
    """Take a broker that is about to stop out of leadership and ISR; None where that is not possible.

    live: brokers that may be elected, without the one that leaves. The last ISR member cannot be replaced.
    """
    assert stopping not in live
    rest = tuple(broker for broker in state.isr if broker != stopping)
    if not rest:
        return None
    if state.leader != stopping:
        return state.changed(state.leader, rest) if stopping in state.isr and state.leader != NO_LEADER else None
    for broker in replicas:
        if broker in rest and broker in live:
            return state.changed(broker, rest)
    return None


def preferred(state: LeaderAndIsr, replicas: Sequence[BrokerId], live: AbstractSet[BrokerId]) -> LeaderAndIsr | None:
    """Give leadership to the first assigned replica; None unless it is live, in the ISR, and another leads.

    Where nobody leads, `elect` looks at more than the ISR.
    """
    first = replicas[0]
    if state.leader in (first, NO_LEADER) or first not in live or first not in state.isr:
        return None
    return state.changed(first, state.isr)
