"""Frames that several families share: what is known per value and per offset of a partition.

Grains: `by_value` one row per (partition, value) that was sent or read there; `by_offset` one row per (partition,
offset) that an acknowledgement or a poll named. One shuffle each; both are cached, because nearly every checker
starts here.

*Forgiven*: an acks=1 record that nobody read, in a partition whose leader changed after its send began, or acknowledged
by a broker that had been deposed by then, unless an answer showed it to be committed (`checkers.black_box.ends_told`).
Deposed is also who leads once more and does not know yet that another one has led in between. acks=1 allows its loss;
it stays out of the version order, so that the record at its offset is no finding (counted by `lost`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.black_box.ends_told import known_to_lead, shown_committed, told_by_leader
from checkers.black_box.jumps import jumps
from checkers.evidence.unclean_elections import NONE, Unclean
from checkers.history.faults import Interruption
from checkers.history.load import History
from checkers.history.responses import known_epoch, response_log_start
from checkers.history.retention import START_WRITTEN_NS, Expiry
from checkers.history.transactions import COMMITTED, transactions_table
from checkers.spark.tables import kept, one_piece


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of every black-box family.

    expiry: what retention can have deleted in this run; None: nothing. unclean: elections that the configuration
    allows; where there are any it matters when a loss was seen, and under which leader epoch a record was written.
    settled(p, offset, acked_ns): ends of sends of which nothing else is left in the history (checkers/settled); None:
    nothing was left out of it. interruptions: when brokers stopped, stood still, were cut off or had files changed.
    lookups: whether clients looked offsets up by time, which is to be judged. start_written_ns: a log start that was
    raised on request is written down by then. ended(life): topics whose deletion was asked for
    (`history.remade.ended_lives`); None: the run's clients delete none. resends: whether a client may send a record
    again by itself that no sequence keeps from being appended twice. batches: of the nodes' files that were copied
    whole; None: not known.
    """

    history: History
    by_value: DataFrame
    by_offset: DataFrame
    expiry: Expiry | None
    unclean: Unclean
    interruptions: Sequence[Interruption] = ()
    lookups: bool = False
    start_written_ns: int = START_WRITTEN_NS
    settled: DataFrame | None = None
    ended: DataFrame | None = None
    resends: bool = False
    batches: DataFrame | None = None

    @property
    def acked(self) -> DataFrame:
        """Rows of by_value that a response acknowledged, without the forgiven ones."""
        return self.by_value.where(F.col("acked") & ~F.col("forgiven"))


def build_facts(
    history: History,
    leader_changes: DataFrame,
    *,
    expiry: Expiry | None,
    unclean: Unclean = NONE,
    events: DataFrame | None = None,
    interruptions: Sequence[Interruption] = (),
    lookups: bool = False,
    start_written_ns: int = START_WRITTEN_NS,
    settled: DataFrame | None = None,
    ended: DataFrame | None = None,
    resends: bool = False,
    batches: DataFrame | None = None,
) -> Facts:
    """leader_changes: of each partition that saw one (`history.schema.LEADER_CHANGE`). events: brokers' event logs."""
    acks = ack_epochs(history, events) if unclean and events is not None else None
    by_value = kept(value_facts(history, leader_changes, acks))
    by_offset = kept(offset_facts(by_value, history))
    return Facts(
        history,
        by_value,
        by_offset,
        expiry,
        unclean,
        interruptions,
        lookups,
        start_written_ns,
        settled,
        ended,
        resends,
        batches,
    )


