"""What the load must have got done once faults were gone, partition by partition.

A partition that serves nothing from some fault on until another hand brings it back (another fault's restart, or the
run's own: the heal starts every broker, the rotation restarts them) serves its sentinel and its drains; only the load
shows that it comes back by itself. So after every fault, once no fault was in force for long enough, every partition
needs an acknowledged write and a successful poll of the load: in that time, or under a fault that came in between.
Nothing of that is a proof against a broker: what is missing makes a run unknown. After a fault that ends too late in
the load nothing is required, and it cancels nothing that is required after an earlier one.

How long a sound cluster may take: what a fault took down may hold its session for one session time-out more, and
clients wait for a request that nobody answers for one request time-out. Where the load ended sooner than that after a
fault was seen gone, or before it (the heal took it back), a partition may rightly not be back yet: what is missing then
is shown as a lowered requirement. Faults that follow each other sooner may each keep a partition down for a while. No
sound run has been seen in which a partition served nothing in fault-free times of that total length.

A fault counts as gone when it was seen gone, but not for longer than `RESTART_NS` after that was begun: else a system
would be excused the more, the slower it comes back. Where it took longer, and the load had the time, the window begins
at that allowance, and work is required in the time that followed.

A partition whose last in-sync replica is gone is rightly offline, and serves neither: the run is unknown for it, as it
is for the heal that waited for its leader in vain. A load that tried nothing there has shown nothing; the sentence says
how much it tried. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from checkers.history.faults import Fault
from checkers.history.run_info import RunInfo

HEAL = "heal"
"""Phase that ends the load."""
RESTART_NS = 10_000_000_000
"""What a broker may take from when its start was begun until it was seen to run."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of one partition, in one window: what was tried, and whether one of it came out well."""

    sends: int = 0
    polls: int = 0
    wrote: bool = False
    read: bool = False


def load_end_ns(marks: Iterable[Mapping[str, Any]]) -> int | None:
    """When the load was over; None in a run that broke off before."""
    ends = [int(mark["time_ns"]) for mark in marks if mark["f"] == "phase" and mark["phase"] == HEAL]
    return min(ends, default=None)


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """A time of the run from the end of one fault on, in which no fault was in force for long enough, all in all.

    after: the fault that was gone last before it. until_ns: None at the end of the load. last: no other fault came
    after that one. required: whether work is required in it; false of the last where the load ended too soon.
    """

    after: int
    from_ns: int
    until_ns: int | None
    last: bool = False
    required: bool = True


def back_within_ns(info: RunInfo) -> int:
    """How long a sound cluster may take to serve again once faults are gone."""
    return (info.session_timeout_ms + info.request_timeout_ms) * 1_000_000


def quiet_windows_of(info: RunInfo, faults: Iterable[Fault], end_ns: int | None) -> list[QuietWindow]:
    """In order of their beginnings, each as short as can be. end_ns: see `load_end_ns`."""
    quiet = list(_without_faults(faults))
    needed_ns = back_within_ns(info)
    found: list[QuietWindow] = []
    for nth, (after, from_ns, _) in enumerate(quiet):
        left_ns = needed_ns
        for _, again_ns, until_ns in quiet[nth:]:
            over_ns = end_ns if until_ns is None else until_ns
            left_ns = 0 if over_ns is None else left_ns - max(0, over_ns - again_ns)
            if left_ns <= 0:
                found.append(QuietWindow(after, from_ns, until_ns, last=quiet[nth][2] is None))
                break
        else:
            if quiet[nth][2] is None:
                found.append(QuietWindow(after, from_ns, None, last=True, required=False))
    return found


def _without_faults(faults: Iterable[Fault]) -> Iterator[tuple[int, int, int | None]]:
    """(fault that was gone last, from, until; None: for good). None follows a fault that never was seen gone."""
    after: tuple[int, int] | None = None
    for fault in sorted(faults, key=_began_ns):
        began_ns, over_ns = _began_ns(fault), gone_ns(fault)
        if after is not None and began_ns > after[0]:
            yield after[1], after[0], began_ns
        if over_ns is None:
            return
        if after is None or over_ns > after[0]:
            after = over_ns, fault.fault_id
    if after is not None:
        yield after[1], after[0], None


def _began_ns(fault: Fault) -> int:
    return fault.start_ns if fault.began_ns is None else fault.began_ns


def gone_ns(fault: Fault) -> int | None:
    """From when on it counts as gone; None: never. A history that does not say when it began to be taken back gives all
    the time it took.
    """
    if fault.stop_ns is None or fault.stop_began_ns is None:
        return fault.stop_ns
    return min(fault.stop_ns, fault.stop_began_ns + RESTART_NS)


def too_short(info: RunInfo, faults: Iterable[Fault], end_ns: int | None) -> frozenset[int]:
    """Ids of the faults after which the load did not go on for as long as a cluster may take to come back."""
    if end_ns is None:
        return frozenset()
    needed_ns = back_within_ns(info)
    gone = [(fault.fault_id, gone_ns(fault)) for fault in faults]
    return frozenset(fault_id for fault_id, over_ns in gone if over_ns is not None and end_ns - over_ns < needed_ns)


def unreached_in(
    partitions: Sequence[str], work: Mapping[str, Work], window: QuietWindow
) -> tuple[AbstractSet[str], Sequence[str]]:
    """(partitions that the load got nothing into or nothing out of in that window, that in sentences)."""
    done = {p: work.get(p, Work()) for p in partitions}
    unwritten = [f"{p} ({one.sends} tried)" for p, one in done.items() if not one.wrote]
    unread = [f"{p} ({one.polls} tried)" for p, one in done.items() if not one.read]
    how_long = "" if window.until_ns is None else f"for {(window.until_ns - window.from_ns) / 1e9:.1f} s "
    when = f"{how_long}after fault {window.after}" + (", the last" if window.last else "")
    sentences = [
        f"no {what} {', '.join(named)} in the load {when}"
        for what, named in (("acknowledged write to", unwritten), ("answered poll of", unread))
        if named
    ]
    return frozenset(p for p, one in done.items() if not (one.wrote and one.read)), sentences


def unreached_partitions(
    partitions: Sequence[str], quiet_windows: Sequence[QuietWindow], work: Mapping[QuietWindow, Mapping[str, Work]]
) -> tuple[Sequence[str], int | None]:
    """(required partitions that the load did not reach, in sentences; how many partitions it reached after the last
    fault, if that was less than all and the load ended too soon for all to be required).
    """
    missing: list[str] = []
    reached = None
    for window in quiet_windows:
        quiet, sentences = unreached_in(partitions, work.get(window, {}), window)
        if window.required:
            missing += sentences
        elif quiet:
            reached = len(partitions) - len(quiet)
    return missing, reached
