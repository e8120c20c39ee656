"""Who could lead while faults were in force, by the ISRs that ZooKeeper had: where every member is stopped or cut off,
a partition has no leader, and rightly so, however many other brokers run.

Pure. Beside `fault_reach`, which knows of names and links alone. Under two faults at a time an ISR shrinks to one, and
that one may be hit next: then nobody acknowledges anything before it is back, and a sound cluster needs a session
time-out and a request time-out more to serve again. A fault counts from when its effect was seen until it counts as
gone (`recovery`); of its own time that counts in which work is looked for, until it began to be taken back. Where
somebody could lead for longer, work is required.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from checkers.coverage.fault_reach import can_be_acknowledged, stopped
from checkers.coverage.recovery import back_within_ns, gone_ns
from checkers.history.faults import Fault
from checkers.history.run_info import RunInfo

ISRS = Mapping[str, Sequence["InSync"]]
"""Partition → versions of its state, in order."""


@dataclass(frozen=True, slots=True)
class InSync:
    """members: names of the ISR, and of the replicas that are eligible beside it, from that version on."""

    from_ns: int
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Leaderless:
    """Ids of the faults in whose time no write could be acknowledged, and no poll answered, on any partition."""

    writes: frozenset[int]
    polls: frozenset[int]


def leaderless(info: RunInfo, faults: Sequence[Fault], isrs: ISRS) -> Leaderless:
    """isrs: of every partition of the run; where one is not known, everybody could lead it."""
    tolerated_ns = back_within_ns(info)
    brokers = {node.name for node in info.brokers}

    def writes(at_ns: float, in_force: Sequence[Fault]) -> bool:
        return can_be_acknowledged(info, in_force, _members(info, isrs, at_ns))

    def polls(at_ns: float, in_force: Sequence[Fault]) -> bool:
        return bool((_members(info, isrs, at_ns) or brokers) - stopped(in_force))

    found: tuple[set[int], set[int]] = set(), set()
    for one in faults:
        pieces = list(_pieces(one, faults, isrs))
        for could, ids in zip((writes, polls), found, strict=True):
            served = [(from_ns, until_ns, could(from_ns, in_force)) for from_ns, until_ns, in_force in pieces]
            if not all(could_serve for *_, could_serve in served) and _longest(served) < tolerated_ns:
                ids.add(one.fault_id)
    return Leaderless(*map(frozenset, found))


def _members(info: RunInfo, isrs: ISRS, at_ns: float) -> AbstractSet[str] | None:
    """Who could lead one partition at least; None: anybody."""
    members: set[str] = set()
    for p in info.partitions:
        known = [version.members for version in isrs.get(p, ()) if version.from_ns <= at_ns]
        if not known:
            return None
        members |= known[-1]
    return members


def _pieces(one: Fault, faults: Sequence[Fault], isrs: ISRS) -> Iterator[tuple[float, float, list[Fault]]]:
    """From, until, faults in force: the fault's time, cut wherever another one begins or ends, or an ISR changes."""
    over_ns = one.stop_began_ns or one.stop_ns or math.inf
    others = [fault for fault in faults if fault.observed and fault.fault_id != one.fault_id]
    turns = {float(version.from_ns) for versions in isrs.values() for version in versions}
    turns |= {edge for fault in others for edge in (float(fault.start_ns), _until_ns(fault))}
    edges = [one.start_ns, *sorted(turn for turn in turns if one.start_ns < turn < over_ns), over_ns]
    for from_ns, until_ns in pairwise(edges):
        around = [fault for fault in others if fault.start_ns <= from_ns and _until_ns(fault) >= until_ns]
        yield from_ns, until_ns, [one, *around]


def _until_ns(fault: Fault) -> float:
    over_ns = gone_ns(fault)
    return math.inf if over_ns is None else over_ns


def _longest(served: Sequence[tuple[float, float, bool]]) -> float:
    """Of the times in which it could be served without a break."""
    longest = length = 0.0
    for from_ns, until_ns, could in served:
        length = length + until_ns - from_ns if could else 0.0
        longest = max(longest, length)
    return longest