def expired(facts: Facts, rows: DataFrame) -> DataFrame:
    """rows(p, offset, sent_ns, …) with `expired`: whether a response had a log start above the record, or a real client
    had passed over it to where the log began, when retention can have deleted it.

    The first such response since the record's send was begun counts; later ones may only repeat it. A response from
    before the send is about another record that had the offset, and then only the last response with the same start is
    known to be about this one.
    """
    if facts.expiry is None:
        return rows.withColumn("expired", F.lit(False))
    starts = (
        facts.history.requests.where(F.col("outcome") == "ok")
        .withColumn("log_start", response_log_start())
        .where(F.col("log_start") > 0)
        .select("p", F.lit(0).alias("since"), "log_start", "complete_ns")
        .unionByName(jumps(facts.history).select("p", "since", "log_start", "complete_ns"))
        .transform(one_piece)
        .groupBy("p", "since", "log_start")
        .agg(F.min("complete_ns").alias("first_ns"), F.max("complete_ns").alias("last_ns"))
        .groupBy("p")
        .agg(F.collect_list(F.struct("since", "log_start", "first_ns", "last_ns")).alias("starts"))
    )
    sent_ns = F.coalesce("sent_ns", F.lit(0))
    above = F.filter(
        "starts", lambda start: (start["log_start"] > F.col("offset")) & (start["since"] <= F.col("offset"))
    )
    deletions = F.transform(
        above,
        lambda start: F.when(start["first_ns"] >= sent_ns, start["first_ns"]).when(
            start["last_ns"] >= sent_ns, start["last_ns"]
        ),
    )
    gone = (
        rows.join(F.broadcast(starts), on="p", how="left").withColumn("gone_ns", F.array_min(deletions)).drop("starts")
    )
    return with_expired(facts.expiry, gone, facts.history, reused=bool(facts.unclean)).drop("gone_ns")


def undeleted(facts: Facts) -> str:
    """Why nothing has deleted a record that is not `expired`."""
    if facts.expiry is None:
        return "and nothing was configured to delete it"
    return f"and {deleter(facts)} cannot have deleted it by then"


def deleter(facts: Facts) -> str:
    """What can have deleted records in a run in which anything can."""
    return "retention or a request" if facts.expiry is not None and facts.expiry.requested else "retention"


def ack_epochs(history: History, events: DataFrame) -> DataFrame:
    """(op, ack_epoch): the leader epoch in which a send was acknowledged, by its leader's event log.

    Offsets are given again after a loss, and by two leaders at once where one was deposed: the line was written by the
    broker that got the request, while the request was in flight.
    """
    sent = history.ops.where(
        (F.col("f") == "send") & (F.col("outcome") == "ok") & F.col("base_offset").isNotNull()
    ).select("op", "p", "node", F.col("base_offset").alias("base"), "invoke_ns", "complete_ns")
    acks = events.where(F.col("e") == "ack").select("p", "node", "base", "le", "t_ns")
    return (
        sent.join(acks, on=["p", "node", "base"], how="inner")
        .where(F.col("t_ns").between(F.col("invoke_ns"), F.col("complete_ns")))
        .groupBy("op")
        .agg(F.min("le").alias("ack_epoch"))
    )


_OF_RESPONSE = ("invoke_ns", "complete_ns", "offset", "node", "in_order")


def in_log() -> Column:
    """Outcome of a row of `sends`: a request that is refused because the log has its batch leaves open where."""
    return F.when(F.col("error") == "DUPLICATE_SEQUENCE_NUMBER", F.lit("info")).otherwise(F.col("outcome"))


def one_send() -> Column:
    """Of the requests that sent a batch, first and again, one send (an aggregate of `send`).

    It was begun by the first of them, acknowledged by the first response that was ok, which says where (`ack_op`: that
    request), and certainly failed only if each of them did.
    """
    first = F.min("send")
    by_response = F.struct("send.complete_ns", "send.offset", "send.node", "send.op")
    acked = F.min(F.when((F.col("send.outcome") == "ok") & F.col("send.offset").isNotNull(), by_response))
    whole = F.struct(
        first["op"].alias("op"),
        first["process"].alias("process"),
        # In the order of their names: ok above info above fail.
        F.max("send.outcome").alias("outcome"),
        first["acks"].alias("acks"),
        first["sentinel"].alias("sentinel"),
        first["nth"].alias("nth"),
        first["of"].alias("of"),
        first["reader"].alias("reader"),
        first["invoke_ns"].alias("invoke_ns"),
        first["in_order"].alias("in_order"),
        F.coalesce(acked["complete_ns"], F.max("send.complete_ns")).alias("complete_ns"),
        acked["offset"].alias("offset"),
        F.coalesce(acked["node"], first["node"]).alias("node"),
        acked["op"].alias("ack_op"),
    )
    return F.when(F.count("send") > 0, whole)


