"""What a run must show for a verdict of valid: one that proved little says so (H8 of docs/guarantees.md).

Pure. Two kinds of requirements. *Coverage and evidence*: one fault at least where the run file names any, every fault's
effect observed and taken back, a load that wrote to and read from every partition, a drain from every replica as leader
that covered every acknowledged record, the same records by the real client, no process that ended by itself. Nothing
lowers them; a script, which is a load of its own, need not reach every partition. *Counts*: acknowledged records, kinds
of faults that caused an election, ISR shrinks for lag, expansions, and acknowledged writes and polls of the load
before, during and after every fault, and on every partition wherever it went on for long enough under no fault.
`checks` of the run file may set the first four, and ask for logs that lost their heads, or faults that hit the last of
an ISR; a scripted run, whose steps are the point, need not write during its faults; nor need anyone while a fault
leaves too few brokers to acknowledge (checkers/coverage/fault_reach.py), or nobody who may lead
(checkers/coverage/leaders.py), if writes were tried, or read while it leaves none, or do either after one that ended
too late in the load (checkers/coverage/recovery.py). Whatever is lower than the defaults stands in the verdict
sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

DEFAULTS: Mapping[str, int] = {
    "acknowledged": 5000,
    "election_faults": 3,
    "lag_shrinks": 1,
    "expansions": 1,
    "heads_deleted": 0,
    "last_in_sync_hit": 0,
}
LAST_IN_SYNC = "last-in-sync"
"""Role of a fault that hit who was alone in an ISR."""

_NOUNS = {
    "acknowledged": "acknowledged records",
    "election_faults": "kinds of faults that caused an election",
    "lag_shrinks": "ISR shrinks by a leader for lag",
    "expansions": "ISR expansions",
    "heads_deleted": "partitions whose oldest records were deleted during the load",
    "last_in_sync_hit": "faults that hit the only member of an ISR",
}


@dataclass(frozen=True, slots=True)
class AroundFault:
    """Whether acknowledged sends (w) and successful polls (r) lie before, during and after one fault; w_tried: any send
    began during it.
    """

    fault_id: int
    w_before: bool
    w_during: bool
    w_after: bool
    r_before: bool
    r_during: bool
    r_after: bool
    w_tried: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What the run showed. None: there was no evidence of it."""

    acknowledged: int
    elections: int | None
    elections_by_partition: Mapping[str, int]
    election_faults: Sequence[str]
    lag_shrinks: int | None
    expansions: int | None
    faults: Sequence[Mapping[str, Any]]
    """Each fault as in results.json, with `stop_observed`."""
    around: Sequence[AroundFault]
    drain_gaps: Sequence[str]
    """What the drain left open, in sentences."""
    writes_impossible: AbstractSet[int] = frozenset()
    """Ids of the faults under which no write could be acknowledged."""
    reads_impossible: AbstractSet[int] = frozenset()
    """Ids of the faults under which no broker ran to answer a poll."""
    unexplained: Sequence[str] = ()
    """What went wrong beside the faults, in sentences."""
    load_gaps: Sequence[str] = ()
    """Partitions that the load did not reach, in sentences."""
    too_short: AbstractSet[int] = frozenset()
    """Ids of the faults after which the load ended too soon for work to be required (checkers/coverage/recovery.py).
    """
    unreached: Sequence[str] = ()
    """Partitions that the load did not reach again while no fault was in force, in sentences."""
    reached: int | None = None
    """How many partitions the load reached again after the last fault, where that was too late in it to require all."""
    faults_asked: Sequence[str] = ()
    """Kinds of faults that the run file names."""
    heads_deleted: int | None = None
    """Partitions whose log was seen to begin later during the load; counted where the run file asks for some."""


@dataclass(slots=True)
class CoverageResult:
    met: bool
    missing: list[str] = field(default_factory=list)
    lowered: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"met": self.met, "missing": self.missing, "lowered": self.lowered, "figures": self.figures}


