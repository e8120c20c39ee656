"""Whether a broker met the damage that a file fault did: changed bytes that no broker ever reads cannot do any harm,
and prove nothing.

Its event log shows it: after the damage a broker opened the log that the file belongs to (`recovered`), perhaps to find
it shorter than it had been (`cut`: the first time; what it finds later, others may have caused); for a file of no
partition it *started*. Where there is no event log, or an older history does not say which file it was, a broker that
was killed for the damage and then served requests has started. Opened is not read: recovery need not scan every
segment, and a changed bit in one may never be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.history.faults import Fault, partition_of_file, read_params


@dataclass(frozen=True, slots=True)
class Opening:
    """A broker opened a log, or started (p None). shorter: the log ended below where the broker had had its end."""

    node: str
    p: str | None
    at_ns: int
    shorter: bool = False


@dataclass(frozen=True, slots=True)
class Meeting:
    """at_ns: the first time that it was so, in run time. p: whose file it was; None of no partition's, or not known."""

    how: Literal["started", "opened", "cut"]
    at_ns: int
    p: str | None = None


def killed_for_it(fault: Fault) -> bool:
    """The broker was killed before its files were damaged, and started again at the end."""
    return fault.damages_files and read_params(fault.params_json).get("while") == "down"


def partition_of(fault: Fault) -> str | None:
    """The partition whose folder the damaged file is in; None for a file of a log dir itself."""
    return partition_of_file(fault.file or "")


def openings(evidence: Evidence, faults: Iterable[Fault]) -> list[Opening]:
    """Of the logs whose files faults damaged, and starts of their brokers, on all time. Few rows: one per restart."""
    hurt = [fault for fault in faults if fault.damages_files]
    nodes = sorted({node for fault in hurt for node in fault.targets})
    if not nodes:
        return []
    partitions = sorted({p for fault in hurt if (p := partition_of(fault)) is not None})
    before = Window.partitionBy("node", "p").orderBy("t_ns", "s").rowsBetween(Window.unboundedPreceding, -1)
    opened = (
        evidence.timeline.where(F.col("node").isin(*nodes) & F.col("p").isin(*partitions))
        .withColumn("had", F.last("own_leo", ignorenulls=True).over(before))
        .where(F.col("e") == "recovered")
        .select("node", "p", "t_ns", F.coalesce(F.col("leo") < F.col("had"), F.lit(False)).alias("shorter"))
    )
    started = evidence.events.where((F.col("e") == "start") & F.col("node").isin(*nodes)).select(
        "node", F.lit(None).cast("string").alias("p"), "t_ns", F.lit(False).alias("shorter")
    )
    rows = opened.unionByName(started).collect()
    return [Opening(row.node, row.p, row.t_ns, row.shorter) for row in rows if row.t_ns is not None]


def meetings(faults: Iterable[Fault], found: Sequence[Opening]) -> dict[int, Meeting]:
    """Fault id → how its broker met the damage, for file faults of which that can be shown."""
    met = {fault.fault_id: _meeting(fault, found) for fault in faults if fault.damages_files and fault.observed}
    return {fault_id: meeting for fault_id, meeting in met.items() if meeting is not None}


def _meeting(fault: Fault, found: Sequence[Opening]) -> Meeting | None:
    p = partition_of(fault)
    since = [one for one in found if one.node in fault.targets and one.at_ns > fault.start_ns]
    if fault.file is not None:
        mine = [one for one in since if one.p == p]
        if mine:
            # What it found later, others may have caused.
            first = min(mine, key=lambda one: one.at_ns)
            return Meeting("cut" if first.shorter else "started" if p is None else "opened", first.at_ns, p)
        if any(one.node in fault.targets for one in found):
            # There is an event log, and it shows no such event.
            return None
    if killed_for_it(fault) and fault.stop_ns is not None and fault.stop_observed:
        return Meeting("started", fault.stop_ns, p)
    return None


def can_have_elected(fault: Fault, met: Mapping[int, Meeting], p: str) -> bool:
    """Whether the fault can have cost its broker the lead of p: not by damage beneath it, as it ran, that it did not
    meet while the fault lasted.
    """
    if not fault.damages_files or killed_for_it(fault):
        return True
    meeting = met.get(fault.fault_id)
    return meeting is not None and fault.active(meeting.at_ns, meeting.at_ns) and meeting.p in (None, p)


def unmet(faults: Iterable[Fault], met: Mapping[int, Meeting]) -> list[str]:
    """Damage that nothing shows to have been met, in sentences."""
    return [
        f"{fault.fault} of {fault.file or 'a file'} on {', '.join(fault.targets)}"
        for fault in faults
        if fault.damages_files and fault.observed and fault.fault_id not in met
    ]


def as_json(fault: Fault, met: Mapping[int, Meeting]) -> dict[str, Any]:
    """The fault as results.json has it."""
    if not fault.damages_files:
        return fault.as_json()
    meeting = met.get(fault.fault_id)
    met_at = None if meeting is None else {"how": meeting.how, "at_ns": meeting.at_ns}
    return {**fault.as_json(), "file": fault.file, "met": met_at}
