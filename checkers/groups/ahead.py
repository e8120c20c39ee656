"""commit-ahead: no committed offset lies beyond what members of the group were given.

Committed is what an acknowledged commit wrote and what a fetch returned; given is the highest next position of an
answered poll of the group on that partition. A member that begins where nothing is committed begins at 0.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.spark.latest import latest
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

AHEAD = "commit-ahead"


def ahead_checks(facts: GroupFacts) -> Family:
    columns = ["op", "f", "group", "p", "committed", "node", "invoke_ns", "complete_ns"]
    acked = facts.commits.where(F.col("outcome") == "ok").select(*columns)
    told = acked.unionByName(facts.fetches.select(*columns)).transform(one_piece).where(F.col("committed") >= 0)
    polls = facts.history.requests.where(
        (F.col("f") == "poll") & (F.col("outcome") == "ok") & F.col("group").isNotNull()
    ).select("group", "p", "next_position", F.col("invoke_ns").alias("complete_ns"))
    judged = latest(["group", "p"], polls, told, F.col("next_position"), "complete_ns", "given")
    beyond = F.col("committed") > F.coalesce("given", F.lit(0))
    found = apply_rules(
        judged,
        [
            Rule(
                AHEAD,
                beyond,
                text(
                    "group {g}: {v} is committed for {p}, and no member had been given more than up to {n}",
                    g=F.col("group"),
                    v=F.col("committed"),
                    p=F.col("p"),
                    n=F.coalesce("given", F.lit(0)),
                ),
                offset=F.col("committed"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    per_partition = judged.groupBy("p").agg(F.count(F.lit(1)).alias("offsets"))
    return Family(found, figures(per_partition, {(AHEAD, "offsets_judged"): F.col("offsets")}))