def judge_coverage(seen: Seen, *, scripted: bool, checks: Mapping[str, int]) -> CoverageResult:
    """checks: as in run.json; a scripted run's defaults are one acknowledged record and nothing else."""
    defaults = {**dict.fromkeys(DEFAULTS, 0), "acknowledged": 1} if scripted else dict(DEFAULTS)
    wanted = {**defaults, **{name: value for name, value in checks.items() if name in DEFAULTS}}
    # A run without one acknowledged record has shown nothing, whatever its file says.
    wanted["acknowledged"] = max(1, wanted["acknowledged"])
    lowered = {name: value for name, value in wanted.items() if value < DEFAULTS[name]}
    last_hit = sum(bool(fault["observed"]) and fault.get("role") == LAST_IN_SYNC for fault in seen.faults)
    have: dict[str, int | None] = {
        "acknowledged": seen.acknowledged,
        "election_faults": None if seen.elections is None else len(seen.election_faults),
        "lag_shrinks": seen.lag_shrinks,
        "expansions": seen.expansions,
        "heads_deleted": seen.heads_deleted,
        "last_in_sync_hit": last_hit,
    }
    missing = [
        f"{_NOUNS[name]}: {'no evidence' if have[name] is None else have[name]}, required are {least}"
        for name, least in wanted.items()
        if least > 0 and (have[name] or 0) < least
    ]
    if seen.faults_asked and not seen.faults:
        missing.append(f"not one fault began, though the run file names {', '.join(seen.faults_asked)}")
    missing += _fault_gaps(seen.faults)
    missing += _around_gaps(seen, scripted)
    missing += () if scripted else seen.load_gaps
    missing += () if scripted else seen.unreached
    missing += seen.drain_gaps
    missing += seen.unexplained
    if scripted and seen.faults:
        lowered["writes_during_faults"] = 0
    elif without := sum(not around.w_during and around.fault_id in seen.writes_impossible for around in seen.around):
        lowered["writes_during_faults"] = len(seen.around) - without
    if not scripted:
        unread = sum(not around.r_during and around.fault_id in seen.reads_impossible for around in seen.around)
        lowered |= {"polls_during_faults": len(seen.around) - unread} if unread else {}
        lowered |= _lowered_after(seen)
    figures = {
        "acknowledged": seen.acknowledged,
        "elections": seen.elections,
        "elections_by_partition": dict(seen.elections_by_partition),
        "election_faults": list(seen.election_faults),
        "lag_shrinks": seen.lag_shrinks,
        "expansions": seen.expansions,
        "heads_deleted": seen.heads_deleted,
        "last_in_sync_hit": last_hit or None,
        "faults": len(seen.faults),
    }
    # What there was no evidence to count is no figure: a 0 would be a statement.
    figures = {name: value for name, value in figures.items() if value is not None}
    return CoverageResult(not missing, missing, lowered, figures)


def _lowered_after(seen: Seen) -> dict[str, int]:
    """What the load did not show after faults that ended too late in it."""
    late = [around for around in seen.around if around.fault_id in seen.too_short]
    without = sum(not (around.w_after and around.r_after) for around in late)
    lowered = {"work_after_faults": len(seen.around) - without} if without else {}
    if seen.reached is not None:
        lowered["partitions_after_last_fault"] = seen.reached
    return lowered


def _fault_gaps(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    gaps: list[str] = []
    for fault in faults:
        name = f"fault {fault['fault_id']} ({fault['fault']} on {', '.join(fault['targets'])})"
        if fault.get("error"):
            gaps.append(f"{name} could not be applied: {fault['error']}")
        elif not fault["observed"]:
            gaps.append(f"{name}: its effect was not observed")
        if fault["stop_ns"] is None:
            gaps.append(f"{name} was not taken back")
        elif not fault.get("stop_observed", True):
            gaps.append(f"{name}: its end was not observed")
    return gaps


def _around_gaps(seen: Seen, scripted: bool) -> list[str]:
    """Scripted: something before the first and after the last fault; else around each of them."""
    if not seen.around:
        return []
    if scripted:
        first, last = seen.around[0], seen.around[-1]
        needs = [
            (first.w_before, "no acknowledged write before the first fault"),
            (last.w_after, "no acknowledged write after the last fault"),
            (last.r_after, "no answered poll after the last fault"),
        ]
        return [text for met, text in needs if not met]
    gaps: list[str] = []
    for around in seen.around:
        writes_impossible = around.fault_id in seen.writes_impossible
        too_short = around.fault_id in seen.too_short
        for what, met in (
            ("acknowledged write before", around.w_before),
            (
                "write tried during" if writes_impossible else "acknowledged write during",
                _wrote(around, writes_impossible),
            ),
            ("acknowledged write after", around.w_after or too_short),
            ("answered poll before", around.r_before),
            ("answered poll during", around.r_during or around.fault_id in seen.reads_impossible),
            ("answered poll after", around.r_after or too_short),
        ):
            if not met:
                gaps.append(f"no {what} fault {around.fault_id}")
    return gaps


def _wrote(around: AroundFault, writes_impossible: bool) -> bool:
    return around.w_during or (writes_impossible and around.w_tried)
