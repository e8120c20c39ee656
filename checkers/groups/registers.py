"""offset-regression and commit-lost: of a (group, partition) the committed offset is a register.

A fetch may show what the last commit before it wrote, or any commit that was under way since that one was begun. A
commit without an answer (`info`) may take effect at any time after it was sent, but for what fences it: behind a later
generation, or a later id of its instance, in which somebody had synced (`fences`). So may one of a real client that
took as long as that waits before it sends a commit once more: its first request may come late, and the answer be of
another. Invalid is an offset that only commits explain which were over before another one, which the node that answered
must have known, was begun; and an offset that nobody ever committed. While brokers are deposed a stale answer is legal
(`facts`), and counted; a fetch of the final drain, from each broker as coordinator once all faults are gone, must show
every acknowledged commit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts, known, with_proof
from checkers.groups.fences import fenced_from
from checkers.spark.latest import latest
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

REGRESSION = "offset-regression"
LOST = "commit-lost"
AGAIN_NS = 50_000_000
"""Sooner no real client sends a commit once more: they wait for 100 ms, some for up to a fifth less."""
_FOR_EVER = 2**62


def judged_fetches(facts: GroupFacts) -> DataFrame:
    """One row per fetch that came out ok and partition, each judged by itself: what the node `must` have known, the
    `newest` acknowledged commit, until when its offset can have been committed (`until_ns`); and whether it is
    `drained`, `unexplained`, `behind`, `stale`. `proven_ns`: everything acknowledged before that must be known.
    """
    keys = ["group", "p"]
    acked = facts.commits.where(F.col("outcome") == "ok")
    commit = F.struct("invoke_ns", "op", "committed", "complete_ns")
    reads = with_proof(facts, facts.fetches).withColumn("drained", F.col("phase").startswith("drain"))
    reads = reads.withColumn("proven_ns", F.when(F.col("drained"), F.col("invoke_ns")).otherwise(F.col("proven_ns")))
    reads = known(facts, keys, acked, reads, commit, "must")
    reads = latest(keys, acked, reads, commit, "invoke_ns", "newest")
    over = F.coalesce("until_ns", F.lit(-1))
    return kept(
        _explained(facts, reads).select(
            "*",
            (F.col("until_ns").isNull() & (F.col("committed") >= 0)).alias("unexplained"),
            F.coalesce(F.col("must.invoke_ns") > over, F.lit(False)).alias("behind"),
            F.coalesce(F.col("newest.invoke_ns") > over, F.lit(False)).alias("stale"),
        )
    )


def register_checks(facts: GroupFacts, reads: DataFrame) -> Family:
    """reads: `judged_fetches`."""
    drained, unexplained, behind = F.col("drained"), F.col("unexplained"), F.col("behind")
    checker = F.when(drained, F.lit(LOST)).otherwise(F.lit(REGRESSION))
    found = apply_rules(
        reads,
        [
            Rule(
                checker,
                behind & ~unexplained,
                text(
                    "group {g}: {n} returned {v} as the committed offset of {p}, though {c} had been committed before,"
                    " and nothing committed later explains it",
                    g=F.col("group"),
                    n=F.col("node"),
                    v=F.col("committed"),
                    p=F.col("p"),
                    c=F.col("must.committed"),
                ),
                name="back",
                offset=F.col("committed"),
                ops=[F.col("must.op"), F.col("op")],
                # Without the generation that fences it what explains the offset might have come later.
                from_ns=F.least("must.invoke_ns", "fenced_ns"),
                to_ns=F.col("complete_ns"),
            ),
            Rule(
                checker,
                unexplained,
                text(
                    "group {g}: {n} returned {v} as the committed offset of {p}, which nobody had committed",
                    g=F.col("group"),
                    n=F.col("node"),
                    v=F.col("committed"),
                    p=F.col("p"),
                ),
                offset=F.col("committed"),
                ops=[F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            ),
        ],
    )
    per_partition = reads.groupBy("p").agg(
        F.count_if(~drained & F.col("must").isNotNull()).alias("judged"),
        F.count_if(F.col("stale") & ~behind & ~unexplained & ~drained).alias("stale"),
        F.count_if(drained & F.col("must").isNotNull()).alias("final"),
    )
    return Family(
        union([found, _not_read(facts)]),
        figures(
            per_partition,
            {
                (REGRESSION, "fetches_judged"): F.col("judged"),
                (REGRESSION, "stale_fetches"): F.col("stale"),
                (LOST, "final_fetches"): F.col("final"),
            },
        ),
    )


def _explained(facts: GroupFacts, reads: DataFrame) -> DataFrame:
    """reads with `until_ns`: until when the commits of just this offset, begun before the answer, can have taken effect
    at the latest, and `fenced_ns`, where it is a fence that says so. Null where there is none.
    """
    # Of a real client's it is not known who answered.
    perhaps_twice = F.col("node").isNull() & (F.col("complete_ns") - F.col("invoke_ns") >= AGAIN_NS)
    acked = F.col("outcome") == "ok"
    once = acked & ~perhaps_twice
    may_be = facts.commits.where(F.col("outcome").isin("ok", "info"))
    late = F.when(F.col("fenced_ns").isNull(), F.lit(_FOR_EVER)).otherwise(
        F.greatest("fenced_ns", F.when(acked, F.col("complete_ns")))
    )
    writes = may_be.join(fenced_from(facts, may_be.where(~once)), on="op", how="left").select(
        "group",
        "p",
        "committed",
        F.col("invoke_ns").alias("begun_ns"),
        F.struct(F.when(once, F.col("complete_ns")).otherwise(late).alias("ns"), "fenced_ns").alias("over"),
    )
    over = (
        reads.select("op", "group", "p", "committed", "complete_ns")
        .join(writes, on=["group", "p", "committed"], how="inner")
        .where(F.col("begun_ns") < F.col("complete_ns"))
        .groupBy("op", "p")
        .agg(F.max("over").alias("over"))
        .select("op", "p", F.col("over.ns").alias("until_ns"), "over.fenced_ns")
    )
    return reads.join(over, on=["op", "p"], how="left")


def _not_read(facts: GroupFacts) -> DataFrame:
    """A group whose offsets a round of the drain could not read."""
    marks = facts.history.marks.where(F.col("f") == "offsets-incomplete")
    return apply_rules(
        marks,
        [
            Rule(
                LOST,
                F.lit(True),
                text("{e} ({phase})", e=F.col("error"), phase=F.col("phase")),
                kind="unknown",
                from_ns=F.col("time_ns"),
                to_ns=F.col("time_ns"),
            )
        ],
    )
