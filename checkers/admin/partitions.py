"""partitions-went-back and partitions-not-linearizable: how many partitions a topic has.

The first looks at one answer at a time: a broker showed less than the same process had shown, or acknowledged, before
it was asked (`back`); or, in a drain, when no fault is left and it has been waited for, less than a growth that any
broker had acknowledged (`lost`).

The second searches for one order of all growths and counts of a topic (`checkers.search.counts`). An acknowledged
growth takes effect between its invocation and its answer, one without an answer at any time after its invocation, or
never; one that was refused, because there were as many, found that between the two. A count shows what one moment
before its answer had, and nothing older than what the same process had shown or acknowledged when it was asked. How
many partitions there are at first is what the setup counted.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.admin.facts import DRAIN, ENOUGH, SETUP, AdminFacts
from checkers.search.counts import COUNT, GROW, REFUSED
from checkers.search.keys import search_count
from checkers.spark.latest import latest
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.verdicts.searched import operation, order_findings, registers, sought

BACK = "partitions-went-back"
ORDER = "partitions-not-linearizable"


def partition_checks(facts: AdminFacts) -> list[Family]:
    """Of each topic whose partitions are counted."""
    counts = _judged(facts)
    return [_went_back(facts, counts), _order(facts, counts)]


def _judged(facts: AdminFacts) -> DataFrame:
    """The counts, each with `told`: the most that its process had shown or acknowledged before (count, op, when)."""
    told = facts.counts.unionByName(facts.growths.where(_acked())).where(F.col("life").isNotNull())
    return kept(latest(["p", "life"], told, facts.counts, _fact(), "invoke_ns", "told"))


def _acked() -> Column:
    return F.col("outcome") == "ok"


def _fact() -> Column:
    return F.struct("count", "op", "invoke_ns")


def _is_back() -> Column:
    return F.coalesce(F.col("life").isNotNull() & (F.col("told.count") > F.col("count")), F.lit(False))


def _went_back(facts: AdminFacts, counts: DataFrame) -> Family:
    newest_first = Window.partitionBy("p", "phase", "node").orderBy(F.desc("complete_ns"), F.desc("op"))
    last = (
        counts.where(F.col("phase").startswith(DRAIN) & F.col("node").isNotNull())
        .withColumn("_nth", F.row_number().over(newest_first))
        .where(F.col("_nth") == 1)
    )
    final = kept(latest(["p"], facts.growths.where(_acked()), last, _fact(), "invoke_ns", "must"))
    said = {"n": F.col("node"), "p": F.col("p"), "c": F.col("count")}
    back = apply_rules(
        counts,
        [
            Rule(
                BACK,
                _is_back(),
                text(
                    "{n} counted {c} partitions of {p}, though the same process had shown or acknowledged {t} before",
                    t=F.col("told.count"),
                    **said,
                ),
                name="back",
                ops=[F.col("told.op"), F.col("op")],
                from_ns=F.col("told.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    lost = apply_rules(
        final,
        [
            Rule(
                BACK,
                F.col("must.count") > F.col("count"),
                text(
                    "{n} still counted {c} partitions of {p} in the end ({d}), though a growth to {t} had been "
                    "acknowledged",
                    t=F.col("must.count"),
                    d=F.col("phase"),
                    **said,
                ),
                name="lost",
                ops=[F.col("must.op"), F.col("op")],
                from_ns=F.col("must.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    judged = counts.where(F.col("told").isNotNull()).groupBy("p").agg(F.count(F.lit(1)).alias("judged"))
    in_the_end = final.where(F.col("must").isNotNull()).groupBy("p").agg(F.count(F.lit(1)).alias("final"))
    return Family(
        union([back, lost]),
        union(
            [
                figures(judged, {(BACK, "counts_judged"): F.col("judged")}),
                figures(in_the_end, {(BACK, "final_counts"): F.col("final")}),
            ]
        ),
    )


def _order(facts: AdminFacts, counts: DataFrame) -> Family:
    growths = facts.growths
    none = F.lit(None).cast("bigint")
    grown = growths.where(F.col("outcome").isin("ok", "info")).select(
        "p",
        operation(
            GROW,
            F.col("count"),
            complete_ns=F.when(_acked(), F.col("complete_ns")),
            session=F.when(_acked(), F.col("life")),
        ),
        none.alias("begins_at"),
        _acked().cast("int").alias("grown"),
        F.lit(0).alias("counted"),
    )
    refused = growths.where((F.col("outcome") == "fail") & (F.col("error") == ENOUGH)).select(
        "p",
        operation(REFUSED, F.col("count"), session=F.col("node")),
        none.alias("begins_at"),
        F.lit(0).alias("grown"),
        F.lit(0).alias("counted"),
    )
    counted = counts.where(~_is_back()).select(
        "p",
        operation(
            COUNT, F.col("count"), session=F.coalesce("life", F.concat("node", F.lit("/"), "op")), since_ns=F.lit(0)
        ),
        F.when(F.col("phase") == SETUP, F.col("count")).alias("begins_at"),
        F.lit(0).alias("grown"),
        F.lit(1).alias("counted"),
    )
    topics = registers(
        union([grown, refused, counted]),
        "p",
        counted=[
            F.max("begins_at").alias("begins_at"),
            F.sum("grown").alias("grown"),
            F.sum("counted").alias("counted"),
        ],
    ).where(F.col("begins_at").isNotNull())
    searched = sought(topics, search_count, F.col("begins_at"))
    return Family(
        order_findings(
            ORDER,
            searched,
            "{n} answered of {p} by {v} partitions, which no order explains: what {k} growths and counts before it did "
            "leaves {s}",
            "of {m} growths and counts of {p} the first {k} have an order; whether all have one was not found out in "
            "the time that a search has",
            shown={"p": F.col("p")},
            state={},
        ),
        figures(searched, {(ORDER, "growths"): F.col("grown"), (ORDER, "counts_searched"): F.col("counted")}),
    )
