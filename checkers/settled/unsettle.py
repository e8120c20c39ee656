"""A history without its settled records, for the black-box families; what these records add to figures, beside it.

A record is settled where its block agrees (`blocks`), nothing marks the block (`marks`), and the whole of its send is
settled. Then every rule of one value, one offset, one send or one poll finds nothing in it, and rules that compare a
record with others would be compared with what is not settled. Of such a record only numbers are left: Settled.counts,
and when it was acknowledged (Settled.acked). Operations, requests and marks stay, all of them.

Not tried where rules look at more than that: transactions, producers with ids, readers of committed records, logs whose
start moved, a producer that promises an order, acknowledgements by fewer than all in sync (of which some are forgiven),
an end of the log that was looked up by time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from checkers.history.load import History, stored_history
from checkers.history.responses import imported, looks_up, response_log_start
from checkers.settled import passes
from checkers.settled.partition import Left, Told
from checkers.settled.passes import Partitions, Scratch
from checkers.settled.rest import Kept, kept, told
from checkers.settled.scans import SHIFT
from checkers.spark.brief import brief_session
from checkers.spark.places import Place
from checkers.spark.tables import read_table

WORTH_IT = 0.5
"""Where fewer of the blocks than this are settled, the whole history is judged."""
FEW_ROWS, FEW_REQUESTS = 2_000_000, 200_000
"""Of sends, polls and operations that are left, and of requests, more of whose rules look at all of them: up to so many
a brief session judges sooner.
"""
MOST_LOOSE = 4_000_000
"""Values that were acknowledged nowhere; where there are more of them, nothing is settled."""
LEAST_BYTES = 50_000_000
"""Of what a run has to be judged: below, all is judged sooner than it is known what is settled. At 6.5 MB (10^5
micro-operations as JSON lines) it takes 3 s more, at 65 MB a fifth of the CPU time less.
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """rest: the history without what is settled, and of operations with those alone that an answer denies. acked(p,
    offset, acked_ns): where each settled send of these ends, and when it was acknowledged. counts: partition → name →
    how many settled values were acknowledged (`acked`), had an unknown outcome and were read (`found`), or were read by
    nobody and unknown (`unknown`) or failed (`failed`); sends of several values that were read (`batches`) or not
    (`silent_batches`); records that polls returned (`reads`), and that both drains did (`compared`). available:
    partition → figures of availability, of the whole. records: the same rest, for families of records alone, where few
    sends and polls are left of many requests.
    """

    rest: History
    acked: DataFrame
    counts: Mapping[str, Mapping[str, int]]
    available: Mapping[str, Mapping[str, float]]
    records: History | None = None


_ACKED = T.StructType(
    [T.StructField("p", T.StringType()), T.StructField("offset", T.LongType()), T.StructField("acked_ns", T.LongType())]
)


def settled_of(history: History, parquet: Place) -> Settled | None:
    """None where it is not tried, or not worth it. parquet: the folder of its tables, by which it is judged, and of all
    that is stored on the way.

    Few rows that are left are of a brief session.
    """
    at = Scratch(parquet, parquet / "settled")
    if not _plain(history):
        return None
    sent = passes.sent(history.sends, at)
    if sent.odd or sent.loose > MOST_LOOSE or passes.returned(history.polls, sent.unacknowledged, at):
        return None
    passes.answers(history, at)
    partitions = passes.judged(history, {}, at).persist(StorageLevel.DISK_ONLY)
    try:
        found = told(partitions, {})
        crowded = {p: one.crowded for p, (one, _) in found.items() if len(one.crowded)}
        if crowded:
            partitions.unpersist()
            twice = passes.homes(history.sends, crowded, SHIFT, at)
            partitions = passes.judged(history, {p: np.unique(offset >> SHIFT) for p, offset in twice.items()}, at)
            partitions.persist(StorageLevel.DISK_ONLY)
            found = told(partitions, {})
        return _settled(history, partitions, found, at)
    finally:
        partitions.unpersist()


def _settled(
    history: History, partitions: Partitions, found: Mapping[str, tuple[Told, Left]], at: Scratch
) -> Settled | None:
    of_all = [one for one, _ in found.values()]
    if any(one.odd for one in of_all):
        return None
    if sum(one.open for one in of_all) > (1 - WORTH_IT) * sum(one.blocks for one in of_all):
        return None
    spark = history.ops.sparkSession
    brief = brief_session(spark)
    left = kept(history, partitions, {p: rest for p, (_, rest) in found.items()}, at, brief)
    if left is None:
        return None
    briefly = _read(brief, stored_history(brief, at.tables), left)
    reads = {row["p"]: row["count"] for row in briefly.rest.polls.groupBy("p").count().collect()}
    counts = {p: _counts(one.counts, reads.get(p, 0)) for p, one in left.left.items()}
    figures = {p: one.available for p, (one, _) in found.items()}
    if not _few_rows(briefly.rest.sends, briefly.rest.polls, briefly.rest.ops):
        return replace(_read(spark, history, left), counts=counts, available=figures)
    if history.requests.count() <= FEW_REQUESTS:
        return replace(briefly, counts=counts, available=figures)
    return replace(_read(spark, history, left), counts=counts, available=figures, records=briefly.rest)


def _read(spark: SparkSession, whole: History, left: Kept) -> Settled:
    rest = replace(
        whole,
        sends=read_table(spark, whole.sends.schema, *left.sends),
        polls=read_table(spark, whole.polls.schema, *left.polls),
        ops=read_table(spark, whole.ops.schema, *left.ops),
    )
    return Settled(rest, read_table(spark, _ACKED, left.acked), {}, {})


def _counts(counts: Mapping[str, int], reads: int) -> dict[str, int]:
    """reads: records that are left of a partition's polls."""
    return {**{name: n for name, n in counts.items() if name != "returned"}, "reads": counts["returned"] - reads}


def _few_rows(*tables: DataFrame) -> bool:
    return all(table.count() <= FEW_ROWS for table in tables)


def _plain(history: History) -> bool:
    """Whether nothing is asked in it that is not tried."""
    requests = history.requests.agg(
        F.count_if(F.col("isolation") != 0).alias("committed"),
        F.count_if(response_log_start() > 0).alias("starts"),
        F.count_if(looks_up() | imported()).alias("others"),
        F.count_if((F.col("position") < 0) & (F.col("outcome") == "ok")).alias("odd"),
    ).first()
    assert requests is not None
    return not (any(requests) or not history.deletions.isEmpty() or not history.coordination.isEmpty())
