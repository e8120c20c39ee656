"""Rules 4, 5, 6, 9 and 17: high watermarks, acknowledgements and what was shown, from the event logs.

Input grain: one row per event of the timeline. A row found proves that a line of a broker's own log contradicts what
stood in that log before it, or what another broker's log says of the same fetch (matched by request id, never by
clocks), or that a client saw more than any leader of that epoch ever held committed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.findings import Family, figures, finding, text, union
from checkers.white_box.inputs import Evidence, sent_fetches

OFFSET_ORDER = "offset-order"
HW_WITHIN_ISR = "hw-within-isr"
HW_MONOTONE = "hw-monotone"
ACK_COMMITTED = "ack-committed"
SHOWN_COMMITTED = "shown-below-hw"


def watermark_rules(evidence: Evidence) -> Family:
    timeline = evidence.timeline
    found = [
        _offset_order(timeline),
        _followers_below_leaders(timeline),
        _hw_within_isr(timeline),
        _hw_monotone(timeline),
        _acks(timeline),
        _shown(timeline),
        _shown_to_clients(evidence),
    ]
    leader_hw = (F.col("e") == "hw") & (F.col("role") == "leader")
    per_partition = timeline.groupBy("p").agg(
        F.count_if(leader_hw).alias("advances"),
        F.count_if(F.col("e") == "hw").alias("hws"),
        F.count_if((F.col("e") == "ack") & (F.col("acks") == -1)).alias("acks"),
        F.count_if(F.col("e") == "visible").alias("shown"),
    )
    return Family(
        union(found),
        figures(
            per_partition,
            {
                (OFFSET_ORDER, "hw_events"): F.col("hws"),
                (HW_WITHIN_ISR, "hw_advances"): F.col("advances"),
                (HW_MONOTONE, "hw_advances"): F.col("advances"),
                (ACK_COMMITTED, "acks_all"): F.col("acks"),
                (SHOWN_COMMITTED, "answers_shown"): F.col("shown"),
            },
        ),
    )


def fetch_rules(evidence: Evidence) -> Family:
    """Rule 5's other half: what a leader believes of its followers is what they asked, and what they asked they had."""
    claims = _claims_within_fetches(evidence)
    matched = _fetches_match(evidence)
    per_partition = evidence.fetches.groupBy("p").agg(F.count(F.lit(1)).alias("fetches"))
    return Family(
        union([claims, *matched]),
        figures(per_partition, {(HW_WITHIN_ISR, "follower_fetches"): F.col("fetches")}),
    )


def _line(template: str, **columns: Column) -> Column:
    return F.concat(
        text("broker {b}, {p}, event {i}/{s}: ", b=F.col("b"), p=F.col("p"), i=F.col("i"), s=F.col("s")),
        text(template, **columns),
    )


def _found(rows: DataFrame, checker: str, detail: Column, offset: Column | None = None) -> DataFrame:
    return finding(rows, checker, detail, offset=offset, from_ns=F.col("t_ns"), to_ns=F.col("t_ns"))


def _offset_order(timeline: DataFrame) -> DataFrame:
    takes = F.col("e").isin("become_leader", "become_follower", "recovered")
    end = F.when(takes, F.col("leo")).otherwise(F.col("was_leo"))
    broken = timeline.where(
        ((takes | (F.col("e") == "hw")) & (F.col("hw") > end))
        | ((F.col("e") == "recovered") & (F.col("log_start") > F.col("leo")))
    )
    return _found(
        broken,
        OFFSET_ORDER,
        _line(
            "{e} with high watermark {h}, log start {l}, log end {n}",
            e=F.col("e"),
            h=F.col("hw"),
            l=F.col("log_start"),
            n=end,
        ),
        F.col("hw"),
    )


def _followers_below_leaders(timeline: DataFrame) -> DataFrame:
    taken = (F.col("e") == "become_leader") | ((F.col("e") == "hw") & (F.col("role") == "leader"))
    followed = (F.col("e") == "hw") & (F.col("role") == "follower")
    highest = timeline.groupBy("p", "le").agg(
        F.max(F.when(taken, F.col("hw"))).alias("leader_hw"),
        F.max(F.when(followed, F.struct("hw", "b", "i", "s", "t_ns"))).alias("follower"),
    )
    above = highest.where(F.col("follower").isNotNull() & (F.coalesce("leader_hw", F.lit(-1)) < F.col("follower.hw")))
    kind = F.when(F.col("leader_hw").isNull(), F.lit("unknown")).otherwise(F.lit("invalid"))
    return finding(
        above,
        OFFSET_ORDER,
        text(
            "broker {b} followed {p} in epoch {le} up to high watermark {h}; the leader's in that epoch was {l}",
            b=F.col("follower.b"),
            p=F.col("p"),
            le=F.col("le"),
            h=F.col("follower.hw"),
            l=F.col("leader_hw"),
        ),
        kind=kind,
        offset=F.col("follower.hw"),
        from_ns=F.col("follower.t_ns"),
        to_ns=F.col("follower.t_ns"),
    )


