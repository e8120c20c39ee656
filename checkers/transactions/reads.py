"""Aborted-transaction read (G1a), precommitted read: values that read_committed showed, and should not have.

Input grain: one row per record that a poll under read_committed returned. A row of the first proves that its
transaction certainly was aborted: no commit of it was ever asked for, or each was refused. A row of the second proves
that a poll had returned it before a commit of its transaction was first asked for; so it is where a transaction polls
its own send.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.history.transactions import ABORTED, transactions_table
from checkers.transactions.names import ABORTED_READ, PRECOMMITTED
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union


def read_checks(facts: Facts) -> Family:
    transactional = facts.by_value.where(F.col("txn").isNotNull())
    sent = transactional.select("p", "value", "txn", "fate", F.col("send.op").alias("sent_op"), "send.invoke_ns")
    ends = transactions_table(facts.history).select("txn", "commit_invoked_ns", "commit_op", "end_op")
    reads = (
        facts.history.polls.where(F.col("isolation") == 1)
        .select("p", "value", "offset", "op", "complete_ns", F.col("txn").alias("reader"))
        .join(sent, on=["p", "value"], how="inner")
        .groupBy("p", "value", "txn", "fate", "sent_op", "invoke_ns")
        .agg(
            F.min(F.struct("complete_ns", "op", "offset")).alias("first"),
            F.bool_or(F.col("reader") == F.col("txn")).alias("own"),
            F.count(F.lit(1)).alias("reads"),
        )
        .join(ends, on="txn", how="left")
    )
    # What a transaction polls, it polls before it asks for its commit.
    before_commit = F.col("own") | (F.col("first.complete_ns") < F.col("commit_invoked_ns"))
    early = (F.col("fate") != ABORTED) & before_commit
    where = text(
        "value {v} of transaction {t} was read at {p} offset {o} under read_committed",
        v=F.col("value"),
        t=F.col("txn"),
        p=F.col("p"),
        o=F.col("first.offset"),
    )
    by_itself = F.when(F.col("own"), F.lit(", by that transaction itself")).otherwise(F.lit(""))
    found = apply_rules(
        reads,
        [
            Rule(
                ABORTED_READ,
                F.col("fate") == ABORTED,
                F.concat(where, F.lit(", which certainly was aborted")),
                offset=F.col("first.offset"),
                value=F.col("value"),
                ops=[F.col("sent_op"), F.col("end_op"), F.col("first.op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("first.complete_ns"),
            ),
            Rule(
                PRECOMMITTED,
                early,
                F.concat(where, by_itself, F.lit(", before its commit was asked for")),
                offset=F.col("first.offset"),
                value=F.col("value"),
                ops=[F.col("sent_op"), F.col("first.op"), F.col("commit_op")],
                from_ns=F.col("invoke_ns"),
                to_ns=F.col("first.complete_ns"),
            ),
        ],
    )
    placed = transactional.where(F.col("known_offset").isNotNull()).groupBy("p")
    of_sends = placed.agg(F.count_if(F.col("fate") == ABORTED).alias("aborted_values"))
    of_reads = reads.groupBy("p").agg(F.sum("reads").alias("committed_reads"))
    own = (
        facts.history.requests.where((F.col("isolation") == 1) & F.col("txn").isNotNull() & (F.col("outcome") == "ok"))
        .groupBy("p")
        .agg(F.count(F.lit(1)).alias("own"))
    )
    return Family(
        found,
        union(
            [
                figures(of_sends, {(ABORTED_READ, "aborted_values"): F.col("aborted_values")}),
                figures(
                    of_reads,
                    {
                        (ABORTED_READ, "committed_reads"): F.col("committed_reads"),
                        (PRECOMMITTED, "committed_reads"): F.col("committed_reads"),
                    },
                ),
                figures(own, {(PRECOMMITTED, "polls_in_transactions"): F.col("own")}),
            ]
        ),
    )
