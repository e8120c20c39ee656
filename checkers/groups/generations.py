"""generation (rule 16): a group's generations never go back.

A generation in which a member has synced is in the coordinator's log: a join, sync or heartbeat that is answered ok
later, by a node that must know it (`facts`), is of that generation or a later one. Valid takes a group
that had several. Of the generations that an answer denies the one that was synced in last counts: an unclean election
of the offsets topic may have taken a higher one back before.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts, known, with_proof
from checkers.spark.latest import last_of
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
    here = (F.col("told.complete_ns") < F.col("row.invoke_ns")) & (F.col("told.node") == F.col("row.node"))
    anywhere = F.col("told.complete_ns") < F.col("row.proven_ns")
    denied = (F.col("told.generation") > F.col("row.generation")) & (here | anywhere)
    fact = F.struct("invoke_ns", "op", "generation", "complete_ns", "node")
    back = last_of(
        ["group"],
        facts.syncs,
        judged.where(F.col("generation") < F.col("newest.generation")).drop("newest"),
        fact,
        denied,
        "newest",
    ).join(F.broadcast(home), on="group", how="left")
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
