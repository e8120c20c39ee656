"""Rule 5's third part: what a high watermark may not rise by. Taking a role brings none, and while the committed ISR is
short of min.insync.replicas it stands (KAFKA-15583): what it would pass then only so few replicas have.

Input grain: one row per role taken, and one per advance of a leader. A row found proves that a role began with another
watermark than the replica had just before (a lower one is of rule 4: what was known to be committed, a cut could take
then), or that a leader's rose while the ISR of the version that it acted by, as
ZooKeeper has it, or as the line itself says, was too small. Other rules judge how a watermark rises otherwise.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, apply_rules, figures, text, union
from checkers.white_box.watermark_rules import HW_WITHIN_ISR, OFFSET_ORDER, line_rule


def rise_rules(evidence: Evidence) -> Family:
    takes_role = F.col("e").isin("become_leader", "become_follower")
    roles = evidence.timeline.where(takes_role)
    # Who has no watermark yet can have raised none: a new topic's begins at 0.
    judged = F.col("was_hw").isNotNull() | (F.col("hw") == 0)
    counts = roles.groupBy("p").agg(F.count_if(judged).alias("roles"))
    return Family(
        union([_by_a_role(roles), _below_min_isr(evidence)]),
        figures(counts, {(HW_WITHIN_ISR, "roles_judged"): F.col("roles")}),
    )


def _by_a_role(roles: DataFrame) -> DataFrame:
    raised = line_rule(
        HW_WITHIN_ISR,
        F.col("hw") > F.coalesce("was_hw", F.lit(0)),
        text(
            "{e} in epoch {le} with high watermark {h}; it was {w} just before",
            e=F.col("e"),
            le=F.col("le"),
            h=F.col("hw"),
            w=F.coalesce(F.col("was_hw").cast("string"), F.lit("not known")),
        ),
        F.col("hw"),
        kind=F.when(F.col("was_hw").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
    )
    lowered = line_rule(
        OFFSET_ORDER,
        F.col("hw") < F.col("was_hw"),
        text(
            "{e} in epoch {le} with high watermark {h}; it was {w} just before, and no cut lowered it",
            e=F.col("e"),
            le=F.col("le"),
            h=F.col("hw"),
            w=F.col("was_hw"),
        ),
        F.col("hw"),
    )
    return apply_rules(roles, [raised, lowered])


def _below_min_isr(evidence: Evidence) -> DataFrame:
    """Of the run's partitions: of others the minimum is not known. ZooKeeper's version of a state is looked at for what
    came before the drain: its log was copied then.
    """
    info = evidence.info
    least = min(info.min_insync_replicas, info.replication_factor or info.min_insync_replicas)
    drains = evidence.history.requests.where(F.col("phase").startswith("drain"))
    began = drains.groupBy("p").agg(F.min("invoke_ns").alias("drain_ns"))
    # A topic made anew counts its versions from 0 again: the larger one counts.
    states = evidence.znodes.states.groupBy("p", F.col("version").alias("was_pe")).agg(
        F.max_by("isr", F.size("isr")).alias("committed")
    )
    advances = (
        evidence.timeline.where((F.col("e") == "hw") & (F.col("role") == "leader"))
        .where(F.col("p").isin(*info.partitions))
        .join(F.broadcast(began), on="p", how="left")
        .join(F.broadcast(states), on=["p", "was_pe"], how="left")
    )
    before_copy = F.col("drain_ns").isNull() | (F.col("t_ns") < F.col("drain_ns"))
    alone = F.size("isr") < least
    short = F.coalesce(F.size("committed") < least, F.lit(False)) & before_copy
    untold = F.col("committed").isNull() & before_copy
    rose = text(
        "high watermark {h} by ISR {i}; of version {v} ZooKeeper's log has {c}, with min.insync.replicas {m}",
        h=F.col("hw"),
        i=F.col("isr"),
        v=F.col("was_pe"),
        c=F.coalesce(F.col("committed").cast("string"), F.lit("nothing")),
        m=F.lit(least),
    )
    return apply_rules(
        advances,
        [
            line_rule(
                HW_WITHIN_ISR,
                alone | short | untold,
                rose,
                F.col("hw"),
                alone=alone,
                kind=F.when(alone | short, F.lit("invalid")).otherwise(F.lit("unknown")),
            )
        ],
    )
