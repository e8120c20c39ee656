"""The targets of a fault: a selector of the run file becomes node names, at the moment of firing.

Decides by the seed's random numbers and the view of the cluster at that moment. When the view does not know (no leader,
ZooKeeper unreachable), any broker may be hit. Must not know what the fault does.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from harness.plan.plan import TARGETS
from nemesis.base import ClusterView

COORDINATORS: Final = ("group-coordinator", "transaction-coordinator")
LAST_IN_SYNC: Final = "last-in-sync"
_COORDINATOR_TRIES: Final = 5
"""Partitions that are asked about, of fifty: while ZooKeeper is gone each may take a second."""


def choose(selector: str, rng: Random, view: ClusterView) -> tuple[str, ...]:
    """Names of the nodes that the selector means now, at least one. Raises ValueError for an unknown selector.

    leader, follower: of a partition drawn at random among those for which the view knows one; a follower is in the ISR,
    and not the controller where there is another. minority: fewer than half; majority: just more than half.
    group-coordinator, transaction-coordinator: who coordinates one of the run's groups or transactional ids, by a
    partition drawn as for leader.
    last-in-sync: the only member of the ISR of a partition, drawn among those that have such a one; else a leader.
    leading-controller (of the schedule's own): the controller where it leads a partition, else a leader.
    """
    brokers = [node.name for node in view.broker_nodes]
    count = len(brokers)
    match selector:
        case "one":
            return (rng.choice(brokers),)
        case "minority":
            return _some(rng, brokers, max(1, (count - 1) // 2))
        case "majority":
            return _some(rng, brokers, count // 2 + 1)
        case "all":
            return tuple(brokers)
        case "leader":
            return (_leader(rng, view) or rng.choice(brokers),)
        case "follower":
            return (_follower(rng, view) or rng.choice(brokers),)
        case "last-in-sync":
            return (_last_in_sync(rng, view) or _leader(rng, view) or rng.choice(brokers),)
        case "controller":
            return (view.controller() or rng.choice(brokers),)
        case "group-coordinator" | "transaction-coordinator":
            return (_coordinator(selector, rng, view) or rng.choice(brokers),)
        case "leading-controller":
            return (_leading_controller(view) or _leader(rng, view) or rng.choice(brokers),)
        case _:
            known = [*brokers, *(node.name for node in view.zookeeper_nodes)]
            if selector not in known:
                allowed = ", ".join([*TARGETS, *known])
                raise ValueError(f"faults.targets: {selector!r} is neither a selector nor a node; allowed: {allowed}")
            return (selector,)


def _some(rng: Random, names: list[str], count: int) -> tuple[str, ...]:
    return tuple(sorted(rng.sample(names, count), key=names.index))


def _shuffled_partitions(rng: Random, view: ClusterView) -> list[int]:
    partitions = list(range(view.partitions()))
    rng.shuffle(partitions)
    return partitions


def _leader(rng: Random, view: ClusterView) -> str | None:
    for partition in _shuffled_partitions(rng, view):
        leader = view.leader(partition)
        if leader is not None:
            return leader
    return None


def _coordinator(selector: str, rng: Random, view: ClusterView) -> str | None:
    kind = selector.removesuffix("-coordinator")
    partitions = list(view.coordinating(kind))
    for partition in rng.sample(partitions, min(_COORDINATOR_TRIES, len(partitions))):
        coordinator = view.coordinator(kind, partition)
        if coordinator is not None:
            return coordinator
    return None


def shown_role(selector: str, targets: Collection[str], view: ClusterView) -> str | None:
    """What the view says right after such a choice: the role, or that no broker is known to have it. None for other
    selectors than the coordinators and last-in-sync.
    """
    if selector == LAST_IN_SYNC:
        alone = any(_alone(view, partition) in targets for partition in range(view.partitions()))
        return selector if alone else "another broker: no ISR of one is known"
    if selector not in COORDINATORS:
        return None
    kind = selector.removesuffix("-coordinator")
    shown = any(view.coordinator(kind, partition) in targets for partition in view.coordinating(kind))
    return selector if shown else f"any broker: no {selector} is known"


def _leading_controller(view: ClusterView) -> str | None:
    controller = view.controller()
    leads = any(view.leader(partition) == controller for partition in range(view.partitions()))
    return controller if leads else None


def _alone(view: ClusterView, partition: int) -> str | None:
    """Who is alone in the ISR of that partition."""
    members = view.isr(partition)
    return members[0] if len(members) == 1 else None


def _last_in_sync(rng: Random, view: ClusterView) -> str | None:
    for partition in _shuffled_partitions(rng, view):
        alone = _alone(view, partition)
        if alone is not None:
            return alone
    return None


def _follower(rng: Random, view: ClusterView) -> str | None:
    controller = view.controller()
    only_controller: str | None = None
    for partition in _shuffled_partitions(rng, view):
        leader = view.leader(partition)
        followers = [name for name in view.isr(partition) if name != leader]
        others = [name for name in followers if name != controller]
        if others:
            return rng.choice(others)
        if followers:
            only_controller = followers[0]
    return only_controller
