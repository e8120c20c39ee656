"""Ends that answers told, and what follows of them for a record: that it is committed, that a later one stands above.

An answer tells an end by what it returned, by a watermark, or by an end offset. All below it is committed, whatever
acks it was sent with: every later leader has it, but for unclean elections.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.history.responses import answered_in, by_lab, by_wire, is_poll, known_epoch, response_epoch, shown_end

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"


def told_end() -> Column:
    """Of an ok row of `requests`: the end that it told; null where it told none. What a poll passed over is committed,
    with records or without.
    """
    passed = F.when(is_poll() & (F.col("next_position") > F.col("position")), F.col("next_position"))
    end = F.greatest(shown_end(), passed)
    return F.when(end > 0, end)


def told_by_leader(history: History) -> DataFrame:
    """(told_p, told_node, told): of every leader epoch in which a node answered: `epoch`, when it is first known to
    have led in it, by an answer of its own (`from_ns`), when the last request that it answered was sent (`to_ns`), the
    highest end that it told, or a follower in that epoch. What others say of it, by Metadata, it may not know yet.
    """
    in_epoch = Window.partitionBy("told_p", "epoch")
    return (
        history.requests.where(by_lab() & (F.col("outcome") == "ok"))
        .select(
            F.col("p").alias("told_p"),
            F.when(by_wire(), F.col("node")).alias("told_node"),
            response_epoch().alias("epoch"),
            F.col("complete_ns").alias("from_ns"),
            F.col("invoke_ns").alias("to_ns"),
            told_end().alias("end"),
        )
        .where(F.col("epoch") >= 0)
        .groupBy("told_p", "told_node", "epoch")
        .agg(F.min("from_ns").alias("from_ns"), F.max("to_ns").alias("to_ns"), F.max("end").alias("end"))
        .withColumn("end", F.max("end").over(in_epoch))
        .where(F.col("told_node").isNotNull())
        .groupBy("told_p", "told_node")
        .agg(F.collect_list(F.struct("epoch", "from_ns", "to_ns", "end")).alias("told"))
    )


def answers(history: History) -> DataFrame:
    """Requests of the lab's own clients with a response in a known leader epoch: with `epoch`. A read that is out of
    range is answered too, by a leader of the epoch that it names.
    """
    answered = (F.col("outcome") == "ok") | (is_poll() & (F.col("error") == OUT_OF_RANGE))
    # A response to a request that names an epoch is of that epoch.
    epoch = F.coalesce(answered_in(), known_epoch(F.col("leader_epoch")))
    return history.requests.where(by_wire() & answered).withColumn("epoch", epoch).where(F.col("epoch").isNotNull())


def acknowledged_ends(history: History) -> DataFrame:
    """(p, epoch, op, complete_ns, end): of sends that were acknowledged with acks=all, in a known leader epoch: `end`
    is behind their last record.

    A leader gives that acknowledgement once its watermark has passed them, so it tells an end. It was in the epoch in
    which that node is heard before the send and after the acknowledgement: its epochs never fall, and before the first
    there is none.
    """
    heard = (
        answers(history)
        .groupBy("p", "node", "epoch")
        .agg(F.min("complete_ns").alias("from_ns"), F.max("invoke_ns").alias("to_ns"))
        .withColumn("from_ns", F.when(F.col("epoch") > 0, F.col("from_ns")).otherwise(F.lit(-1)))
    )
    acked = history.ops.where(
        (F.col("f") == "send") & (F.col("outcome") == "ok") & (F.col("acks") == -1) & F.col("base_offset").isNotNull()
    )
    around = (F.col("from_ns") < F.col("invoke_ns")) & (F.col("to_ns") > F.col("complete_ns"))
    return (
        acked.join(F.broadcast(heard), on=["p", "node"], how="inner")
        .where(around)
        .select("p", "epoch", "op", "complete_ns", (F.col("base_offset") + F.col("n_values")).alias("end"))
    )


def thinned(acked: DataFrame, requests: DataFrame) -> DataFrame:
    """`acked` with as little as finds the same for each row of requests (p, at_ns): the furthest end of every epoch in
    each second, and all of a second in which the partition was asked. A long history has a million times as many
    acknowledgements as requests that could deny one.
    """
    sliced = acked.withColumn("second", _second("complete_ns"))
    asked = requests.select("p", _second("at_ns").alias("second")).distinct()
    furthest = sliced.groupBy("p", "epoch", "second").agg(F.max(F.struct("end", "op", "complete_ns")).alias("top"))
    near = sliced.join(F.broadcast(asked), on=["p", "second"], how="left_semi")
    return furthest.select("p", "epoch", "top.op", "top.complete_ns", "top.end").unionByName(near.drop("second"))


def _second(name: str) -> Column:
    return F.floor(F.col(name) / 1_000_000_000)


def shown_committed() -> Column:
    """Of a row of `by_value` with `told` of the node that acknowledged it: whether that node told an end above it in
    the very leader epoch in which it took it.

    A leader cuts nothing, so it had that record there all through the epoch. That it was in this one when it
    acknowledged is known where an event log says so, or by what was heard of it before the send, and its answers after:
    a node's epochs never fall, and before the first there is none.
    """

    def in_it(one: Column) -> Column:
        before = (one["epoch"] == 0) | (one["from_ns"] < F.col("send.invoke_ns"))
        around = before & (one["to_ns"] > F.col("send.complete_ns"))
        return (one["end"] > F.col("ack_offset")) & F.coalesce(one["epoch"] == F.col("ack_epoch"), around)

    return F.coalesce(F.exists("told", in_it), F.lit(False))


def known_to_lead() -> Column:
    """Of a row of `by_value` with `told` of the node that acknowledged it: whether that node led in `last_epoch` or a
    later one by then, as its event log says, or an answer from before the send.
    """

    def by_then(one: Column) -> Column:
        return (one["epoch"] >= F.col("last_epoch")) & (one["from_ns"] < F.col("send.invoke_ns"))

    return F.coalesce(F.col("ack_epoch") >= F.col("last_epoch"), F.exists("told", by_then), F.lit(False))
