"""Transaction offsets, exactly-once: what consume-transform-produce commits, and what it makes of its inputs.

Transaction offsets. Input grain: one row per (group, partition) of a `fetch_offsets` that came out ok. A row proves
that its offset is one that no transaction which may have been committed by then had sent (of a transaction that
certainly was aborted, or whose commit had not been asked for); or that it lies below one whose commit had come out ok
before the request was invoked, or that another response had shown by then: what is shown is committed. Offsets that a
transaction under way may still change are refused to these requests (require_stable, KIP-447), and in this workload
each partition's offsets only rise: who commits them has looked up the last ones after it fenced its predecessor. Of
several such commits the last one counts: an unclean election may have taken a higher one back before.

Exactly-once. Input grain: one row per value that read_committed showed of a partition of which a group's last committed
offset is known. Each below that offset is the source of exactly one output that read_committed shows, each at it or
above of none. That an output is missing counts only once every partition with outputs was drained under read_committed.
An unclean election of the input's partition takes back what processors had been given, and puts others in its place: as
of other applications, neither then can be kept. One of an output's partition takes the output.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.duplicates import BY_CLIENT, copied
from checkers.black_box.facts import Facts
from checkers.evidence.unclean_elections import attributable, taken_back
from checkers.history.transactions import ABORTED, transactions_table
from checkers.spark.latest import last_of
from checkers.spark.tables import kept, one_piece
from checkers.transactions.names import EXACTLY_ONCE, FINAL, OFFSETS
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union


def input_checks(facts: Facts) -> Family:
    return union_of([_offset_checks(facts), _exactly_once(facts)])


def union_of(families: list[Family]) -> Family:
    """Several as one."""
    held = [family.findings for family in families if family.findings is not None]
    return Family(union(held), union([family.figures for family in families]))


def _fetched(facts: Facts) -> DataFrame:
    """(group, p, offset, op, phase, invoke_ns, complete_ns): offsets that were fetched."""
    return facts.history.coordination.where((F.col("f") == "fetch_offsets") & (F.col("outcome") == "ok")).select(
        F.col("asked.group").alias("group"), "op", "phase", "invoke_ns", "complete_ns", F.inline("answered.offsets")
    )


def _sent(facts: Facts) -> DataFrame:
    """(group, p, offset, txn, sent_op, sent_as, sent_ns, fate, commit_invoked_ns, committed_ns): offsets that
    transactions sent.
    """
    return (
        facts.history.coordination.where(F.col("f") == "txn_offsets")
        .select(
            F.col("asked.group").alias("group"),
            F.col("asked.txn").alias("txn"),
            F.col("op").alias("sent_op"),
            F.col("outcome").alias("sent_as"),
            F.col("invoke_ns").alias("sent_ns"),
            F.inline("asked.offsets"),
        )
        .join(transactions_table(facts.history), on="txn", how="left")
    )


def _offset_checks(facts: Facts) -> Family:
    fetched, sent = _fetched(facts), _sent(facts)
    possible = (
        (F.col("fate") != ABORTED) & (F.col("sent_as") != "fail") & (F.col("commit_invoked_ns") < F.col("complete_ns"))
    )
    named = sent.select("group", "p", "offset", "txn", "fate", "sent_as", "sent_op", "commit_invoked_ns")
    shown = kept(
        fetched.where(F.col("offset") >= 0)
        .join(named, on=["group", "p", "offset"], how="left")
        .groupBy("group", "p", "offset", "op", "invoke_ns", "complete_ns")
        .agg(
            F.coalesce(F.bool_or(possible), F.lit(False)).alias("founded"),
            F.min("txn").alias("txn"),
            F.min("sent_op").alias("sent_op"),
        )
    )
    of_nobody = apply_rules(
        shown.where(~F.col("founded")),
        [
            Rule(
                OFFSETS,
                F.lit(True),
                F.concat(
                    text(
                        "group {g} had committed {o} of {p} by a response, which ",
                        g=F.col("group"),
                        o=F.col("offset"),
                        p=F.col("p"),
                    ),
                    F.when(F.col("txn").isNull(), F.lit("no transaction had sent")).otherwise(
                        text(
                            "transaction {t} had sent, and no transaction that may have been committed by then",
                            t=F.col("txn"),
                        )
                    ),
                ),
                name=F.when(F.col("txn").isNull(), F.lit("")).otherwise(F.lit("uncommitted")),
                offset=F.col("offset"),
                ops=[F.col("sent_op"), F.col("op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    return Family(
        union([of_nobody, _forgotten(fetched, sent, shown.where("founded"))]),
        union(
            [
                figures(
                    fetched.where(F.col("offset") >= 0).groupBy("p").agg(F.count(F.lit(1)).alias("n")),
                    {(OFFSETS, "offsets_fetched"): F.col("n")},
                ),
                figures(
                    sent.groupBy("p").agg(
                        F.count("committed_ns").alias("n"), F.count_if(F.col("fate") == ABORTED).alias("a")
                    ),
                    {(OFFSETS, "offsets_committed"): F.col("n"), (OFFSETS, "offsets_aborted"): F.col("a")},
                ),
            ]
        ),
    )


def _forgotten(fetched: DataFrame, sent: DataFrame, shown: DataFrame) -> DataFrame:
    """Fetched offsets below one that had been committed. shown: fetched offsets that somebody may have committed."""
    answered = sent.where(F.col("committed_ns").isNotNull() & (F.col("sent_as") == "ok")).select(
        "group", "p", "committed_ns", F.struct("offset", "txn", F.col("end_op").alias("op")).alias("commit")
    )
    seen = shown.select(
        "group",
        "p",
        F.col("complete_ns").alias("committed_ns"),
        F.struct("offset", F.lit(None).cast("bigint").alias("txn"), "op").alias("commit"),
    )
    commits = answered.unionByName(seen).withColumn("at_ns", F.col("committed_ns")).withColumn("turn", F.lit(1))
    asked = fetched.select(
        "group",
        "p",
        F.col("invoke_ns").alias("at_ns"),
        F.lit(0).alias("turn"),
        F.struct("offset", "op", "complete_ns").alias("got"),
    )
    before = Window.partitionBy("group", "p").orderBy("at_ns", "turn").rowsBetween(Window.unboundedPreceding, 0)
    behind = (
        commits.unionByName(asked, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("highest", F.max("commit").over(before))
        .where(F.col("got").isNotNull() & (F.col("got.offset") < F.col("highest.offset")))
        .select("group", "p", "at_ns", "got")
    )
    above = (F.col("told.offset") > F.col("row.got.offset")) & (F.col("told.committed_ns") < F.col("row.at_ns"))
    fact = F.struct("committed_ns", "commit.offset", "commit.txn", "commit.op")
    behind = last_of(["group", "p"], commits, behind, fact, above, "last")
    return apply_rules(
        behind,
        [
            Rule(
                OFFSETS,
                F.lit(True),
                F.concat(
                    text(
                        "group {g} had committed {o} of {p} by a response; ",
                        g=F.col("group"),
                        o=F.col("got.offset"),
                        p=F.col("p"),
                    ),
                    F.when(F.col("last.txn").isNull(), F.lit("another response had shown")).otherwise(
                        text("transaction {t} had committed", t=F.col("last.txn"))
                    ),
                    text(" {c} before that was asked", c=F.col("last.offset")),
                ),
                name="back",
                offset=F.col("got.offset"),
                ops=[F.col("last.op"), F.col("got.op")],
                from_ns=F.col("last.committed_ns"),
                to_ns=F.col("got.complete_ns"),
            )
        ],
    )


def _ends(facts: Facts) -> DataFrame:
    """(group, p, end, end_op, end_ns): the offset that each group had committed in the end, and when that was told."""
    last = F.max(F.struct("op", "offset", "complete_ns"))
    return (
        _fetched(facts)
        .where(F.col("phase") == FINAL)
        .groupBy("group", "p")
        .agg(last.alias("last"))
        .select(
            "group",
            "p",
            F.col("last.offset").alias("end"),
            F.col("last.op").alias("end_op"),
            F.col("last.complete_ns").alias("end_ns"),
        )
    )


def _outputs(facts: Facts) -> DataFrame:
    """(source, made, first, other, made_ns, undone_ns): how many outputs of an input read_committed shows, two of them,
    and when the last was first read; undone_ns: the same of outputs that others alone are shown, null where none is.
    """
    outputs = facts.by_value.where((F.col("n_reads") > 0) & F.col("source").isNotNull())
    shown, output = F.col("n_committed_reads") > 0, F.struct("value", "send.op")
    return outputs.groupBy("source").agg(
        F.count_if(shown).alias("made"),
        F.min(F.when(shown, output)).alias("first"),
        F.max(F.when(shown, output)).alias("other"),
        F.max(F.when(shown, F.col("first_read_ns"))).alias("made_ns"),
        F.max(F.when(~shown, F.col("first_read_ns"))).alias("undone_ns"),
    )


def _exactly_once(facts: Facts) -> Family:
    ends = _ends(facts)
    inputs = facts.by_value.where(F.col("n_committed_reads") > 0).select(
        "p",
        "value",
        F.col("known_offset").alias("offset"),
        F.col("send.op").alias("op"),
        F.col("send.invoke_ns").alias("sent_ns"),
    )
    judged = (
        inputs.join(F.broadcast(ends), on="p", how="inner")
        .join(_outputs(facts), on=F.col("value") == F.col("source"), how="left")
        .withColumn("made", F.coalesce("made", F.lit(0)))
        .join(_undrained(facts), on="group", how="left")
        .join(_taken_outputs(facts), on=F.col("value") == F.col("taken_source"), how="left")
    )
    judged = judged.join(copied(facts, committed=True), on=["p", "value"], how="left") if facts.resends else judged
    copies = F.coalesce("copies", F.lit(1)) if facts.resends else F.lit(1)
    below = F.col("offset") < F.col("end")
    # An input that stands there twice may be taken twice.
    each = (F.col("made") > 0) & (copies > 1) & (F.col("made") <= copies)
    missing = below & (F.col("made") == 0)
    by_ns = F.when(missing, F.col("end_ns")).otherwise(F.col("made_ns"))
    lost_output = missing & F.col("taken_source").isNotNull()
    where = text(
        "input {v} at {p} offset {o}, committed offset {e}, ",
        v=F.col("value"),
        p=F.col("p"),
        o=F.col("offset"),
        e=F.col("end"),
    )
    how = (
        F.when(missing, F.lit("is reflected in no output that read_committed shows"))
        .when(
            below,
            text(
                "is reflected {n} times, in {a} and {b}",
                n=F.col("made"),
                a=F.col("first.value"),
                b=F.col("other.value"),
            ),
        )
        .otherwise(text("is reflected in output {a} all the same", a=F.col("first.value")))
    )
    found = apply_rules(
        judged,
        [
            Rule(
                EXACTLY_ONCE,
                missing | (F.col("made") > F.when(below, 1).otherwise(0)),
                F.concat(where, how),
                # Of an output that is in the log its transaction's end is what is missing.
                name=F.when(each, F.lit(BY_CLIENT))
                .when(~missing, F.lit("again"))
                .when(F.col("undone_ns").isNotNull(), F.lit("undone"))
                .otherwise(F.lit("never")),
                kind=F.when(missing & F.col("undrained").isNotNull(), F.lit("unknown"))
                .when(taken_back(facts.unclean, by_ns) | lost_output | each, F.lit("allowed"))
                .otherwise(F.lit("invalid")),
                offset=F.col("offset"),
                value=F.col("value"),
                ops=[F.col("op"), F.col("first.op"), F.col("other.op"), F.col("end_op")],
                from_ns=F.col("sent_ns"),
                to_ns=by_ns,
            )
        ],
    )
    per_partition = judged.groupBy("p").agg(
        F.count_if(below & (F.col("made") == 1)).alias("once"),
        F.count_if(~below).alias("beyond"),
        F.count_if(below & (F.col("made") > 1)).alias("again"),
        F.count_if(missing).alias("never"),
    )
    return Family(
        found,
        union(
            [
                figures(
                    per_partition,
                    {
                        (EXACTLY_ONCE, "once"): F.col("once"),
                        (EXACTLY_ONCE, "beyond"): F.col("beyond"),
                        (EXACTLY_ONCE, "reflected_again"): F.col("again"),
                        (EXACTLY_ONCE, "never_reflected"): F.col("never"),
                    },
                ),
                figures(ends, {(EXACTLY_ONCE, "final_offsets"): F.lit(1)}),
            ]
        ),
    )


def _taken_outputs(facts: Facts) -> DataFrame:
    """(taken_source): inputs of which an output, of a transaction that may be committed, may have been lost by an
    unclean election of its own partition before that was drained.
    """
    lost = facts.by_value.where(F.col("source").isNotNull() & (F.col("n_reads") == 0) & (F.col("fate") != ABORTED))
    drains = facts.history.marks.where(F.col("f") == "drain-complete").groupBy("p").agg(F.max("time_ns").alias("to_ns"))
    its_doing = attributable(
        facts.unclean, lost_epoch=F.col("epoch"), from_ns=F.col("send.invoke_ns"), to_ns=F.col("to_ns")
    )
    return (
        lost.join(drains, on="p", how="left").where(its_doing).select(F.col("source").alias("taken_source")).distinct()
    )


def _undrained(facts: Facts) -> DataFrame:
    """(group, undrained): of how many partitions that its outputs were sent to no drain under read_committed came to
    its end; only groups with such partitions.
    """
    coordination = facts.history.coordination
    groups = coordination.where(F.col("f").isin("add_offsets", "txn_offsets")).select(
        F.col("asked.txn").alias("txn"), F.col("asked.group").alias("group")
    )
    drained = facts.history.marks.where((F.col("f") == "drain-complete") & (F.col("isolation") == 1))
    targets = facts.history.sends.where(F.col("source").isNotNull()).select("txn", "p")
    return (
        targets.join(groups, on="txn", how="inner")
        .join(drained.select("p").distinct(), on="p", how="left_anti")
        .groupBy("group")
        .agg(F.count_distinct("p").alias("undrained"))
    )
