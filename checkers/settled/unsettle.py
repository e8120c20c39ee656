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
from checkers.settled import marks, passes
from checkers.settled.batches import MOST_LOOSE, PLACED, Batches, batches_of
from checkers.settled.blocks import agreeing_blocks
from checkers.settled.opened import Open, opened_at
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
    that both drains did (`compared`). records: the same rest, for families of records alone, where few sends and polls
    are left of many operations.
    """

    rest: History
    acked: DataFrame
    counts: Mapping[str, Mapping[str, int]]
    records: History | None = None


LEAST_BYTES = 50_000_000
"""Of what a run has to be judged: below, all is judged sooner than it is known what is settled. At 6.5 MB (10^5
micro-operations as JSON lines) it takes 3 s more, at 65 MB a fifth of the CPU time less.
"""


def settled_of(history: History, parquet: Place) -> Settled | None:
    """None where it is not tried, or not worth it. parquet: the folder of its tables, by which it is judged, and of all
    that is stored on the way.

    Few rows that are left are of a brief session.
    """
    folder = parquet / "settled"
    if not _plain(history):
        return None
    sent = passes.sent(history.sends, parquet / "sends", folder)
    if sent.odd or sent.loose > MOST_LOOSE:
        return None
    read = passes.returned(history.polls, sent.unacknowledged, parquet / "polls", folder)
    if read.odd:
        return None
    batches = batches_of(history, sent, read.found, folder)
    placed = passes.placed(batches.loose, PLACED, folder / "loose", folder)
    agreeing = stored(agreeing_blocks(sent.given.unionByName(placed), read.returned), folder / "agreeing")
    blocks = stored(marks.drained(history, agreeing), folder / "blocks")
    marked = _marked(history, batches, blocks, folder)
    open_blocks = stored(marked.distinct(), folder / "open")
    if open_blocks.count() > (1 - WORTH_IT) * blocks.count():
        return None
    opened = opened_at(history, batches, parquet, open_blocks, folder)
    strays = stored(opened.strays(), folder / "strays")
    if not strays.isEmpty():
        opened = opened.widened(strays, folder / "strays-too")
    acked = opened.whole().where(F.col("acked"))
    ends = acked.select("p", F.col("last").alias("offset"), F.col("complete_ns").alias("acked_ns"))
    settled = Settled(opened.rest, stored(ends, folder / "acked"), opened.counts(blocks))
    if not _few_rows(opened.rest.sends, opened.rest.polls):
        return settled
    brief = _briefly(settled, parquet, opened, folder)
    return brief if _few_rows(opened.rest.ops) else replace(settled, records=brief.rest)


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


def _few_rows(*tables: DataFrame) -> bool:
    return all(table.count() <= FEW_ROWS for table in tables)


def _briefly(settled: Settled, parquet: Place, opened: Open, folder: Place) -> Settled:
    """The same, in a brief session."""
    brief = brief_session(settled.acked.sparkSession)
    whole = stored_history(brief, parquet)
    sends = read_table(brief, settled.rest.sends.schema, *opened.places["sends"])
    polls = read_table(brief, settled.rest.polls.schema, *opened.places["polls"])
    acked = read_table(brief, settled.acked.schema, folder / "acked")
    return Settled(replace(whole, sends=sends, polls=polls), acked, settled.counts)


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
