"""overlapping-owners: in one generation of a group a partition is given to one member.

From what SyncGroup answered. A static member that was started anew goes on under another member id in the same
generation (KIP-345), so that it is known by its instance.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

OVERLAP = "overlapping-owners"


def owner_checks(facts: GroupFacts) -> Family:
    given = facts.syncs.select(
        "op",
        "group",
        "generation",
        "invoke_ns",
        "complete_ns",
        F.coalesce("instance", "member").alias("owner"),
        F.explode("partitions").alias("p"),
    )
    by_generation = given.groupBy("group", "generation", "p").agg(
        F.min(F.struct("owner", "op")).alias("one"),
        F.max(F.struct("owner", "op")).alias("other"),
        F.min("invoke_ns").alias("from_ns"),
        F.max("complete_ns").alias("to_ns"),
        F.count(F.lit(1)).alias("assigned"),
    )
    found = apply_rules(
        by_generation,
        [
            Rule(
                OVERLAP,
                F.col("one.owner") != F.col("other.owner"),
                text(
                    "group {g}, generation {n}: {p} was given to {a} and to {b}",
                    g=F.col("group"),
                    n=F.col("generation"),
                    p=F.col("p"),
                    a=F.col("one.owner"),
                    b=F.col("other.owner"),
                ),
                ops=[F.col("one.op"), F.col("other.op")],
                from_ns=F.col("from_ns"),
                to_ns=F.col("to_ns"),
            )
        ],
    )
    per_partition = by_generation.groupBy("p").agg(F.sum("assigned").alias("assigned"))
    return Family(found, figures(per_partition, {(OVERLAP, "assigned"): F.col("assigned")}))
