"""What the load must have got done once the last fault was gone, partition by partition.

A partition that stands still from some fault on until the run's own hand brings it back (the heal starts every broker,
the rotation restarts them) serves its sentinel and its drains; only the load, which goes on after the last fault,
shows that it does not come back by itself. So after the last fault every partition needs an acknowledged write and an
answered poll of the load. Nothing of that is a proof against a broker: what is missing makes a run unknown.

How long a sound cluster may take: what a fault took down may hold its session for one session time-out more, and
clients wait for a request that nobody answers for one request time-out. Where the load ended sooner than that after a
fault was seen gone, or before it was (the heal took it back), a partition may rightly not be back yet: what is missing
then is told as a lowered floor. (53 runs of all-faults on two cores: every partition was back 0.54 s after the last
fault at most; the load went on for 6.8 s at least; 5.5 s are asked for.)

A partition whose last in-sync replica is gone is rightly offline, and serves neither: the run is unknown for it, as it
is for the heal that waited for its leader in vain. A load that tried nothing there has shown nothing; how much it tried
is said. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from checkers.run_info import RunInfo
from checkers.run_report import Fault

HEAL = "heal"
"""Phase that ends the load."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of one partition, since the last fault: what was tried, and whether one of it came out well."""

    sends: int = 0
    polls: int = 0
    wrote: bool = False
    read: bool = False


def load_end_ns(marks: Iterable[Mapping[str, Any]]) -> int | None:
    """When the load was over; None in a run that broke off before."""
    ends = [int(mark["time_ns"]) for mark in marks if mark["f"] == "phase" and mark["phase"] == HEAL]
    return min(ends, default=None)


def last_of(faults: Iterable[Fault]) -> Fault | None:
    """The fault that was seen gone last. One that never was is missed on its own."""
    gone = [fault for fault in faults if fault.stop_ns is not None]
    return max(gone, key=lambda fault: fault.stop_ns or 0, default=None)


def hurried(info: RunInfo, faults: Iterable[Fault], end_ns: int | None) -> frozenset[int]:
    """Ids of the faults after which the load did not go on for as long as a cluster may take to come back."""
    if end_ns is None:
        return frozenset()
    needed_ns = (info.session_timeout_ms + info.request_timeout_ms) * 1_000_000
    return frozenset(
        fault.fault_id for fault in faults if fault.stop_ns is not None and end_ns - fault.stop_ns < needed_ns
    )


def still(
    partitions: Sequence[str], work: Mapping[str, Work], last: Fault | None
) -> tuple[AbstractSet[str], Sequence[str]]:
    """(partitions that the load got nothing into or nothing out of since the last fault, that in sentences)."""
    if last is None:
        return frozenset(), ()
    done = {p: work.get(p, Work()) for p in partitions}
    unwritten = [f"{p} ({one.sends} tried)" for p, one in done.items() if not one.wrote]
    unread = [f"{p} ({one.polls} tried)" for p, one in done.items() if not one.read]
    said = [
        f"no {what} {', '.join(named)} in the load after fault {last.fault_id}, the last"
        for what, named in (("acknowledged write to", unwritten), ("answered poll of", unread))
        if named
    ]
    return frozenset(p for p, one in done.items() if not (one.wrote and one.read)), said