def _sent_and_read(history: History) -> DataFrame:
    """One row per value of a request that sent it, with `send`, and one per record that a poll returned, without."""
    fates = transactions_table(history).select("txn", "fate")
    sent = history.sends.join(fates, on="txn", how="left").select(
        "p",
        "value",
        F.struct(
            "op", "process", in_log().alias("outcome"), "acks", "sentinel", "nth", "of", "reader", *_OF_RESPONSE
        ).alias("send"),
        F.coalesce("resends", "op").alias("batch"),
        "txn",
        "fate",
        "source",
        F.lit(None).cast("int").alias("isolation"),
        F.lit(None).cast("bigint").alias("read_offset"),
        F.lit(None).cast("bigint").alias("read_complete_ns"),
        F.lit(None).cast("bigint").alias("read_op"),
        F.lit(None).cast("boolean").alias("intact"),
        F.lit(None).cast("int").alias("stamped"),
    )
    read = history.polls.select(
        "p",
        "value",
        F.lit(None).cast(sent.schema["send"].dataType).alias("send"),
        F.lit(None).cast("bigint").alias("batch"),
        F.lit(None).cast("bigint").alias("txn"),
        F.lit(None).cast("string").alias("fate"),
        F.lit(None).cast("bigint").alias("source"),
        "isolation",
        F.col("offset").alias("read_offset"),
        F.col("complete_ns").alias("read_complete_ns"),
        F.col("op").alias("read_op"),
        "intact",
        stamped().alias("stamped"),
    )
    return sent.unionByName(read)


def value_facts(history: History, leader_changes: DataFrame, acks: DataFrame | None = None) -> DataFrame:
    """One row per (p, value): how it was sent, how often, where and when it was read.

    send: of all requests with its batch, see `one_send`. acked: an ok response had its offset (`ack_offset`).
    known_offset: the acknowledged offset, else the lowest read.
    effective_ns: the earliest instant at which it certainly was in the log (its acknowledgement or its first read).
    epoch: the leader epoch under which it was written, where a response or `acks` (see `ack_epochs`) says. fate: what
    became of its transaction, null for what was sent in none. n_committed_reads: how often read_committed showed it.
    first_place, last_place: struct(batch, nth), the first requests of two batches with it, and its places there; one
    place where it was sent in one batch only, and once in that.
    shown_committed: whether an answer of the leader that acknowledged it had a watermark above it.
    """
    sent, place = F.col("batch").isNotNull(), F.struct("batch", F.col("send.nth").alias("nth"))
    grouped = (
        _sent_and_read(history)
        .transform(one_piece)
        .groupBy("p", "value")
        .agg(
            one_send().alias("send"),
            F.count("send").alias("n_sends"),
            F.min(F.when(sent, place)).alias("first_place"),
            F.max(F.when(sent, place)).alias("last_place"),
            F.min("txn").alias("txn"),
            F.min("fate").alias("fate"),
            F.min("source").alias("source"),
            F.count("read_op").alias("n_reads"),
            F.count_if(F.col("isolation") == 1).alias("n_committed_reads"),
            F.min("read_offset").alias("min_read_offset"),
            F.max("read_offset").alias("max_read_offset"),
            F.min("read_complete_ns").alias("first_read_ns"),
            F.min(F.struct("read_complete_ns", "read_op")).alias("first_read"),
            F.max(F.struct("read_offset", "read_op")).alias("highest_read"),
            F.min("intact").alias("all_intact"),
            F.min("stamped").alias("read_epoch"),
        )
    )
    if acks is None:
        grouped = grouped.withColumn("ack_epoch", F.lit(None).cast("int"))
    else:
        sent_op = acks.withColumnRenamed("op", "sent_op")
        grouped = grouped.join(sent_op, on=F.col("send.ack_op") == F.col("sent_op"), how="left").drop("sent_op")
    acked = (F.col("send.outcome") == "ok") & F.col("send.offset").isNotNull()
    # The leader before the last change may not know of it yet, and still acknowledge; so may one that leads once more.
    # Of a real client nobody knows which one it was.
    another = F.coalesce(F.col("last_leader") != F.col("send.node"), F.lit(True))
    deposed = F.col("changed_ns").isNotNull() & (another | (F.col("returned") & ~known_to_lead()))
    return (
        grouped.join(
            F.broadcast(leader_changes.withColumnsRenamed({"leader": "last_leader", "epoch": "last_epoch"})),
            on="p",
            how="left",
        )
        .select(
            "*",
            F.coalesce(acked, F.lit(False)).alias("acked"),
            F.when(acked, F.col("send.offset")).alias("ack_offset"),
        )
        .withColumn("epoch", F.coalesce("ack_epoch", "read_epoch"))
        .withColumn("known_offset", F.coalesce("ack_offset", "min_read_offset"))
        .withColumn("effective_ns", F.least(F.when(F.col("acked"), F.col("send.complete_ns")), F.col("first_read_ns")))
        .join(
            F.broadcast(told_by_leader(history)),
            on=[F.col("p") == F.col("told_p"), F.col("send.node") == F.col("told_node")],
            how="left",
        )
        .withColumn("shown_committed", shown_committed())
        .withColumn(
            "forgiven",
            F.col("acked")
            & (F.col("send.acks") != -1)
            & (F.col("n_reads") == 0)
            & ~F.col("shown_committed")
            & F.coalesce((F.col("changed_ns") >= F.col("send.invoke_ns")) | deposed, F.lit(False)),
        )
        .drop("changed_ns", "last_leader", "last_epoch", "returned", "told_p", "told_node", "told")
    )


