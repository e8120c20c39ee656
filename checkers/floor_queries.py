"""What the floor of H8 is judged by, from the tables: work around every fault, elections and their causes, ISR changes.

Grains: one row per fault; one row per election. Both are bounded by the number of faults and elections, not by the
history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.floor import AroundFault
from checkers.load_history import History
from checkers.run_report import Fault
from checkers.white_box.inputs import Evidence
from checkers.white_box.znode_rules import elections, unclean_elections

APPLY_NS = 5_000_000_000
"""A fault's start line is written once its effect was seen: it may have caused an election this long before."""

_BY_HAND = ("preferred", "new-topic")


@dataclass(frozen=True, slots=True)
class Election:
    """at_ns: run time; reason None where no event log says it."""

    p: str
    leader_epoch: int
    at_ns: int
    reason: str | None


def around_faults(history: History) -> list[AroundFault]:
    """For each fault with a start line: acknowledged sends and answered polls before, during and after it, and whether
    a send was tried during it.
    """
    nemesis = history.marks.where((F.col("kind") == "nemesis") & F.col("f").isin("start", "stop"))
    spans = (
        nemesis.groupBy("fault_id")
        .agg(
            F.min(F.when(F.col("f") == "start", F.col("time_ns"))).alias("start_ns"),
            F.min(F.when(F.col("f") == "stop", F.col("time_ns"))).alias("stop_ns"),
        )
        .where(F.col("start_ns").isNotNull())
    )
    work = history.ops.where(F.col("f").isin("send", "poll")).select("f", "outcome", "invoke_ns", "complete_ns")
    begun = (F.col("invoke_ns") >= F.col("start_ns")) & (
        F.col("stop_ns").isNull() | (F.col("invoke_ns") <= F.col("stop_ns"))
    )
    before = F.col("complete_ns") < F.col("start_ns")
    during = begun & (F.col("stop_ns").isNull() | (F.col("complete_ns") <= F.col("stop_ns")))
    after = F.col("invoke_ns") > F.col("stop_ns")
    sent, ok = F.col("f") == "send", F.col("outcome") == "ok"
    sends, polls = sent & ok, (F.col("f") == "poll") & ok

    rows = (
        work.crossJoin(F.broadcast(spans))
        .groupBy("fault_id", "start_ns")
        .agg(
            F.coalesce(F.bool_or(sends & before), F.lit(False)).alias("w_before"),
            F.coalesce(F.bool_or(sends & during), F.lit(False)).alias("w_during"),
            F.coalesce(F.bool_or(sends & after), F.lit(False)).alias("w_after"),
            F.coalesce(F.bool_or(polls & before), F.lit(False)).alias("r_before"),
            F.coalesce(F.bool_or(polls & during), F.lit(False)).alias("r_during"),
            F.coalesce(F.bool_or(polls & after), F.lit(False)).alias("r_after"),
            F.coalesce(F.bool_or(sent & begun), F.lit(False)).alias("w_tried"),
        )
        .orderBy("start_ns")
        .collect()
    )
    return [
        AroundFault(r.fault_id, r.w_before, r.w_during, r.w_after, r.r_before, r.r_during, r.r_after, r.w_tried)
        for r in rows
    ]


def elections_of(evidence: Evidence) -> list[Election]:
    """Elections of the run's partitions, in ZooKeeper's order, timed by the controller's log where there is one."""
    told = (
        evidence.events.where(F.col("e") == "election")
        .groupBy("p", F.col("le").alias("leader_epoch"))
        .agg(F.min("t_ns").alias("t_ns"), F.min("reason").alias("reason"))
    )
    rows = (
        elections(evidence.znodes.states)
        .where(F.col("p").isin(*evidence.info.partitions))
        .join(told, on=["p", "leader_epoch"], how="left")
        .select(
            "p",
            "leader_epoch",
            F.coalesce("t_ns", F.col("time_ms") * 1_000_000 - F.lit(evidence.info.origin_wall_ns)).alias("at_ns"),
            "reason",
            "zxid",
        )
        .orderBy("zxid")
        .collect()
    )
    return [Election(r.p, r.leader_epoch, r.at_ns, r.reason) for r in rows]


def election_faults(found: Sequence[Election], faults: Sequence[Fault]) -> list[str]:
    """Kinds of faults that were active (or being applied) when an election happened that nobody asked for."""
    kinds: set[str] = set()
    for election in found:
        if election.reason in _BY_HAND:
            continue
        active = [f for f in faults if f.active(election.at_ns, election.at_ns)]
        # Only where none was active yet: one that was being applied right then.
        kinds |= {f.fault for f in active} or {f.fault for f in faults if 0 < f.start_ns - election.at_ns <= APPLY_NS}
    return sorted(kinds)


def isr_changes(evidence: Evidence) -> tuple[int, int]:
    """(shrinks by a leader for lag, expansions) that were proposed and then committed, of the run's partitions."""
    proposed = evidence.events.where((F.col("e") == "isr_propose") & F.col("p").isin(*evidence.info.partitions)).select(
        "p", "le", "pe", "kind", "reason", F.array_sort("isr").alias("isr")
    )
    committed = evidence.znodes.states.select(
        "p", F.col("leader_epoch").alias("le"), (F.col("version") - 1).alias("pe"), F.array_sort("isr").alias("isr")
    )
    row = (
        proposed.join(committed, on=["p", "le", "pe", "isr"], how="left_semi")
        .agg(
            F.count_if((F.col("kind") == "shrink") & (F.col("reason") == "lag")).alias("shrinks"),
            F.count_if(F.col("kind") == "expand").alias("expansions"),
        )
        .first()
    )
    assert row is not None
    return row.shrinks, row.expansions


def unclean_partitions(states: DataFrame) -> set[str]:
    """Partitions that saw a leader from outside the ISR."""
    return {row.p for row in unclean_elections(states).select("p").distinct().collect()}


def replicas_by_partition(evidence: Evidence) -> dict[str, list[int]]:
    """Brokers assigned to each of the run's partitions at the end, as ZooKeeper has it."""
    rows = (
        evidence.znodes.assignments.where(F.col("next_zxid").isNull() & F.col("p").isin(*evidence.info.partitions))
        .select("p", "replicas")
        .collect()
    )
    return {row.p: list(row.replicas) for row in rows}
