"""What retention, or a request, can have deleted in a run, and which of the records that are gone below a log start.

Input grain: one row per record, with its partition, offset, when its send was begun and when it was first known to be
gone. By time: its timestamp is the client's, taken after its send was begun, so that it was that old by the broker's
clock, and how far this was off is in `Expiry.age_ns`. By size: at most these records lay above it: all sent to its
partition by then, minus those known to lie at or below its offset; the lab sends a record once, and nothing else writes
to the topic of a run, but for markers of transactions, as many as coordinators like, and for what real clients send
again by themselves, as often as they like: of a partition that has either it is not known how much lay above. By
request: one that named an offset above the record had been begun, and did not
certainly fail; one that was acknowledged before the record was sent is about another record there. All are bounds from
above: what is refused cannot have been deleted.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.history.load import History, span_of
from checkers.history.resends import numbered_anew, sent_by_itself
from checkers.history.responses import furthest_shown
from checkers.history.retention import Expiry
from checkers.history.run_info import RunInfo
from checkers.spark.places import Place
from checkers.spark.tables import one_piece


def expiry_of(history: Place, info: RunInfo, events: DataFrame, *, requested: bool = False) -> Expiry | None:
    """What retention can have deleted during the run, by the clocks that faults moved and that event logs show, and
    requests, where there were any (`requested`).

    events(w, t_ns). Hosts of somebody else's may be off without any fault, and one that is far enough ahead deletes
    what is younger than the limit by the run's own clock, in a run that is shorter than the limit.
    """
    length_ns, ahead_s, behind_s = span_of(history, clocks=info.scripted or info.skews_clocks)
    most = least = 0
    if info.retention.time_ms is not None:
        # Exact in integers: wall clocks in ns do not fit a double.
        off = F.col("w") - (F.col("t_ns") + F.lit(info.origin_wall_ns))
        seen = events.agg(F.max(off).alias("most"), F.min(off).alias("least")).first()
        most, least = (0, 0) if seen is None else (seen["most"] or 0, seen["least"] or 0)
    return info.retention.expiry(
        run_ms=length_ns / 1e6,
        ahead_ms=max(ahead_s * 1e3, most / 1e6),
        behind_ms=max(behind_s * 1e3, -least / 1e6),
        record_bytes=info.record_bytes,
        requested=requested,
    )


def with_expired(expiry: Expiry | None, rows: DataFrame, history: History, *, reused: bool) -> DataFrame:
    """rows(p, offset, sent_ns, gone_ns, …) with `expired`. sent_ns null: any time since the run began. gone_ns null:
    never known to be gone.

    reused: whether offsets may have been given again after an unclean election; what lies below is then not known.
    """
    if expiry is None:
        return rows.withColumn("expired", F.lit(False))
    rows = _with_requested(rows, history) if expiry.requested else rows.withColumn("on_request", F.lit(False))
    expired: Column = F.col("on_request")
    if expiry.age_ns is not None:
        expired = expired | (F.coalesce("sent_ns", F.lit(0)) + F.lit(expiry.age_ns) <= F.col("gone_ns"))
    if expiry.size_bytes is None:
        return rows.withColumn("expired", F.coalesce(expired, F.lit(False))).drop("on_request")
    above = F.col("sent_by_then") - (F.lit(0) if reused else F.col("not_above"))
    expired = expired | (above * F.lit(expiry.record_bytes) >= F.lit(expiry.size_bytes))
    known, sends = F.col("gone_ns").isNotNull(), history.sends
    expired = expired | F.coalesce("has_more", F.lit(False))
    rows = rows.join(F.broadcast(with_more(history)), on="p", how="left")
    return (
        counted(counted(rows, "gone_ns", sends, "invoke_ns", "sent_by_then"), "offset", sends, "offset", "not_above")
        .withColumn("expired", F.coalesce(known & expired, F.lit(False)))
        .drop("sent_by_then", "not_above", "on_request", "has_more")
    )


def with_more(history: History) -> DataFrame:
    """(p, has_more): partitions to which a transaction has sent, or was to send, or a real client that may send again
    by itself: more may stand in them than was sent.
    """
    added = history.coordination.where(F.col("f") == "add_partitions").select(F.explode("asked.partitions").alias("p"))
    again = F.col("txn").isNotNull() | sent_by_itself() | numbered_anew()
    sent = history.sends.where(again).select("p")
    return sent.unionByName(added).transform(one_piece).distinct().withColumn("has_more", F.lit(True))


def _with_requested(rows: DataFrame, history: History) -> DataFrame:
    """rows with `on_request`: whether a client had asked by then to delete what lies below an offset above theirs.

    A request beyond all that any response showed the log to reach has to be refused: without an answer it explains
    nothing.
    """
    asked = (
        history.deletions.where(F.col("outcome") != "fail")
        .join(F.broadcast(furthest_shown(history.requests)), on="p", how="left")
        .where((F.col("outcome") == "ok") | (F.col("before") <= F.coalesce("reached", F.lit(0))))
        .groupBy("p")
        .agg(
            F.collect_list(
                F.struct("before", "invoke_ns", F.when(F.col("outcome") == "ok", F.col("complete_ns")).alias("done_ns"))
            ).alias("asked")
        )
    )
    explains = F.exists(
        "asked",
        lambda one: (
            (one["before"] > F.col("offset"))
            & (one["invoke_ns"] <= F.col("gone_ns"))
            & (one["done_ns"].isNull() | (one["done_ns"] >= F.coalesce("sent_ns", F.lit(0))))
        ),
    )
    return (
        rows.join(F.broadcast(asked), on="p", how="left")
        .withColumn("on_request", F.coalesce(explains, F.lit(False)))
        .drop("asked")
    )


def counted(rows: DataFrame, at: str, sends: DataFrame, by: str, name: str) -> DataFrame:
    """rows with how many sends of their partition have `by` at or below the row's `at`, as `name`."""
    row = F.struct(*rows.columns)
    wanted = rows.select("p", F.col(at).cast("bigint").alias("at"), F.lit(0).alias("n"), row.alias("row"))
    sent = sends.where(F.col(by).isNotNull()).select(
        "p", F.col(by).alias("at"), F.lit(1).alias("n"), F.lit(None).cast(wanted.schema["row"].dataType).alias("row")
    )
    upto = Window.partitionBy("p").orderBy("at").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        wanted.unionByName(sent)
        .transform(one_piece)
        .withColumn(name, F.sum("n").over(upto))
        .where(F.col("row").isNotNull())
        .select("row.*", name)
    )