def stamped() -> Column:
    """The leader epoch in a record's batch; the real client does not report it."""
    return known_epoch(F.col("epoch"))


def seen_in() -> Column:
    """Of a row of `polls`: the highest leader epoch that is known to have had the record there: that of the leader that
    showed it, or wrote it; null where neither is known.
    """
    return F.greatest(stamped(), known_epoch(F.col("leader_epoch")))


def may_come_back() -> Column:
    """Of a row of `by_value`: acks=1 confirmed it, and it was read, where it was said to be: perhaps long after."""
    there = F.col("ack_offset").between(F.col("min_read_offset"), F.col("max_read_offset"))
    return F.coalesce((F.col("send.acks") != -1) & there, F.lit(False))


def decided() -> Column:
    """Of a row of `by_value`: whether readers of committed records are shown it: it is of no transaction, or of one
    that was committed.
    """
    return F.col("fate").isNull() | (F.col("fate") == COMMITTED)


def offset_facts(by_value: DataFrame, history: History) -> DataFrame:
    """One row per (p, offset): the values named there, and whether and when it was first read.

    shown: whether a poll under read_committed must return it: another one did, or it was read and is of no transaction.
    """
    of_transactions = by_value.where(F.col("fate").isNotNull() & F.col("value").isNotNull()).select(
        "p", F.col("value").alias("min_value"), F.lit(True).alias("transactional")
    )
    acked = by_value.where(F.col("acked") & ~F.col("forgiven") & F.col("value").isNotNull()).select(
        "p",
        F.col("ack_offset").alias("offset"),
        "value",
        F.col("send.op").alias("op"),
        F.col("send.complete_ns").alias("complete_ns"),
        F.lit(False).alias("is_read"),
        F.lit(0).alias("isolation"),
    )
    read = history.polls.select("p", "offset", "value", "op", "complete_ns", F.lit(True).alias("is_read"), "isolation")
    named = F.col("value").isNotNull()
    return (
        acked.unionByName(read)
        .transform(one_piece)
        .groupBy("p", "offset")
        .agg(
            F.min("value").alias("min_value"),
            F.max("value").alias("max_value"),
            F.min(F.when(named, F.struct("value", "op"))).alias("low"),
            F.max("is_read").alias("is_read"),
            F.max("isolation").alias("isolation"),
            F.min(F.when(F.col("is_read"), F.col("complete_ns"))).alias("first_read_ns"),
        )
        .join(of_transactions, on=["p", "min_value"], how="left")
        .withColumn("shown", F.col("is_read") & (F.col("transactional").isNull() | (F.col("isolation") == 1)))
        .drop("transactional", "isolation")
    )
