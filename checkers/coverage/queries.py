"""What coverage (H8) is judged by, from the tables: work around every fault, elections and their causes, ISR changes.

Grains: one row per fault; one row per election. Both are bounded by the number of faults and elections, not by the
history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.coverage.damage_met import Meeting, can_have_elected, killed_for_it
from checkers.coverage.fault_reach import touches
from checkers.coverage.leaders import InSync
from checkers.coverage.recovery import QuietWindow, Work
from checkers.coverage.requirements import AroundFault
from checkers.evidence.elections import elections
from checkers.evidence.timeline import Evidence, transaction_ns
from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.history.run_info import RunInfo
from checkers.spark.tables import one_piece

MAIN = "main"
"""Phase of the load: sentinels and drains come after it."""

_SHOWN = 5

_BY_HAND = ("preferred", "reassignment", "new-topic")


@dataclass(frozen=True, slots=True)
class Election:
    """at_ns: run time; reason and by None where no event log says it.

    led: the broker that led before. by: the controller that elected.
    """

    p: str
    leader_epoch: int
    at_ns: int
    reason: str | None
    led: int | None = None
    by: int | None = None


def _of_the_load() -> Column:
    return (F.col("phase") == MAIN) & ~F.col("sentinel")


def around_faults(history: History, *, scripted: bool = False) -> list[AroundFault]:
    """For each fault with a start line: acknowledged sends and answered polls before, during and after it, and whether
    a send was tried during it.

    Of the load only: sentinels and drains are of a cluster that was healed, and come after every fault of every run. A
    script reads nothing itself, so there they count.
    During: from when its effect was seen until it began to be taken back. Before that it was being applied, and after
    that it was going: work then is none of the three.
    """
    nemesis = history.marks.where((F.col("kind") == "nemesis") & F.col("f").isin("start", "stop"))
    began = F.coalesce("began_ns", "time_ns")
    spans = (
        nemesis.groupBy("fault_id")
        .agg(
            F.min(F.when(F.col("f") == "start", began)).alias("began_ns"),
            F.min(F.when(F.col("f") == "start", F.col("time_ns"))).alias("start_ns"),
            F.min(F.when(F.col("f") == "stop", began)).alias("stop_began_ns"),
            F.min(F.when(F.col("f") == "stop", F.col("time_ns"))).alias("stop_ns"),
        )
        .where(F.col("start_ns").isNotNull())
    )
    counted = F.lit(True) if scripted else _of_the_load()
    work = history.ops.where(F.col("f").isin("send", "poll") & counted).select(
        "f", "outcome", "invoke_ns", "complete_ns", "base_offset"
    )
    until = F.col("stop_began_ns")
    begun = (F.col("invoke_ns") >= F.col("start_ns")) & (until.isNull() | (F.col("invoke_ns") < until))
    before = F.col("complete_ns") < F.col("began_ns")
    during = begun & (until.isNull() | (F.col("complete_ns") < until))
    after = F.col("invoke_ns") > F.col("stop_ns")
    sent, ok = F.col("f") == "send", F.col("outcome") == "ok"
    # acks=0 is acknowledged by nobody.
    sends, polls = sent & ok & F.col("base_offset").isNotNull(), (F.col("f") == "poll") & ok

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


def work_in(history: History, quiet_windows: Sequence[QuietWindow]) -> dict[QuietWindow, dict[str, Work]]:
    """For each of these times: partition → what the load tried there and got done, of what it began in it; where it
    went on, of what was done by then.

    A send with acks=0 is never acknowledged, and an empty response to a poll counts as work.
    """
    if not quiet_windows:
        return {}
    times = [(nth, window.from_ns, window.until_ns) for nth, window in enumerate(quiet_windows)]
    spans = history.ops.sparkSession.createDataFrame(times, "nth int, from_ns bigint, until_ns bigint")
    until = F.coalesce("until_ns", F.lit(2**62))
    sent, polled = F.col("f") == "send", F.col("f") == "poll"
    ok = (F.col("outcome") == "ok") & (F.col("complete_ns") < until)
    rows = (
        history.ops.where(_of_the_load() & (sent | polled))
        .select("p", "f", "outcome", "invoke_ns", "complete_ns", "base_offset")
        .crossJoin(F.broadcast(spans))
        .where((F.col("invoke_ns") > F.col("from_ns")) & (F.col("invoke_ns") < until))
        .groupBy("nth", "p")
        .agg(
            F.count_if(sent).alias("sends"),
            F.count_if(polled).alias("polls"),
            F.coalesce(F.bool_or(sent & ok & F.col("base_offset").isNotNull()), F.lit(False)).alias("wrote"),
            F.coalesce(F.bool_or(polled & ok), F.lit(False)).alias("read"),
        )
        .collect()
    )
    work: dict[QuietWindow, dict[str, Work]] = {window: {} for window in quiet_windows}
    for row in rows:
        work[quiet_windows[row.nth]][row.p] = Work(row.sends, row.polls, row.wrote, row.read)
    return work


def load_gaps(history: History, partitions: Sequence[str]) -> list[str]:
    """Partitions that the load itself got nothing into, or nothing out of.

    Sentinels and drains reach every partition of a healed cluster; they say nothing of what it did before.
    """
    ok, main = F.col("outcome") == "ok", F.col("phase") == MAIN
    # Sends with acks=0 are never acknowledged: only polls show whether they arrived.
    acked = F.col("base_offset").isNotNull() | (F.col("acks") == 0)
    wrote = history.ops.where((F.col("f") == "send") & main & ok & acked & ~F.col("sentinel"))
    read = history.requests.where((F.col("f") == "poll") & main & ok & (F.col("returned") > 0))
    seen = (
        wrote.select("p", F.lit("w").alias("work"))
        .unionByName(read.select("p", F.lit("r").alias("work")))
        .transform(one_piece)
    )
    found = {(row.p, row.work) for row in seen.distinct().collect()}
    gaps: list[str] = []
    for work, what in (("w", "acknowledged write to"), ("r", "poll that returned a record of")):
        without = [p for p in partitions if (p, work) not in found]
        if without:
            more = " and others" if len(without) > _SHOWN else ""
            gaps.append(f"no {what} {', '.join(without[:_SHOWN])}{more} in the main phase of the load")
    return gaps


def heads_deleted(history: History, partitions: Sequence[str]) -> int:
    """How many partitions' logs a response of the load said to begin above 0: their oldest records were deleted."""
    told = history.requests.where((F.col("phase") == MAIN) & (F.col("outcome") == "ok"))
    earliest = F.when((F.col("f") == "list_offsets") & (F.col("timestamp") == -2), F.col("end_offset"))
    above = told.where((F.coalesce("log_start", earliest) > 0) & F.col("p").isin(*partitions))
    return above.select("p").distinct().count()


