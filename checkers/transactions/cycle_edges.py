"""What stands before what: transactions and reads as nodes, and the dependencies between them as edges.

Nodes. A transaction that was committed (or whose commit got no answer and of which read_committed shows something), by
its `txn`; a poll under read_committed of the main phase that is of no transaction, by `read_node` of its operation.
What was aborted wrote nothing, and plain sends stand in one partition, whose order they leave as it is.

Edges (Adya, "Weak Consistency", 1999; a version of a partition is a record, the order of versions that of offsets):

- `ww`: a record of one transaction stands before one of another, and none of a third stands between them.
- `wr`: a poll of one returned a record of the other.
- `rw`: a poll of one read to the last stable offset that its response gave, and the first record at or above the place
  where it ended is of the other; or any one, where another record of the same transaction was returned. A poll that
  ended below that offset says nothing of what comes after: it was given no more than it asked for.
- `process`: one process had carried out one before the other.
- `real-time`: one transaction was over before the other began, and no third one lies between the two: the transitive
  reduction, of at most as many edges as there are transactions under way at once, for each.

Grain of an edge: (u, v, edge, p), with one example of operations, offsets and values. `at_u`, `at_v`: when each node
takes effect by its own history, a commit when it was first asked for, a poll when it was answered. In a history without
precommitted reads `wr`, `process` and `real-time` go forward by these times.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.history.transactions import COMMITTED, UNKNOWN, transactions_table
from checkers.spark.running import Fold, running
from checkers.spark.tables import kept, one_piece

_SLICE_BITS = 30
"""Of time: a slice is 1.07 s."""

WW, WR, RW, PROCESS, REAL_TIME = "ww", "wr", "rw", "process", "real-time"

COLUMNS = ("u", "v", "edge", "p", "from_op", "from_offset", "from_value", "to_op", "to_offset", "to_value")
"""Of an edge, but for its times. For `rw` from_offset is where the poll ended; for `wr` both sides name one record."""


def read_node(op: Column) -> Column:
    """The node of a poll that is of no transaction; transactions are numbered from 0 on."""
    return -op - 1


def dependencies(facts: Facts) -> DataFrame:
    """All edges, cached: COLUMNS, at_u, at_v."""
    nodes = kept(_nodes(facts))
    writes, polls = kept(_writes(facts, nodes)), kept(_polls(facts, nodes))
    read = kept(_written_read(facts, writes, polls))
    every = (
        _written_over(writes)
        .unionByName(read)
        .unionByName(_not_yet_read(writes, polls))
        .unionByName(_part_read(writes, polls, read))
        .unionByName(_of_one_process(nodes))
        .unionByName(_one_after_another(nodes))
        .transform(one_piece)
    )
    return kept(every)


def _nodes(facts: Facts) -> DataFrame:
    """(node, process, began_ns, over_ns, at_ns). over_ns: null where nothing says when it was over."""
    history = facts.history
    sent = facts.by_value.where(F.col("txn").isNotNull() & F.col("send").isNotNull()).select(
        "txn",
        F.struct("send.invoke_ns", "send.process").alias("began"),
        (F.col("n_committed_reads") > 0).alias("shown"),
    )
    polled = history.requests.where((F.col("f") == "poll") & F.col("txn").isNotNull()).select(
        "txn", F.struct("invoke_ns", "process").alias("began"), F.lit(False).alias("shown")
    )
    transactions = (
        sent.unionByName(polled)
        .transform(one_piece)
        .groupBy("txn")
        .agg(F.min("began").alias("began"), F.max("shown").alias("shown"))
        .join(transactions_table(history).where(F.col("fate").isin(COMMITTED, UNKNOWN)), on="txn", how="inner")
        .where((F.col("fate") == COMMITTED) | F.col("shown"))
        .select(
            F.col("txn").alias("node"),
            "began.process",
            F.col("began.invoke_ns").alias("began_ns"),
            F.col("committed_ns").alias("over_ns"),
            F.col("commit_invoked_ns").alias("at_ns"),
        )
    )
    reads = history.requests.where(_answered() & F.col("txn").isNull() & (F.col("phase") == "main")).select(
        read_node(F.col("op")).alias("node"),
        "process",
        F.col("invoke_ns").alias("began_ns"),
        F.col("complete_ns").alias("over_ns"),
        F.col("complete_ns").alias("at_ns"),
    )
    return transactions.unionByName(reads).transform(one_piece)


def _answered() -> Column:
    return (F.col("f") == "poll") & (F.col("outcome") == "ok") & (F.col("isolation") == 1)


def _writes(facts: Facts, nodes: DataFrame) -> DataFrame:
    """(p, node, value, offset, op, at_ns): records of the transactions that are nodes."""
    return (
        facts.by_value.where(F.col("txn").isNotNull() & F.col("known_offset").isNotNull())
        .select("p", F.col("txn").alias("node"), "value", F.col("known_offset").alias("offset"), "send.op")
        .join(nodes.select("node", "at_ns"), on="node", how="inner")
    )


def _polls(facts: Facts, nodes: DataFrame) -> DataFrame:
    """(op, node, p, next_position, lso, at_ns): answered polls of the nodes."""
    return (
        facts.history.requests.where(_answered())
        .select("op", F.coalesce("txn", read_node(F.col("op"))).alias("node"), "p", "next_position", "lso")
        .join(nodes.select("node", "at_ns"), on="node", how="inner")
    )


def _edge(
    u: Column, v: Column, edge: str, p: Column, times: tuple[Column, Column], example: dict[str, Column]
) -> list[Column]:
    """times: of u and of v."""
    given = [example.get(name, F.lit(None)).cast("bigint").alias(name) for name in COLUMNS[4:]]
    of_both = [at.alias(name) for at, name in zip(times, ("at_u", "at_v"), strict=True)]
    return [u.alias("u"), v.alias("v"), F.lit(edge).alias("edge"), p.cast("string").alias("p"), *of_both, *given]


def _once(edges: DataFrame) -> DataFrame:
    """One example of each (u, v, edge, p), the first by offset."""
    order = ("from_offset", "to_offset", "from_op", "to_op", "from_value", "to_value")
    return (
        edges.groupBy("u", "v", "edge", "p", "at_u", "at_v")
        .agg(F.min(F.struct(*order)).alias("first"))
        .select("u", "v", "edge", "p", "at_u", "at_v", *[F.col(f"first.{name}").alias(name) for name in COLUMNS[4:]])
    )


def _written_over(writes: DataFrame) -> DataFrame:
    along = Window.partitionBy("p").orderBy("offset", "value")
    one = F.struct("node", "offset", "value", "op", "at_ns")
    times = F.col("before.at_ns"), F.col("at_ns")
    return _once(
        writes.withColumn("before", F.lag(one).over(along))
        .where(F.col("before.node") != F.col("node"))
        .select(*_edge(F.col("before.node"), F.col("node"), WW, F.col("p"), times, _both("before.", "")))
    )


def _both(first: str, second: str) -> dict[str, Column]:
    names, sides = ("op", "offset", "value"), (("from", first), ("to", second))
    return {f"{side}_{name}": F.col(prefix + name) for side, prefix in sides for name in names}


def _written_read(facts: Facts, writes: DataFrame, polls: DataFrame) -> DataFrame:
    returned = facts.history.polls.where(F.col("isolation") == 1).select("op", "p", "value", "offset")
    readers = polls.select(F.col("op").alias("poll"), F.col("node").alias("reader"), F.col("at_ns").alias("read_ns"))
    written = writes.select("p", "value", "node", F.col("op").alias("send"), "at_ns")
    return _once(
        returned.join(written, on=["p", "value"], how="inner")
        .join(readers, on=F.col("op") == F.col("poll"), how="inner")
        .where(F.col("node") != F.col("reader"))
        .select(
            *_edge(
                F.col("node"),
                F.col("reader"),
                WR,
                F.col("p"),
                (F.col("at_ns"), F.col("read_ns")),
                {
                    "from_op": F.col("send"),
                    "from_offset": F.col("offset"),
                    "from_value": F.col("value"),
                    "to_op": F.col("poll"),
                    "to_offset": F.col("offset"),
                    "to_value": F.col("value"),
                },
            )
        )
    )


def _ends(polls: DataFrame) -> DataFrame:
    """(node, p, at_ns, end, poll): how far each node read a partition, where it read to the last stable offset."""
    last = F.max(F.struct("next_position", "lso", "op")).alias("last")
    to_the_end = (F.col("last.lso") >= 0) & (F.col("last.next_position") >= F.col("last.lso"))
    return (
        polls.groupBy("node", "p", "at_ns")
        .agg(last)
        .where(to_the_end)
        .select("node", "p", "at_ns", F.col("last.next_position").alias("end"), F.col("last.op").alias("poll"))
    )


def _not_yet_read(writes: DataFrame, polls: DataFrame) -> DataFrame:
    """The first record at or above each end. Of the reader itself: its own order goes on by `ww`."""
    write = F.struct("node", "offset", "value", "op", "at_ns").alias("write")
    there = writes.select("p", F.col("offset").alias("at"), write)
    ended = _ends(polls).select("p", F.col("end").alias("at"), F.struct("node", "end", "poll", "at_ns").alias("read"))
    times = F.col("read.at_ns"), F.col("next.at_ns")
    # From the last offset to the first, so that what comes next has come before; a record before an end at its offset.
    back = Window.partitionBy("p").orderBy(F.col("at").desc(), F.col("read").isNotNull())
    return _once(
        there.unionByName(ended, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn("next", F.last("write", ignorenulls=True).over(back.rowsBetween(Window.unboundedPreceding, 0)))
        .where(F.col("read").isNotNull() & (F.col("next.node") != F.col("read.node")))
        .select(*_edge(F.col("read.node"), F.col("next.node"), RW, F.col("p"), times, _unread("read.", "next.")))
    )


def _unread(read: str, write: str) -> dict[str, Column]:
    return {
        "from_op": F.col(f"{read}poll"),
        "from_offset": F.col(f"{read}end"),
        "to_op": F.col(f"{write}op"),
        "to_offset": F.col(f"{write}offset"),
        "to_value": F.col(f"{write}value"),
    }


def _part_read(writes: DataFrame, polls: DataFrame, read: DataFrame) -> DataFrame:
    """Of a transaction one record was returned, and another stands at or above an end of the same reader."""
    pairs = read.select(F.col("u").alias("writer"), F.col("v").alias("node")).distinct()
    last = writes.groupBy(F.col("node").alias("writer"), "p", F.col("at_ns").alias("written_ns")).agg(
        F.max(F.struct("offset", "value", "op")).alias("write")
    )
    times = F.col("at_ns"), F.col("written_ns")
    return _once(
        pairs.join(_ends(polls), on="node", how="inner")
        .join(last, on=["writer", "p"], how="inner")
        .where(F.col("write.offset") >= F.col("end"))
        .select(*_edge(F.col("node"), F.col("writer"), RW, F.col("p"), times, _unread("", "write.")))
    )


def _of_one_process(nodes: DataFrame) -> DataFrame:
    along = Window.partitionBy("process").orderBy("began_ns", "node")
    times = F.col("before.at_ns"), F.col("at_ns")
    return (
        nodes.withColumn("before", F.lag(F.struct("node", "at_ns")).over(along))
        .where(F.col("before").isNotNull())
        .select(*_edge(F.col("before.node"), F.col("node"), PROCESS, F.lit(None), times, {}))
    )


def _one_after_another(nodes: DataFrame) -> DataFrame:
    """u was over before v began, and none began after u was over and was over before v began.

    Which are over before v begins is a piece of all in the order of their ends, and which of these come right before v
    too: those that were over once the last of them that began had begun.
    """
    transactions = nodes.where(F.col("node") >= 0)
    over = transactions.where(F.col("over_ns").isNotNull()).select(
        F.col("over_ns").alias("at"), F.col("node").alias("ended"), F.col("began_ns").alias("since"), "at_ns"
    )
    begins = transactions.select(F.col("began_ns").alias("at"), F.col("node").alias("begins"), "at_ns")
    line = over.unionByName(begins, allowMissingColumns=True).transform(one_piece)
    placed = kept(_along(line, {"ends": ("count", "ended"), "latest": ("max", "since")}))
    ends = placed.where(F.col("ended").isNotNull()).select(
        "ended", F.col("ends").alias("nth"), F.col("at").alias("over"), F.col("at_ns").alias("ended_ns")
    )
    last_begun = placed.where(F.col("begins").isNotNull() & (F.col("ends") > 0)).select(
        "begins", F.col("ends").alias("last"), F.col("latest").alias("at"), "at_ns"
    )
    among = last_begun.unionByName(ends.select(F.col("over").alias("at"), "ended", "nth"), allowMissingColumns=True)
    direct = (
        # How many were over before that: the first that comes right before v is the next one.
        _along(among.transform(one_piece), {"skipped": ("count", "nth")})
        .where(F.col("begins").isNotNull())
        .select("begins", "at_ns", F.explode(F.sequence(F.col("skipped") + 1, F.col("last"))).alias("nth"))
    )
    times = F.col("ended_ns"), F.col("at_ns")
    return direct.join(ends, on="nth", how="inner").select(
        *_edge(F.col("ended"), F.col("begins"), REAL_TIME, F.lit(None), times, {})
    )


def _along(frame: DataFrame, folds: Mapping[str, Fold]) -> DataFrame:
    """Up to each row in time. What begins at the instant at which another one is over does not come after it."""
    order = [F.col("at"), F.col("begins").isNull(), F.col("ended")]
    return running(frame, F.shiftright("at", _SLICE_BITS), order, folds)
