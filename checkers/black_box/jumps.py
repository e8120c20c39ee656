"""Where a real client passed over what the log's start had left behind: `auto.offset.reset`, after OFFSET_OUT_OF_RANGE.

A reader of the lab's own fails where its position lies below the log's start, and says where it begins anew. An
ordinary client begins there by itself: between two polls, or in the middle of what the history has as one, for that is
whatever was handed out together. What such a jump passes over is no evidence of a loss where it ends at a start that
the log may have had: no higher than one that some response of the run named. It says then, of what lies between, that
it was gone by the time of the poll; whether something can have deleted it by then is decided as for any log start
(checkers/allowances/expiry.py).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.history.load import History
from checkers.history.responses import by_lab, is_poll, response_log_start
from checkers.history.retention import Expiry


def told_starts(history: History) -> DataFrame:
    """(p, told_start): the highest log start that any response of a partition named."""
    answered = history.requests.where(F.col("outcome") == "ok")
    return answered.groupBy("p").agg(F.max(response_log_start()).alias("told_start"))


def jumps(history: History) -> DataFrame:
    """One row per jump inside a poll of a real client that may have been to the log's start: (p, op, since, log_start,
    complete_ns, inner). It passed over the offsets from `since` to below `log_start`; inner: after a record.
    """
    polls = history.requests.where(is_poll() & ~by_lab() & (F.col("outcome") == "ok") & (F.col("returned") > 0))
    gappy = polls.where(F.col("in_range") < F.col("next_position") - F.col("position"))
    order = Window.partitionBy("op").orderBy("offset")
    after = F.lag("offset").over(order) + 1
    return (
        history.polls.select("op", "offset")
        .join(gappy.select("op", "p", "position", "complete_ns"), on="op", how="inner")
        .withColumn("since", F.greatest(after, F.col("position")))
        .withColumn("inner", after.isNotNull())
        .where(F.col("offset") > F.col("since"))
        .join(F.broadcast(told_starts(history)), on="p", how="inner")
        .where(F.col("offset") <= F.col("told_start"))
        .select("p", "op", "since", F.col("offset").alias("log_start"), "complete_ns", "inner")
    )


def without_jumps(history: History) -> DataFrame:
    """Rows of `requests`, of which a real client's poll with a jump begins no lower than the last that it made."""
    last = jumps(history).groupBy("op").agg(F.max("log_start").alias("landed"))
    return (
        history.requests.join(last, on="op", how="left")
        .withColumn("position", F.greatest("position", "landed"))
        .drop("landed")
    )


def gone_by_then(expiry: Expiry | None, rows: DataFrame, by_value: DataFrame, history: History) -> DataFrame:
    """rows(p, offset, gone_ns, …) of what a real client passed over, with `gone`: whether the log may have begun above
    that offset when it did.
    """
    if expiry is None:
        return rows.withColumn("gone", F.lit(False))
    sent = (
        by_value.where(F.col("known_offset").isNotNull())
        .groupBy("p", F.col("known_offset").alias("offset"))
        .agg(F.max("send.invoke_ns").alias("sent_ns"))
    )
    placed = rows.join(sent, on=["p", "offset"], how="left").join(F.broadcast(told_starts(history)), on="p", how="left")
    below = F.coalesce(F.col("offset") < F.col("told_start"), F.lit(False))
    return (
        with_expired(expiry, placed, history, reused=False)
        .withColumn("gone", below & F.col("expired"))
        .drop("sent_ns", "told_start", "expired")
    )