def elections_of(evidence: Evidence) -> list[Election]:
    """Elections of the run's partitions, in ZooKeeper's order, timed by the controller's log where there is one."""
    announced = (
        evidence.events.where(F.col("e") == "election")
        .groupBy("p", F.col("le").alias("leader_epoch"))
        .agg(F.min("t_ns").alias("t_ns"), F.min("reason").alias("reason"), F.min("b").alias("by"))
    )
    rows = (
        elections(evidence.znodes.states)
        .where(F.col("p").isin(*evidence.info.partitions))
        .join(announced, on=["p", "leader_epoch"], how="left")
        .select(
            "p",
            "leader_epoch",
            F.coalesce(F.col("t_ns"), transaction_ns(evidence)).alias("at_ns"),
            "reason",
            "led",
            "by",
            "zxid",
        )
        .orderBy("zxid")
        .collect()
    )
    return [Election(r.p, r.leader_epoch, r.at_ns, r.reason, r.led, r.by) for r in rows]


def isrs_of(evidence: Evidence) -> dict[str, list[InSync]]:
    """Of each of the run's partitions every version of its ISR, by ZooKeeper's clock."""
    names = {node.broker_id: node.name for node in evidence.info.brokers}
    rows = (
        evidence.znodes.states.where(F.col("p").isin(*evidence.info.partitions))
        .select("p", "zxid", transaction_ns(evidence).alias("at_ns"), F.array_union("isr", "eligible").alias("members"))
        .orderBy("zxid")
        .collect()
    )
    found: dict[str, list[InSync]] = {}
    for row in rows:
        members = frozenset(names[broker] for broker in row.members if broker in names)
        found.setdefault(row.p, []).append(InSync(row.at_ns, members))
    return found


