"""generation (rule 16): a group's generations never go back.

A generation in which a member has synced is in the coordinator's log: a join, sync or heartbeat that is answered ok
later, by a node that must know it (`facts`), is of that generation or a later one. Valid takes a group
that had several.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts, known, with_proof
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

GENERATION = "generation"


def generation_checks(facts: GroupFacts) -> Family:
    columns = ["op", "f", "group", "member", "generation", "node", "invoke_ns", "complete_ns"]
    answers = (
        facts.joins.select(*columns)
        .unionByName(facts.syncs.select(*columns))
        .unionByName(facts.beats.select(*columns))
        .transform(one_piece)
    )
    judged = known(
        facts, ["group"], facts.syncs, with_proof(facts, answers), F.struct("generation", "op", "invoke_ns"), "newest"
    )
    given = facts.syncs.select("group", "generation", F.explode("partitions").alias("p"))
    # A generation is of a group; a partition of it stands in the row, so that a run's partitions have all rows.
    home = given.groupBy("group").agg(F.min("p").alias("p"))
    back = judged.where(F.col("generation") < F.col("newest.generation")).join(
        F.broadcast(home), on="group", how="left"
    )
    found = apply_rules(
        back,
        [
            Rule(
                GENERATION,
                F.lit(True),
                text(
                    "group {g}: {n} answered a {f} of {m} with generation {a}, though generation {b} had begun",
                    g=F.col("group"),
                    n=F.col("node"),
                    f=F.col("f"),
                    m=F.col("member"),
                    a=F.col("generation"),
                    b=F.col("newest.generation"),
                ),
                ops=[F.col("newest.op"), F.col("op")],
                from_ns=F.col("newest.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    risen = judged.where(F.col("generation") > F.col("newest.generation")).select("group", "generation").distinct()
    rebalances = (
        given.select("group", "p")
        .distinct()
        .join(risen, on="group", how="inner")
        .groupBy("p")
        .agg(F.count("*").alias("n"))
    )
    per_partition = given.groupBy("p").agg(F.count_distinct("group", "generation").alias("generations"))
    return Family(
        found,
        union(
            [
                figures(per_partition, {(GENERATION, "generations"): F.col("generations")}),
                figures(rebalances, {(GENERATION, "rebalances"): F.col("n")}),
            ]
        ),
    )