def _hw_within_isr(timeline: DataFrame) -> DataFrame:
    """hw ≤ the LEO of every member of the committed and of the maximal ISR; the ISR as last committed, within the
    maximal.
    """
    rows = timeline.where((F.col("e") == "hw") & (F.col("role") == "leader"))
    members = F.array_union("isr", "maximal")
    behind = F.filter(members, lambda member: F.coalesce(F.col("leos")[member.cast("string")], F.lit(-1)) < F.col("hw"))
    broken = rows.withColumn("behind", behind).where(
        (F.size("behind") > 0)
        | (F.size(F.array_except("isr", "maximal")) > 0)
        | (F.array_sort("isr") != F.array_sort("was_isr"))
    )
    return _found(
        broken,
        HW_WITHIN_ISR,
        _line(
            "high watermark {h} with log ends {l}, ISR {i} (last committed {w}), maximal {m}; behind: {x}",
            h=F.col("hw"),
            l=F.to_json("leos"),
            i=F.col("isr"),
            w=F.col("was_isr"),
            m=F.col("maximal"),
            x=F.col("behind"),
        ),
        F.col("hw"),
    )


def _hw_monotone(timeline: DataFrame) -> DataFrame:
    back = timeline.where(
        (F.col("e") == "hw")
        & (F.col("role") == "leader")
        & (F.col("was_leader.le") == F.col("le"))
        & (F.col("hw") < F.col("was_leader.hw"))
    )
    return _found(
        back,
        HW_MONOTONE,
        _line("high watermark {h} in epoch {le} after {w}", h=F.col("hw"), le=F.col("le"), w=F.col("was_leader.hw")),
        F.col("hw"),
    )


def _acks(timeline: DataFrame) -> DataFrame:
    rows = timeline.where((F.col("e") == "ack") & (F.col("acks") == -1))
    own = F.when(F.col("was_leader.le") == F.col("le"), F.col("was_leader.hw"))
    problems = F.array_compact(
        F.array(
            F.when(F.col("hw") <= F.col("last"), F.lit("the high watermark had not passed it")),
            F.when(own.isNull() | (own < F.col("hw")), F.lit("its high watermark was never logged")),
            F.when(F.size("isr") < F.col("min_isr"), F.lit("the ISR was below its minimum")),
            F.when(F.array_sort("isr") != F.array_sort("was_isr"), F.lit("its ISR is not the committed one")),
        )
    )
    broken = rows.withColumn("problems", problems).where(F.size("problems") > 0)
    return _found(
        broken,
        ACK_COMMITTED,
        _line(
            "acks=all answered for offsets {a} to {z} with high watermark {h}, ISR {i}, min ISR {m}: {x}",
            a=F.col("base"),
            z=F.col("last"),
            h=F.col("hw"),
            i=F.col("isr"),
            m=F.col("min_isr"),
            x=F.array_join("problems", "; "),
        ),
        F.col("last"),
    )


def _shown(timeline: DataFrame) -> DataFrame:
    rows = timeline.where(F.col("e") == "visible")
    own = F.when(F.col("was_leader.le") == F.col("le"), F.col("was_leader.hw"))
    broken = rows.where((F.col("upto") > F.col("hw")) | own.isNull() | (F.col("hw") > own))
    return _found(
        broken,
        SHOWN_COMMITTED,
        _line(
            "{k} showed everything below {u} with high watermark {h} (its last logged one in epoch {le}: {o})",
            k=F.col("kind"),
            u=F.col("upto"),
            h=F.col("hw"),
            le=F.col("le"),
            o=own,
        ),
        F.col("upto") - 1,
    )