def election_faults(
    found: Sequence[Election], faults: Sequence[Fault], info: RunInfo, met: Mapping[int, Meeting]
) -> list[str]:
    """Kinds of faults that can have caused an election that was not requested: they touched the broker that led before,
    and it came between the first attempt to apply them and the end that was seen.

    A broker that was killed for a fault of its files lost its leadership by the kill. Damage beneath a running one
    counts only where it met it.
    """
    names = {node.broker_id: node.name for node in info.brokers}
    zookeepers = frozenset(node.name for node in info.zookeepers)
    return sorted(
        {
            "kill" if killed_for_it(fault) else fault.fault
            for election in found
            if election.reason not in _BY_HAND
            for fault in faults
            if fault.active(election.at_ns, election.at_ns)
            and touches(fault, names.get(election.led), zookeepers, names.get(election.by))
            and can_have_elected(fault, met, election.p)
        }
    )


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


def leader_changes(history: History, evidence: Evidence) -> DataFrame:
    """schema.LEADER_CHANGE: the last time another broker took over a partition; the node that has led since, in which
    epoch that began, and whether it had led before that.

    By ZooKeeper's log, which ends before the drain moves leaders about; where it has nothing of a partition, by what
    Metadata said before the drain. An epoch that rose alone is no change.
    """
    names = {node.broker_id: node.name for node in evidence.info.brokers if node.broker_id is not None}
    states = evidence.znodes.states
    run_ns = (F.col("time_ms") + 1) * 1_000_000 - F.lit(evidence.info.origin_wall_ns)
    seen = states.where((F.col("leader") >= 0) & (F.col("leader") != F.col("led"))).select(
        "p",
        run_ns.alias("at_ns"),
        _change(F.col("leader_epoch"), _named(names, "leader"), _named(names, "led")),
    )
    in_order = Window.partitionBy("p").orderBy("time_ns", "index")
    announced = (
        history.marks.where((F.col("f") == "leadership") & F.col("leader").isNotNull())
        .where(~F.coalesce(F.col("phase").startswith("drain"), F.lit(False)))
        .join(F.broadcast(states.select("p").distinct()), on="p", how="left_anti")
        .withColumn("was", F.lag("leader").over(in_order))
        .where(F.col("leader") != F.col("was"))
        .select("p", F.col("time_ns").alias("at_ns"), _change(F.col("epoch"), F.col("leader"), F.col("was")))
    )
    return (
        seen.unionByName(announced)
        .transform(one_piece)
        .groupBy("p")
        .agg(
            F.max("at_ns").alias("changed_ns"),
            F.max_by("change", F.struct("at_ns", "change.epoch")).alias("last"),
            F.collect_set("change.led").alias("led"),
        )
        .select("p", "changed_ns", "last.*", F.array_contains("led", F.col("last.leader")).alias("returned"))
        .drop("led")
    )


def _change(epoch: Column, leader: Column, led: Column) -> Column:
    return F.struct(epoch.cast("int").alias("epoch"), leader.alias("leader"), led.alias("led")).alias("change")


def _named(names: Mapping[int, str], column: str) -> Column:
    """The node of a broker's id."""
    parts = [F.lit(part) for pair in names.items() for part in pair]
    return (F.create_map(*parts)[F.col(column)] if parts else F.lit(None)).cast("string")


def output_partitions(history: History, info: RunInfo) -> list[str]:
    """Partitions of other topics than the run's, to which what became of its records was sent."""
    rows = history.sends.where(F.col("source").isNotNull()).select("p").distinct().collect()
    return sorted({row.p for row in rows} - set(info.partitions))


def replicas_by_partition(evidence: Evidence) -> dict[str, list[int]]:
    """Brokers assigned to each partition at the end, as ZooKeeper has it."""
    rows = evidence.znodes.assignments.where(F.col("next_zxid").isNull()).select("p", "replicas").collect()
    return {row.p: list(row.replicas) for row in rows}
