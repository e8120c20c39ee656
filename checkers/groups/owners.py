"""overlapping-owners: in one generation of a group a partition is given to one member.

From what SyncGroup answered. A static member that was started anew goes on under another member id in the same
generation (KIP-345), so that it is known by its instance. Two members are told apart by ids, so that nobody who joins
without one is given an id that somebody else was given: two clients that go by one id would both own what is given to
it. Valid takes a generation in which several members synced.

A generation's number may be given out again, after an unclean election of the offsets topic. So who was given a
partition is held against who was given it right before, in the generation of that number: each pair is a finding, with
times of its own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

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
    in_turn = Window.partitionBy("group", "generation", "p").orderBy("invoke_ns", "op")
    found = apply_rules(
        given.withColumn("last", F.lag(F.struct("owner", "op", "invoke_ns")).over(in_turn)),
        [
            Rule(
                OVERLAP,
                F.col("last.owner") != F.col("owner"),
                text(
                    "group {g}, generation {n}: {p} was given to {a} and to {b}",
                    g=F.col("group"),
                    n=F.col("generation"),
                    p=F.col("p"),
                    a=F.col("last.owner"),
                    b=F.col("owner"),
                ),
                name="given",
                ops=[F.col("last.op"), F.col("op")],
                from_ns=F.col("last.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    by_generation = given.groupBy("group", "generation", "p").agg(
        F.min("owner").alias("owner"), F.count(F.lit(1)).alias("assigned")
    )
    shared = (
        facts.syncs.groupBy("group", "generation")
        .agg(F.count_distinct(F.coalesce("instance", "member")).alias("members"))
        .where(F.col("members") > 1)
    )
    owned = Window.partitionBy("group", "p").orderBy("generation")
    per_partition = (
        by_generation.withColumn("before", F.lag("owner").over(owned))
        .join(shared, on=["group", "generation"], how="left")
        .groupBy("p")
        .agg(
            F.sum("assigned").alias("assigned"),
            F.count("members").alias("shared"),
            F.count_if(F.col("before") != F.col("owner")).alias("handed_over"),
        )
    )
    return Family(
        union([found, _named_alike(facts, given)]),
        figures(
            per_partition,
            {(OVERLAP, name): F.col(name) for name in ("assigned", "shared", "handed_over")},
        ),
    )


def _named_alike(facts: GroupFacts, given: DataFrame) -> DataFrame:
    """Member ids that were given to several who joined without one."""
    homes = given.groupBy("group").agg(F.min("p").alias("p"))
    twice = (
        facts.ids.groupBy("group", "member")
        .agg(
            F.min(F.struct("op", "invoke_ns")).alias("one"),
            F.max(F.struct("op", "complete_ns")).alias("other"),
            F.count(F.lit(1)).alias("times"),
        )
        .where(F.col("times") > 1)
        .join(F.broadcast(homes), on="group", how="left")
    )
    return apply_rules(
        twice,
        [
            Rule(
                OVERLAP,
                F.lit(True),
                text(
                    "group {g}: member id {m} was given to {n} members",
                    g=F.col("group"),
                    m=F.col("member"),
                    n=F.col("times"),
                ),
                ops=[F.col("one.op"), F.col("other.op")],
                from_ns=F.col("one.invoke_ns"),
                to_ns=F.col("other.complete_ns"),
            )
        ],
    )
