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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History, stored_history
from checkers.history.responses import imported, looks_up, response_log_start
from checkers.settled import marks
from checkers.settled.batches import MOST_LOOSE, Batches, batches_of
from checkers.settled.blocks import agreeing_blocks
from checkers.settled.opened import opened_at, placed_values
from checkers.spark.brief import brief_session
from checkers.spark.places import Place
from checkers.spark.tables import read_table, stored

WORTH_IT = 0.5
"""Where fewer of the blocks than this are settled, the whole history is judged."""
FEW_ROWS = 2_000_000
"""Of operations, and of what is left of sends and polls: up to so many a brief session judges sooner."""


@dataclass(frozen=True, slots=True)
class Settled:
    """rest: the history without what is settled. acked(p, offset, acked_ns): where each settled send that was
    acknowledged ends, and when. counts: partition → name → how many settled values were acknowledged (`acked`), had an
    unknown outcome and were read (`found`), or were read by nobody and unknown (`unknown`) or failed (`failed`); sends
    of several values that were read (`batches`) or not (`silent_batches`); records that polls returned (`reads`), and
    that both drains did (`compared`).
    """

    rest: History
    acked: DataFrame
    counts: Mapping[str, Mapping[str, int]]


LEAST_BYTES = 50_000_000
"""Of what a run has to be judged: below, all is judged sooner than it is known what is settled. At 6.5 MB (10^5
micro-operations as JSON lines) it takes 3 s more, at 65 MB a fifth of the CPU time less.
"""


def settled_of(history: History, parquet: Place) -> Settled | None:
    """None where it is not tried, or not worth it. parquet: the folder of its tables, and of those on the way.

    Few rows that are left are of a brief session.
    """
    folder = parquet / "settled"
    if not _plain(history):
        return None
    batches = batches_of(history, folder)
    agreeing = stored(agreeing_blocks(placed_values(history, batches), history.polls), folder / "agreeing")
    blocks = stored(marks.drained(history, agreeing), folder / "blocks")
    marked = _marked(history, batches, blocks, folder)
    opened = opened_at(history, batches, stored(marked.distinct(), folder / "open"), folder)
    if opened.blocks.count() > (1 - WORTH_IT) * blocks.count():
        return None
    strays = stored(opened.strays(), folder / "strays")
    if not strays.isEmpty():
        opened = opened.widened(strays, folder / "strays-too")
    acked = opened.whole().where(F.col("acked"))
    ends = acked.select("p", F.col("last").alias("offset"), F.col("complete_ns").alias("acked_ns"))
    settled = Settled(opened.rest, stored(ends, folder / "acked"), opened.counts(blocks))
    return _briefly(settled, parquet, opened.folder, folder) if _few_rows(settled.rest) else settled


def _marked(history: History, batches: Batches, blocks: DataFrame, folder: Place) -> DataFrame:
    """(p, block), not distinct: what is not settled. blocks: all, with what `agreeing_blocks` and `drained` say."""
    twice = stored(marks.sent_twice(history, batches), folder / "twice")
    marked = (
        marks.out_of_order(batches, twice)
        .unionByName(marks.odd_polls(history, blocks))
        .unionByName(marks.jumped_over(history, blocks))
        .unionByName(marks.bounds(batches, twice))
        .unionByName(twice)
        .unionByName(blocks.where(~F.col("agrees") | F.col("compared").isNull()).select("p", "block"))
    )
    others = stored(marked.distinct(), folder / "marked")
    late = stored(marks.late_sends(history, batches), folder / "late")
    return others if late.isEmpty() else others.unionByName(marks.out_of_time(history, batches, late, others))


def _few_rows(rest: History) -> bool:
    return all(table.count() <= FEW_ROWS for table in (rest.ops, rest.sends, rest.polls))


def _briefly(settled: Settled, parquet: Place, rest: Place, folder: Place) -> Settled:
    """The same, in a brief session. rest: where its sends and polls are."""
    brief = brief_session(settled.acked.sparkSession)
    whole = stored_history(brief, parquet)
    sends, polls = (read_table(brief, frame.schema, rest / name) for name, frame in _judged(settled.rest))
    acked = read_table(brief, settled.acked.schema, folder / "acked")
    return Settled(replace(whole, sends=sends, polls=polls), acked, settled.counts)


def _judged(history: History) -> tuple[tuple[str, DataFrame], ...]:
    return ("sends", history.sends), ("polls", history.polls)


def _plain(history: History) -> bool:
    """Whether nothing is in it that is not tried."""
    sends = history.sends.agg(
        *[F.count(name).alias(name) for name in ("txn", "producer_id", "sequence", "resends")],
        F.count_if("in_order").alias("in_order"),
        F.count_if(~F.col("acks").eqNullSafe(-1)).alias("acks"),
        F.count_if((F.col("offset") < 0) | ((F.col("outcome") == "ok") & F.col("offset").isNull())).alias("odd"),
        F.count_if(F.col("offset").isNull()).alias("loose"),
    ).first()
    requests = history.requests.agg(
        F.count_if(F.col("isolation") != 0).alias("committed"),
        F.count_if(response_log_start() > 0).alias("starts"),
        F.count_if(looks_up() | imported()).alias("others"),
        F.count_if((F.col("position") < 0) & (F.col("outcome") == "ok")).alias("odd"),
    ).first()
    assert sends is not None
    assert requests is not None
    many = sends["loose"] > MOST_LOOSE
    odd = any(sends[name] for name in ("txn", "producer_id", "sequence", "resends", "in_order", "acks", "odd"))
    return not (many or odd or any(requests) or not history.deletions.isEmpty() or not history.coordination.isEmpty())
