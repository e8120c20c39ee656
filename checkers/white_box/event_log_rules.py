"""Whether the event logs are whole: no gap, no missing incarnation, nothing that clients or ZooKeeper saw left out.

A log that lacks something proves nothing about the rest: everything found here is unknown, never invalid, and every
rule that rests on event logs is then unknown too (the verdict sees to that). Grain: one row per incarnation,
registration or send.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.event_log_gaps import headless, holed, incarnations, unlogged_acks, unlogged_lives
from checkers.evidence.timeline import Evidence
from checkers.history import schema
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

EVENT_LOG = "event-log"


def event_log_rules(evidence: Evidence, raw: DataFrame) -> Family:
    """raw: schema.EVENTS with unreadable lines. All findings are of kind unknown."""
    lives = incarnations(evidence.events).withColumn("p", F.lit(None).cast("string"))
    found = [
        _unknown(
            lives.where(holed()),
            text(
                "the event log of {n}, incarnation {i}, has gaps or repeats: {c} lines from {a} to {z}",
                n=F.col("node"),
                i=F.col("i"),
                c=F.col("lines"),
                a=F.col("first"),
                z=F.col("last"),
            ),
        ),
        _unknown(
            lives.where(headless()),
            text(
                "the event log of {n}, incarnation {i}, does not begin with `start`",
                n=F.col("node"),
                i=F.col("i"),
            ),
        ),
        _torn(raw, lives),
        _unlogged_registrations(evidence, lives),
        _unlogged_acks(evidence),
        _unlogged_fetches(evidence),
    ]
    per_partition = evidence.timeline.groupBy("p").agg(F.count(F.lit(1)).alias("lines"))
    return Family(union(found), figures(per_partition, {(EVENT_LOG, "lines"): F.col("lines")}))


def _unknown(rows: DataFrame, detail: Column) -> DataFrame:
    """Each of these rows is a finding."""
    return apply_rules(rows, [Rule(EVENT_LOG, F.lit(True), detail, kind="unknown")])


def _torn(raw: DataFrame, lives: DataFrame) -> DataFrame:
    """Each incarnation may have torn its last line, no more."""
    unreadable = (
        raw.where(F.col(schema.CORRUPT).isNotNull() | F.col("e").isNull())
        .groupBy("node")
        .agg(F.count(F.lit(1)).alias("unreadable"))
    )
    starts = lives.groupBy("node").agg(F.count(F.lit(1)).alias("incarnations"))
    odd = (
        unreadable.join(starts, on="node", how="left")
        .where(F.col("unreadable") > F.coalesce("incarnations", F.lit(0)))
        .withColumn("p", F.lit(None).cast("string"))
    )
    return _unknown(
        odd,
        text(
            "{u} lines of the event log of {n} cannot be read, with {i} incarnations",
            u=F.col("unreadable"),
            n=F.col("node"),
            i=F.col("incarnations"),
        ),
    )


def _unlogged_registrations(evidence: Evidence, lives: DataFrame) -> DataFrame:
    """Every life of /brokers/ids/N is in an event log of N, but for those killed before they could log it."""
    odd = unlogged_lives(lives, evidence.events, evidence.znodes.registrations).withColumn(
        "p", F.lit(None).cast("string")
    )
    return _unknown(
        odd,
        text(
            "ZooKeeper saw broker {b} register as {c}, and no incarnation in its event log says so",
            b=F.col("b"),
            c=F.col("czxids"),
        ),
    )


def _unlogged_acks(evidence: Evidence) -> DataFrame:
    """Every acknowledgement that a client got is in its leader's log."""
    return apply_rules(
        unlogged_acks(evidence.history, evidence.events, evidence.timeline),
        [
            Rule(
                EVENT_LOG,
                F.lit(True),
                text(
                    "{n} acknowledged {p} offset {o}, and no event log has that `ack`",
                    n=F.col("node"),
                    p=F.col("p"),
                    o=F.col("base_offset"),
                ),
                kind="unknown",
                offset=F.col("base_offset"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )


def _unlogged_fetches(evidence: Evidence) -> DataFrame:
    """Responses that a follower got although its leader's log has no such fetch: a leader logs a fetch before it
    responds. Logs are not copied at one instant: only responses before the drain, which comes before the copies.
    """
    drains = evidence.history.requests.where(F.col("phase").startswith("drain"))
    began = drains.agg(F.min("invoke_ns").alias("drain_ns"))
    received_fetches = (
        evidence.events.where(F.col("e") == "fetch_answered")
        .crossJoin(F.broadcast(began))
        .where(F.col("t_ns") < F.col("drain_ns"))
        .select("rid", F.col("leader").alias("b"), F.explode("parts").alias("part"))
        .where(F.get("part", F.lit(1)) == "0")
        .select("rid", "b", F.get("part", F.lit(0)).alias("p"))
    )
    received = evidence.events.where(F.col("e") == "fetch_received").select("rid", "b").distinct()
    odd = (
        received_fetches.join(received, on=["rid", "b"], how="left_anti")
        .groupBy("b", "p")
        .agg(F.count(F.lit(1)).alias("fetches"), F.min("rid").alias("rid"))
    )
    return _unknown(
        odd,
        text(
            "broker {b} answered {c} fetches of {p} ({r} and others) that its event log does not have",
            b=F.col("b"),
            c=F.col("fetches"),
            p=F.col("p"),
            r=F.col("rid"),
        ),
    )