def _shown_to_clients(evidence: Evidence) -> DataFrame:
    """What clients saw in an epoch lies below the highest HW that the leader of that epoch ever logged.

    Only answers that completed before their node's log was copied: for those every line had been written.
    """
    copied = evidence.events.groupBy("node").agg(F.max("t_ns").alias("copied_ns"))
    taken = (F.col("e") == "become_leader") | ((F.col("e") == "hw") & (F.col("role") == "leader"))
    highest = (
        evidence.timeline.where(taken)
        .groupBy("p", F.col("le").alias("leader_epoch"))
        .agg(F.max("hw").alias("leader_hw"))
    )
    polls = evidence.history.requests.where(
        (F.col("f") == "poll")
        & (F.col("outcome") == "ok")
        & (F.col("reader") == "wire")
        & (F.col("leader_epoch") >= 0)
        & (F.col("returned") > 0)
    )
    judged = polls.join(F.broadcast(copied), on="node", how="inner").where(F.col("complete_ns") < F.col("copied_ns"))
    joined = judged.join(F.broadcast(highest), on=["p", "leader_epoch"], how="left")
    above = joined.where(F.col("leader_hw").isNull() | (F.col("last_offset") >= F.col("leader_hw")))
    return finding(
        above,
        SHOWN_COMMITTED,
        text(
            "a poll of {p} in epoch {le} returned offset {o}; the highest watermark that its leader logged in that "
            "epoch is {h}",
            p=F.col("p"),
            le=F.col("leader_epoch"),
            o=F.col("last_offset"),
            h=F.col("leader_hw"),
        ),
        kind=F.when(F.col("leader_hw").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
        offset=F.col("last_offset"),
        ops=[F.col("op")],
        from_ns=F.col("invoke_ns"),
        to_ns=F.col("complete_ns"),
    )


def _claims_within_fetches(evidence: Evidence) -> DataFrame:
    """A leader's idea of a follower's LEO never exceeds what that follower asked in this epoch; who joins has caught
    up.
    """
    fetched = evidence.fetches.select(
        "b",
        "i",
        "s",
        "t_ns",
        "p",
        "le",
        F.col("follower").alias("member"),
        "offset",
        F.lit(None).cast("bigint").alias("claim"),
        F.lit("fetch").alias("what"),
    )
    advances = (
        evidence.timeline.where((F.col("e") == "hw") & (F.col("role") == "leader"))
        .select("b", "i", "s", "t_ns", "p", "le", "hw", F.array_union("isr", "maximal").alias("members"))
        .select("b", "i", "s", "t_ns", "p", "le", "hw", F.explode("members").alias("member"))
    )
    joins = evidence.timeline.where((F.col("e") == "isr_propose") & (F.col("kind") == "expand")).select(
        "b",
        "i",
        "s",
        "t_ns",
        "p",
        "le",
        F.col("was_leader.hw").alias("hw"),
        F.explode(F.array_except("isr", "was_isr")).alias("member"),
    )
    claims = (
        advances.withColumn("what", F.lit("advanced its high watermark to"))
        .unionByName(joins.withColumn("what", F.lit("proposed the member at its high watermark")))
        .where(F.col("member") != F.col("b"))
        .select(
            "b",
            "i",
            "s",
            "t_ns",
            "p",
            "le",
            "member",
            F.lit(None).cast("bigint").alias("offset"),
            F.col("hw").alias("claim"),
            "what",
        )
    )
    before = Window.partitionBy("b", "i", "p", "le", "member").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    judged = (
        fetched.unionByName(claims).withColumn("asked", F.max("offset").over(before)).where(F.col("claim").isNotNull())
    )
    broken = judged.where(F.col("claim") > F.coalesce("asked", F.lit(0)))
    return _found(
        broken,
        HW_WITHIN_ISR,
        _line(
            "{w} {c}, but broker {m} had asked for nothing beyond {a} in epoch {le}",
            w=F.col("what"),
            c=F.col("claim"),
            m=F.col("member"),
            a=F.col("asked"),
            le=F.col("le"),
        ),
        F.col("claim"),
    )


def _fetches_match(evidence: Evidence) -> list[DataFrame]:
    sent = sent_fetches(evidence.events)
    received = evidence.fetches.select(
        "rid",
        "p",
        F.col("offset").alias("received_offset"),
        F.col("b").alias("leader_b"),
        F.col("t_ns").alias("received_ns"),
    )
    joined = received.join(sent.select("rid", "p", "b", "i", "s", "t_ns", "offset"), on=["rid", "p"], how="left")
    other = finding(
        joined.where(F.col("offset").isNull() | (F.col("offset") != F.col("received_offset"))),
        HW_WITHIN_ISR,
        text(
            "broker {l} took fetch {r} of {p} at {o}; the follower's log has it at {f}",
            l=F.col("leader_b"),
            r=F.col("rid"),
            p=F.col("p"),
            o=F.col("received_offset"),
            f=F.col("offset"),
        ),
        kind=F.when(F.col("offset").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
        offset=F.col("received_offset"),
        from_ns=F.col("received_ns"),
        to_ns=F.col("received_ns"),
    )
    lines = evidence.timeline.select(
        "b",
        "i",
        "s",
        "t_ns",
        "p",
        F.when(F.col("e") == "append", F.col("last") + 1)
        .when(F.col("e") == "truncate", F.col("to"))
        .when(F.col("e").isin("recovered", "become_leader", "become_follower"), F.col("leo"))
        .alias("leo"),
        F.lit(None).cast("bigint").alias("offset"),
    ).where(F.col("leo").isNotNull())
    asked = sent.select("b", "i", "s", "t_ns", "p", F.lit(None).cast("bigint").alias("leo"), "offset")
    before = Window.partitionBy("b", "i", "p").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    held = (
        lines.unionByName(asked)
        .withColumn("held", F.last("leo", ignorenulls=True).over(before))
        .where(F.col("offset").isNotNull())
    )
    beyond = _found(
        held.where(F.col("offset") > F.coalesce("held", F.lit(0))),
        HW_WITHIN_ISR,
        _line("asked for offset {o} with a log that ends at {h}", o=F.col("offset"), h=F.col("held")),
        F.col("offset"),
    )
    return [other, beyond]
