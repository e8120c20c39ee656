"""fenced-commit: a commit counts only from a member of the group's generation.

Invalid is an acknowledged commit of generation g that was begun after some member had synced in a generation above g:
that generation was in the coordinator's log by then, and who appends to that log later has read it. Likewise one by a
static member's id after the instance had synced under an id that it got later (KIP-345). A join alone proves nothing: a
coordinator that fails over before the generation is stored goes on from the one before. Of several such generations the
one that was synced in last counts: an unclean election of the offsets topic may have taken a higher one back before.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.spark.latest import last_of, latest
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

FENCED = "fenced-commit"


def fence_checks(facts: GroupFacts) -> Family:
    commits = facts.commits.where((F.col("f") == "commit_offsets") & (F.col("generation") >= 0))
    judged = latest(["group"], facts.syncs, commits, F.struct("generation", "op", "invoke_ns"), "invoke_ns", "newest")
    judged = judged.join(_replaced(facts), on=["group", "instance", "member"], how="left")
    old = F.coalesce(F.col("newest.generation") > F.col("generation"), F.lit(False))
    fenced = F.coalesce(F.col("replaced.at_ns") < F.col("invoke_ns"), F.lit(False))
    acked = F.col("outcome") == "ok"
    denied = (F.col("told.generation") > F.col("row.generation")) & (F.col("told.complete_ns") < F.col("row.invoke_ns"))
    fact = F.struct("invoke_ns", "op", "generation", "complete_ns")
    of_old = last_of(["group"], facts.syncs, judged.where(acked & old).drop("newest"), fact, denied, "newest")
    common = {"g": F.col("group"), "m": F.col("member"), "p": F.col("p"), "v": F.col("committed")}
    by_old = apply_rules(
        of_old,
        [
            Rule(
                FENCED,
                F.lit(True),
                text(
                    "group {g}: {m} committed {v} for {p} in generation {n}, though generation {s} had begun",
                    **common,
                    n=F.col("generation"),
                    s=F.col("newest.generation"),
                ),
                offset=F.col("committed"),
                ops=[F.col("newest.op"), F.col("op")],
                from_ns=F.col("newest.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    by_instance = apply_rules(
        judged,
        [
            Rule(
                FENCED,
                acked & fenced & ~old,
                text(
                    "group {g}: {m} committed {v} for {p}, though instance {i} went on under another id",
                    **common,
                    i=F.col("instance"),
                ),
                offset=F.col("committed"),
                ops=[F.col("replaced.op"), F.col("op")],
                from_ns=F.col("replaced.at_ns"),
                to_ns=F.col("complete_ns"),
            ),
        ],
    )
    per_partition = judged.groupBy("p").agg(
        F.count_if(old | fenced).alias("tried"), F.count_if(fenced).alias("of_instances")
    )
    return Family(
        union([by_old, by_instance]),
        figures(
            per_partition,
            {(FENCED, "commits_too_late"): F.col("tried"), (FENCED, "of_fenced_instances"): F.col("of_instances")},
        ),
    )


def fenced_from(facts: GroupFacts, commits: DataFrame) -> DataFrame:
    """(op, fenced_ns): from when on that commit is refused if it has not taken effect: a member had synced in a later
    generation, which is stored behind all that the earlier one committed, or its instance under a later id. Only
    commits of which that is known; what is part of a transaction is settled when it is sent.

    commits: few, for each is held against every later generation.
    """
    own = commits.where(F.col("f") == "commit_offsets").select("op", "group", "generation", "instance", "member")
    begun = facts.syncs.groupBy("group", F.col("generation").alias("later")).agg(F.min("complete_ns").alias("at_ns"))
    by_generation = (
        own.where(F.col("generation") >= 0)
        .join(F.broadcast(begun), on="group", how="inner")
        .where(F.col("later") > F.col("generation"))
        .select("op", "at_ns")
    )
    by_instance = own.join(_replaced(facts), on=["group", "instance", "member"], how="inner").select(
        "op", "replaced.at_ns"
    )
    return by_generation.unionByName(by_instance).groupBy("op").agg(F.min("at_ns").alias("fenced_ns"))


def _replaced(facts: GroupFacts) -> DataFrame:
    """(group, instance, member, replaced): when the instance had first synced under an id that it got after this one,
    and by which operation.
    """
    keys = ["group", "instance"]
    ids = (
        facts.joins.where(F.col("instance").isNotNull())
        .groupBy(*keys, "member")
        .agg(F.min("invoke_ns").alias("asked_ns"), F.min("complete_ns").alias("got_ns"))
    )
    synced = (
        facts.syncs.where(F.col("instance").isNotNull())
        .groupBy(*keys, "member")
        .agg(F.min(F.struct(F.col("complete_ns").alias("at_ns"), "op")).alias("synced"))
    )
    later = ids.join(synced, on=[*keys, "member"], how="inner").select(
        *keys, F.col("asked_ns").alias("later_ns"), "synced"
    )
    return (
        ids.join(later, on=keys, how="inner")
        .where(F.col("later_ns") > F.col("got_ns"))
        .groupBy(*keys, "member")
        .agg(F.min("synced").alias("replaced"))
    )
