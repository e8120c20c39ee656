"""Whether the event logs are whole: no gap, no missing incarnation, nothing that clients or ZooKeeper saw left out.

A log that lacks something proves nothing about the rest: everything found here is unknown, never invalid, and every
rule that rests on event logs is then unknown too (the verdict sees to that). Grain: one row per incarnation,
registration or send.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.event_log_gaps import (
    headless,
    holed,
    incarnations,
    readable,
    unlogged_acks,
    unlogged_lives,
    unreadable,
)
from checkers.evidence.event_names import is_strange
from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

EVENT_LOG = "event-log"


def event_log_rules(evidence: Evidence, raw: DataFrame) -> Family:
    """raw: schema.EVENTS with unreadable lines. All findings are of kind unknown."""
    brokers = {node.name: node.broker_id for node in evidence.info.brokers if node.broker_id is not None}
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
        _unreadable(raw, lives),
        _strange(raw, brokers),
        _otherwise_set(evidence),
        _unlogged_registrations(evidence, lives),
        _unlogged_acks(evidence),
        _unlogged_fetches(evidence),
    ]
    per_partition = evidence.timeline.groupBy("p").agg(F.count(F.lit(1)).alias("lines"))
    return Family(union(found), figures(per_partition, {(EVENT_LOG, "lines"): F.col("lines")}))


def _unknown(rows: DataFrame, detail: Column) -> DataFrame:
    """Each of these rows is a finding."""
    return apply_rules(rows, [Rule(EVENT_LOG, F.lit(True), detail, kind="unknown")])


def _unreadable(raw: DataFrame, lives: DataFrame) -> DataFrame:
    """Lines that cannot be read: each incarnation that did not stop may have torn its last one, no more."""
    of_node = (
        unreadable(raw, lives)
        .groupBy("node", "incarnations", "open")
        .agg(
            F.count(F.lit(1)).alias("unreadable"),
            F.count_if(~F.col("torn")).alias("damaged"),
            F.min(F.when(~F.col("torn"), F.substring("line", 1, 80))).alias("first"),
        )
        .withColumn("p", F.lit(None).cast("string"))
    )
    many = text(
        "{u} lines of the event log of {n} cannot be read, with {i} incarnations, of which {o} did not stop",
        u=F.col("unreadable"),
        n=F.col("node"),
        i=F.col("incarnations"),
        o=F.col("open"),
    )
    damaged = text(
        "of the event log of {n}, {c} lines cannot be read that are not the torn last one of an incarnation, as {l}",
        c=F.col("damaged"),
        n=F.col("node"),
        l=F.coalesce("first", F.lit("one that says nothing")),
    )
    return apply_rules(
        of_node,
        [
            Rule(EVENT_LOG, F.col("damaged") > 0, damaged, kind="unknown"),
            Rule(EVENT_LOG, F.col("unreadable") - F.col("damaged") > F.col("open"), many, kind="unknown"),
        ],
    )


def _strange(raw: DataFrame, brokers: Mapping[str, int]) -> DataFrame:
    """Lines that can be read, and no rule can go by. brokers: node → its broker's id."""
    of_node = (
        raw.where(readable() & is_strange(brokers))
        .groupBy("node")
        .agg(F.count(F.lit(1)).alias("strange"), F.min(F.struct("i", "s", "e")).alias("first"))
        .withColumn("p", F.lit(None).cast("string"))
    )
    return _unknown(
        of_node,
        text(
            "of the event log of {n}, {c} lines are of no event that the rules know, lack what theirs has to say, or "
            "are another broker's, first {i}/{s} (e = {e})",
            c=F.col("strange"),
            n=F.col("node"),
            i=F.col("first.i"),
            s=F.col("first.s"),
            e=F.col("first.e"),
        ),
    )


def _otherwise_set(evidence: Evidence) -> DataFrame:
    """Incarnations that say that they cut their logs otherwise than the run had set them to: rules forgive one way what
    they do not the other.
    """
    wanted = F.coalesce(
        *[F.when(F.col("node") == node, way) for node, way in evidence.info.truncation.items()],
        F.lit(None).cast("string"),
    )
    odd = evidence.events.where((F.col("e") == "start") & (F.col("truncation") != wanted))
    return _unknown(
        odd.withColumn("p", F.lit(None).cast("string")),
        text(
            "{n}, incarnation {i}, says that it cuts its logs by {t}, and was set to {w}",
            n=F.col("node"),
            i=F.col("i"),
            t=F.col("truncation"),
            w=wanted,
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
