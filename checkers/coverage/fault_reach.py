"""What a fault reaches: whether it leaves enough brokers to acknowledge anything, and whether it can have cost a broker
its leadership. What may be required of a run, and counted, while it is in force.

Pure: names and links only. A write with acks=all needs min ISR brokers that run and keep their sessions, and of those a
leader that all the others hear and are heard by. Who may lead by the ISRs of the time is asked in `leaders`. Anything
else (a broker whose session is about to end) is left out: where these say that writes can be acknowledged, they are
required.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from checkers.history.faults import Fault, read_params
from checkers.history.run_info import RunInfo


def can_acknowledge(
    faults: Sequence[Fault],
    *,
    brokers: Sequence[str],
    zookeepers: Sequence[str],
    min_isr: int,
    leaders: AbstractSet[str] | None = None,
) -> bool:
    """While these are in force together. A cut's parameters hold its grudge, node → nodes whose packets it drops.

    leaders: who could lead if nothing was in force; None: every broker.
    """
    down = stopped(faults)
    grudges = [_grudge(fault.params_json) for fault in faults if fault.cuts_links]

    def linked(one: str, other: str) -> bool:
        return not any(other in grudge.get(one, ()) or one in grudge.get(other, ()) for grudge in grudges)

    def in_session(broker: str) -> bool:
        reached = sum(linked(broker, server) for server in zookeepers if server not in down)
        return 2 * reached > len(zookeepers) or not zookeepers

    able = [broker for broker in brokers if broker not in down and in_session(broker)]
    leading = able if leaders is None else [broker for broker in able if broker in leaders]
    return any(sum(linked(leader, other) for other in able) >= min_isr for leader in leading)


def stopped(faults: Iterable[Fault]) -> AbstractSet[str]:
    """Nodes whose daemons are gone or stand still."""
    return frozenset(node for fault in faults if fault.stops_process for node in fault.targets)


def _throughout(one: Fault, faults: Iterable[Fault]) -> list[Fault]:
    """The fault, and those that were seen to be in force all the time that it was."""

    def until_ns(fault: Fault, ended_ns: int | None) -> float:
        return math.inf if fault.stop_ns is None or ended_ns is None else ended_ns

    return [one] + [
        other
        for other in faults
        if other.fault_id != one.fault_id
        and other.observed
        and other.start_ns <= one.start_ns
        and until_ns(other, other.stop_began_ns or other.stop_ns) >= until_ns(one, one.stop_ns)
    ]


def touches(fault: Fault, broker: str | None, zookeepers: AbstractSet[str], controller: str | None) -> bool:
    """Whether the fault can have cost this broker its leadership.

    It is one of the targets, or ZooKeeper is; or its links to ZooKeeper, or to the controller that took it from it, are
    cut. A cut in two, or in a ring, names no victims: its links do. Unknown brokers are touched by anything.
    """
    if broker is None:
        return True
    if fault.cuts_links:
        grudge = _grudge(fault.params_json)
        lost = set(grudge.get(broker, ())) | {node for node, dropped in grudge.items() if broker in dropped}
        if lost & zookeepers or controller in lost:
            return True
        return fault.names_victims and broker in fault.targets
    return broker in fault.targets or bool(zookeepers & set(fault.targets))


def can_be_acknowledged(info: RunInfo, faults: Sequence[Fault], leaders: AbstractSet[str] | None = None) -> bool:
    """`can_acknowledge` on the nodes of a run, with the minimum of its topic."""
    return can_acknowledge(
        faults,
        brokers=[node.name for node in info.brokers],
        zookeepers=[node.name for node in info.zookeepers],
        min_isr=min(info.min_insync_replicas, info.replication_factor or info.min_insync_replicas),
        leaders=leaders,
    )


def writes_impossible(info: RunInfo, faults: Sequence[Fault]) -> frozenset[int]:
    """Ids of the faults that, with those around them, left too few brokers to acknowledge anything."""
    return frozenset(one.fault_id for one in faults if not can_be_acknowledged(info, _throughout(one, faults)))


def reads_impossible(info: RunInfo, faults: Sequence[Fault]) -> frozenset[int]:
    """Ids of the faults that, with those around them, left no broker to answer anything."""
    brokers = {node.name for node in info.brokers}
    return frozenset(
        one.fault_id for one in faults if one.stops_process and brokers <= stopped(_throughout(one, faults))
    )


def _grudge(params_json: str | None) -> Mapping[str, AbstractSet[str]]:
    try:
        grudge = read_params(params_json).get("grudge", {})
        return {str(node): frozenset(dropped) for node, dropped in grudge.items()}
    except (AttributeError, TypeError):
        # A cut that cannot be read excuses nothing.
        return {}
