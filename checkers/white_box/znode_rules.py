"""Rule 1: leaders, ISRs and epochs along ZooKeeper's own transaction log.

Input grain: one row per version of a partition's state. Small tables: they grow with elections and ISR changes, not
with the history.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.elections import electable, from_outside
from checkers.evidence.timeline import Evidence, transaction_ns
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

ISR_ZNODE = "isr-znode"

LONGEST_LOG, UNCLEAN_LEADER = "longest-log", "unclean-leader"
"""Rules of isr-znode: what a leader from outside the ISR may be."""


def znode_rules(evidence: Evidence) -> Family:
    states = evidence.znodes.states
    per_partition = states.groupBy("p").agg(F.count(F.lit(1)).alias("versions"))
    return Family(_isr_znode(evidence), figures(per_partition, {(ISR_ZNODE, "versions"): F.col("versions")}))


def _where() -> Column:
    return text(
        "{p} version {v} (zxid {z}): leader {l}, epoch {e}, ISR {i}",
        p=F.col("p"),
        v=F.col("version"),
        z=F.hex("zxid"),
        l=F.col("leader"),
        e=F.col("leader_epoch"),
        i=F.col("isr"),
    )


def _isr_znode(evidence: Evidence) -> DataFrame:
    states = evidence.znodes.states
    assigned = (
        states.alias("s")
        .join(
            evidence.znodes.assignments.alias("a"),
            on=(F.col("s.p") == F.col("a.p"))
            & (F.col("a.zxid") <= F.col("s.zxid"))
            & (F.col("a.next_zxid").isNull() | (F.col("a.next_zxid") > F.col("s.zxid"))),
            how="left",
        )
        .select("s.*", "a.replicas")
        .join(F.broadcast(_longest_logs(evidence)), on=["p", "leader_epoch"], how="left")
    )
    was = F.col("previous")
    unclean = from_outside()
    longest_log = F.col("longest_log").isNotNull()
    problems = F.array_compact(
        F.array(
            F.when(F.col("isr").isNull() | F.col("leader").isNull(), F.lit("cannot be read")),
            F.when(F.size("isr") == 0, F.lit("the ISR is empty")),
            F.when(F.col("replicas").isNull(), F.lit("no assignment is known for it")),
            F.when(F.size(F.array_except("isr", "replicas")) > 0, F.lit("the ISR holds a broker that is no replica")),
            F.when(
                (F.col("leader") != -1) & ~F.array_contains("isr", F.col("leader")),
                F.lit("the leader is not in the ISR"),
            ),
            F.when(
                F.size(F.array_intersect("eligible", "isr")) > 0, F.lit("an eligible replica is in the ISR as well")
            ),
            F.when(
                F.size(F.array_except("eligible", electable())) > 0,
                F.lit("a replica became eligible that was not in the ISR"),
            ),
            F.when(F.col("leader_epoch") < was["leader_epoch"], F.lit("the leader epoch went back")),
            F.when(
                (F.col("leader") >= 0)
                & (F.col("leader") != was["leader"])
                & (F.col("leader_epoch") <= was["leader_epoch"]),
                F.lit("the leader changed without a new leader epoch"),
            ),
            F.when(
                unclean,
                F.concat(
                    F.lit("the new leader was not in the previous ISR "),
                    was["isr"].cast("string"),
                    F.lit(", nor eligible"),
                    F.when(longest_log, F.lit(", but had the longest log of all replicas")).otherwise(
                        F.lit(
                            " (unclean election is enabled)"
                            if evidence.info.unclean
                            else " although unclean election is disabled"
                        )
                    ),
                ),
            ),
        )
    )
    broken = assigned.withColumn("problems", problems).where(F.size("problems") > 0)
    nothing_else = unclean & (F.size("problems") == 1)
    rule = F.when(nothing_else, F.when(longest_log, F.lit(LONGEST_LOG)).otherwise(F.lit(UNCLEAN_LEADER)))
    return apply_rules(
        broken,
        [
            Rule(
                ISR_ZNODE,
                F.lit(True),
                F.concat(_where(), F.lit(": "), F.array_join("problems", "; ")),
                kind=F.when(nothing_else & longest_log, F.lit("allowed")).otherwise(F.lit("invalid")),
                name=F.coalesce(rule, F.lit("")),
                evidence=text("ZooKeeper's log, session {s}, time {t} ms", s=F.hex("session"), t=F.col("time_ms")),
                from_ns=transaction_ns(evidence),
                to_ns=transaction_ns(evidence),
            )
        ],
    )


def _longest_logs(evidence: Evidence) -> DataFrame:
    """(p, leader_epoch, longest_log): elections among all replicas, none of which surely had what was committed.

    They are allowed, and counted. Records lost by them are not: the rules on records judge those.
    """
    announced = evidence.events.where((F.col("e") == "election") & (F.col("reason") == LONGEST_LOG))
    return announced.select("p", F.col("le").alias("leader_epoch"), F.lit(True).alias("longest_log")).distinct()
