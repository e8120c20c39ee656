"""Torn transaction, committed lost: what read_committed shows of a committed transaction is all of it.

Input grain: one row per value of a transaction whose offset is known. *Visible*: some poll under read_committed
returned it. *Hidden*: none did, and some such poll passed over it; such a poll ends at the last stable offset at most,
so by then the transaction was decided. Torn: some values visible, others hidden. Lost: of a committed transaction some
hidden, none visible. A commit that was asked for and got no answer is resolved by what is visible: one value is, so all
of it must be; where none is, it was aborted. What no such poll passed over proves nothing: the verdict is unknown then.
During a run read_committed promises no atomic view over partitions: that is not judged. What retention can have deleted
is left out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, expired
from checkers.black_box.lost import covered_ranges, passed_over
from checkers.evidence.unclean_elections import to_come
from checkers.history.transactions import COMMITTED, UNKNOWN
from checkers.transactions.names import LOST, TORN
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union


def _values(facts: Facts) -> DataFrame:
    """Of each value of a transaction that may be committed, and that nothing can have deleted: seen (read_committed
    showed it), hidden (it passed over it) or unread; in_log: whether any poll returned it.
    """
    may_be = facts.by_value.where(F.col("fate").isin(COMMITTED, UNKNOWN) & F.col("known_offset").isNotNull())
    placed = expired(
        facts, may_be.withColumn("offset", F.col("known_offset")).withColumn("sent_ns", F.col("send.invoke_ns"))
    ).where(~F.col("expired"))
    covered = covered_ranges(facts.history.requests.where(F.col("isolation") == 1))
    seen = F.col("n_committed_reads") > 0
    return (
        placed.alias("v")
        .join(
            covered.alias("c"),
            on=(F.col("v.p") == F.col("c.p"))
            & (F.col("v.offset") >= F.col("c.start_offset"))
            & (F.col("v.offset") < F.col("c.end_offset")),
            how="left",
        )
        .select(
            "v.p",
            "v.value",
            "v.offset",
            "v.txn",
            "v.fate",
            "v.epoch",
            F.col("v.send.op").alias("op"),
            F.col("v.send.invoke_ns").alias("sent_ns"),
            F.col("v.effective_ns").alias("placed_ns"),
            seen.alias("seen"),
            (F.col("v.n_reads") > 0).alias("in_log"),
            (~seen & F.col("c.start_offset").isNotNull()).alias("hidden"),
            (~seen & F.col("c.start_offset").isNull()).alias("unread"),
        )
    )


def whole_checks(facts: Facts) -> Family:
    history, values = facts.history, _values(facts)
    one = F.struct(
        to_come(facts.unclean, F.col("epoch")).alias("to_come"),
        "p",
        "offset",
        "value",
        "op",
        "sent_ns",
        "placed_ns",
        "epoch",
    )
    whole = values.groupBy("txn", "fate").agg(
        F.min(F.when(F.col("seen"), one)).alias("shown"),
        F.min(F.when(F.col("hidden"), one)).alias("gone"),
        F.count_if("hidden").alias("hidden"),
        F.bool_and(~F.col("hidden") | F.col("in_log")).alias("undone"),
        F.count(F.lit(1)).alias("values"),
    )
    torn = F.col("shown").isNotNull()
    answered = F.col("fate") == COMMITTED
    lacking = whole.where((F.col("hidden") > 0) & (answered | torn)).withColumn("p", F.col("gone.p"))
    seen_gone_ns = F.col("gone.placed_ns")
    if facts.unclean:
        no_op = F.lit(None).cast("bigint").alias("there_op")
        missed = lacking.select("p", "gone.value", "gone.offset", F.col("gone.placed_ns").alias("there_ns"), no_op)
        committed = passed_over(history.requests.where(F.col("isolation") == 1), missed)
        lacking = lacking.withColumn("value", F.col("gone.value")).join(committed, on=["p", "value"], how="left")
        seen_gone_ns = F.coalesce("passed_ns", "gone.placed_ns")
    found = apply_rules(
        lacking,
        [
            Rule(
                F.when(torn, F.lit(TORN)).otherwise(F.lit(LOST)),
                F.lit(True),
                F.concat(
                    text("read_committed passes over {h} of {n} values of ", h=F.col("hidden"), n=F.col("values")),
                    F.when(answered, text("the committed transaction {t}", t=F.col("txn"))).otherwise(
                        text("transaction {t}, whose commit got no answer", t=F.col("txn"))
                    ),
                    text(
                        ", first value {v} at {p} offset {o}",
                        v=F.col("gone.value"),
                        p=F.col("p"),
                        o=F.col("gone.offset"),
                    ),
                    F.when(
                        torn,
                        text(
                            ", and shows value {v} at {p} offset {o}",
                            v=F.col("shown.value"),
                            p=F.col("shown.p"),
                            o=F.col("shown.offset"),
                        ),
                    ).otherwise(F.lit(", and shows none")),
                ),
                name=F.when(F.col("undone"), F.lit("undone")).otherwise(F.lit("")),
                offset=F.col("gone.offset"),
                value=F.col("gone.value"),
                ops=[F.col("gone.op"), F.col("shown.op")],
                from_ns=F.col("gone.sent_ns"),
                to_ns=seen_gone_ns,
                lost_epoch=F.col("gone.epoch"),
            )
        ],
    )
    unread = apply_rules(
        values,
        [
            Rule(
                LOST,
                answered & F.col("unread"),
                text(
                    "value {v} of the committed transaction {t} at {p} offset {o} was covered by no poll under "
                    "read_committed",
                    v=F.col("value"),
                    t=F.col("txn"),
                    p=F.col("p"),
                    o=F.col("offset"),
                ),
                kind="unknown",
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("op")],
                from_ns=F.col("sent_ns"),
                to_ns=F.col("placed_ns"),
            )
        ],
    )
    return Family(union([found, unread]), _figures(facts, values))


def _figures(facts: Facts, values: DataFrame) -> DataFrame:
    answered = F.col("fate") == COMMITTED
    per_partition = values.groupBy("p").agg(
        F.count_if(answered).alias("values"),
        F.count_if(answered & F.col("seen")).alias("seen"),
        F.count_if(~answered & F.col("seen")).alias("resolved"),
    )
    drained = (
        facts.history.marks.where((F.col("f") == "drain-complete") & (F.col("isolation") == 1))
        .groupBy("p")
        .agg(F.count(F.lit(1)).alias("drains"))
    )
    return union(
        [
            figures(
                per_partition,
                {
                    (TORN, "committed_values"): F.col("values"),
                    (TORN, "values_of_unanswered_commits"): F.col("resolved"),
                    (LOST, "committed_values"): F.col("values"),
                    (LOST, "shown"): F.col("seen"),
                },
            ),
            figures(drained, {(name, "committed_drains"): F.col("drains") for name in (TORN, LOST)}),
        ]
    )
