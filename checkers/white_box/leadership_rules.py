"""Rules 2 (event half), 8 and 14, and rule 4 between brokers: what one leader epoch says of another.

Input grain: one row per (partition, leader epoch), and the few events that take or cut. Epochs order what brokers did,
not clocks: everything exposed in an epoch below a leader's own must be in its log.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.verdicts.verdict import ONE_LINE
from checkers.white_box.watermark_rules import OFFSET_ORDER

ONE_LEADER = "one-leader-per-epoch"
COMPLETENESS = "leader-completeness"
TRUNCATION = "truncation"


def leadership_rules(evidence: Evidence) -> Family:
    timeline = evidence.timeline
    cuts = (F.col("e") == "truncate") & F.coalesce("in_isr", F.lit(False)) & (F.col("to") < F.col("from_leo"))
    takes_or_cuts = (
        timeline.where((F.col("e") == "become_leader") | cuts)
        .select("e", "b", "p", "le", "leo", "hw", "from_leo", "to", "reason", "t_ns")
        .join(evidence.epochs.select("p", "le", "earlier", "since"), on=["p", "le"], how="inner")
    )
    per_partition = timeline.groupBy("p").agg(
        F.count_if((F.col("e") == "append") & (F.col("role") == "leader")).alias("appends"),
        F.count_if(F.col("e") == "become_leader").alias("leaderships"),
        F.count_if(F.col("e") == "truncate").alias("truncations"),
        F.count_if((F.col("e") == "truncate") & F.coalesce("in_isr", F.lit(False))).alias("in_isr"),
    )
    return Family(
        union(
            [
                apply_rules(evidence.epochs, [_one_leader(), _follower_above_leader()]),
                apply_rules(takes_or_cuts, [_completeness(), _truncation()]),
            ]
        ),
        figures(
            per_partition,
            {
                (ONE_LEADER, "leader_appends"): F.col("appends"),
                (COMPLETENESS, "leaderships"): F.col("leaderships"),
                (TRUNCATION, "leaderships"): F.col("leaderships"),
                (TRUNCATION, "truncations"): F.col("truncations"),
                (TRUNCATION, "truncations_in_isr"): F.col("in_isr"),
            },
        ),
    )


def _one_leader() -> Rule:
    """One incarnation of one broker per leader epoch: an epoch granted before a restart is void after it."""
    return Rule(
        ONE_LEADER,
        F.size("actors") > 1,
        text("{p}: {a} all led in epoch {le}", p=F.col("p"), a=F.array_sort("actors"), le=F.col("le")),
        from_ns=F.col("from_ns"),
        to_ns=F.col("to_ns"),
    )


def _follower_above_leader() -> Rule:
    """What a follower received in an epoch is no higher than the leader's HW in that epoch."""
    return Rule(
        OFFSET_ORDER,
        F.col("follower").isNotNull() & (F.coalesce("leader_hw", F.lit(-1)) < F.col("follower.hw")),
        text(
            "broker {b} followed {p} in epoch {le} up to high watermark {h}; the leader's in that epoch was {l}",
            b=F.col("follower.b"),
            p=F.col("p"),
            le=F.col("le"),
            h=F.col("follower.hw"),
            l=F.col("leader_hw"),
        ),
        kind=F.when(F.col("leader_hw").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
        offset=F.col("follower.hw"),
        from_ns=F.col("follower.t_ns"),
        to_ns=F.col("follower.t_ns"),
    )


def _gone(end: Column) -> Column:
    """What an earlier epoch had exposed beyond this end: struct(exposed, le).

    What was exposed since the last unclean election comes first: nothing excuses its loss.
    """
    return F.when(F.col("since.exposed") > end, F.col("since")).otherwise(F.col("earlier"))


def _exposed_before(end: Column) -> Column:
    gone = _gone(end)
    return text("; epoch {w} had exposed everything below {x}", w=gone["le"], x=gone["exposed"])


def _completeness() -> Rule:
    return Rule(
        COMPLETENESS,
        (F.col("e") == "become_leader") & (F.col("leo") < F.col("earlier.exposed")),
        F.concat(
            text(
                "broker {b} became leader of {p} in epoch {le} with log end {n}",
                b=F.col("b"),
                p=F.col("p"),
                le=F.col("le"),
                n=F.col("leo"),
            ),
            _exposed_before(F.col("leo")),
        ),
        offset=F.col("leo"),
        lost_epoch=_gone(F.col("leo"))["le"],
        missed_epoch=F.col("le"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _truncation() -> Rule:
    """A member of the ISR cut a record that an earlier epoch had exposed, or that it knew to be committed itself.

    `hw` of the line is from before the cut. It is of this epoch too, and one that nobody exposed may be.
    """
    cut = F.col("e") == "truncate"
    own = cut & (F.col("to") < F.col("hw"))
    exposed = cut & (F.col("to") < F.col("earlier.exposed"))
    return Rule(
        TRUNCATION,
        F.coalesce(own, F.lit(False)) | F.coalesce(exposed, F.lit(False)),
        F.concat(
            text(
                "broker {b}, in the ISR of {p} in epoch {le}, cut its log from {f} to {t} ({r})",
                b=F.col("b"),
                p=F.col("p"),
                le=F.col("le"),
                f=F.col("from_leo"),
                t=F.col("to"),
                r=F.col("reason"),
            ),
            F.when(own, text("; its own high watermark was {h}", h=F.col("hw"))).otherwise(F.lit("")),
            F.when(exposed, _exposed_before(F.col("to"))).otherwise(F.lit("")),
        ),
        name=F.when(own, F.lit(ONE_LINE)).otherwise(F.lit("")),
        offset=F.col("to"),
        lost_epoch=F.when(exposed, _gone(F.col("to"))["le"]),
        missed_epoch=F.col("le"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )
