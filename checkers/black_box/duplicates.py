"""One value at two offsets, and whose doing that is: a broker's, or the client's that sent it twice.

Input grain: one row per value of a partition that stands at two offsets. A broker's, by default. Not where a real
client may have sent it twice by itself, and what is known of the copies says so:

- librdkafka without idempotence, for an acks=all: a leader that is deposed while it waits for its followers answers
  with an error that librdkafka takes for one of before the append. The copies are of different leader epochs.
- an idempotent producer that gave a record up, or was refused, goes on under another epoch, and numbers anew what it
  has not heard of, in every partition: a record that is in the log, but whose response was lost, goes out as a new one
  (KIP-360; librdkafka's rd_kafka_idemp_drain_epoch_bump and rd_kafka_toppar_pid_change, and its issue 4953).
  Idempotence is promised within one epoch of a producer. The copies are of different ones, by the nodes' files; where
  both are of one, a broker appended it twice. In a transaction such a producer has to abort first.

Where it is not known of which the copies are, it is not decided. Nor is anything of a value that was sent in two
batches of a partition, neither of which says that it repeats the other, or twice in one: whose record is read, nobody
knows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, stamped
from checkers.history.resends import numbered_anew, sent_by_itself
from checkers.verdicts.findings import Rule, apply_rules, text, union
from checkers.verdicts.verdict import SENT_TWICE

DUPLICATE = "duplicate"
RESENT = "resent"
"""Rule of `duplicate` that an unclean election can account for."""
BY_CLIENT = "by-client"
"""Rule of `duplicate` of what a client sent again by itself, as it may; findings of it are allowed, or not decided."""


def duplicates(facts: Facts) -> DataFrame:
    """Values at two offsets. `resent`: of a batch that was sent again, whose first place nobody read once another read
    it elsewhere: what was lost by an unclean election may have been appended once more.
    """
    low = F.least("min_read_offset", "ack_offset")
    high = F.greatest("max_read_offset", "ack_offset")
    rows = facts.by_value.where(F.col("value").isNotNull() & (low != high) & ~_sent_twice())
    again_ns, name, kind = F.col("first_read_ns"), F.lit(""), F.lit("invalid")
    if facts.unclean:
        rows = rows.join(_places(facts, rows), on=["p", "value"], how="left")
        parted = F.coalesce((F.col("places") == 1) | ((F.col("places") == 2) & F.col("in_turn")), F.lit(False))
        again_ns = F.coalesce("again_ns", "first_read_ns")
        name = F.when((F.col("n_sends") > 1) & parted, F.lit(RESENT)).otherwise(F.lit(""))
    if facts.resends:
        rows = rows.join(_copies(facts, rows), on=["p", "value"], how="left")
        all_read = F.coalesce(F.col("ack_read"), F.col("ack_offset").isNull())
        ways = ((sent_by_itself("send."), "led", "leaderships"), (numbered_anew("send."), "written", "writers"))
        for may, known, epochs in ways:
            whole = all_read & F.coalesce(F.col(known) == F.col("copies"), F.lit(False))
            apart = whole & (F.col(epochs) == F.col("copies"))
            name = F.when(may & (apart | ~whole), F.lit(BY_CLIENT)).otherwise(name)
            kind = F.when(may & apart, F.lit("allowed")).when(may & ~whole, F.lit("unknown")).otherwise(kind)
    sent = apply_rules(facts.by_value.where(F.col("value").isNotNull()), [_nobody_knows_whose()])
    copies = apply_rules(
        rows,
        [
            Rule(
                DUPLICATE,
                F.lit(True),
                text("value {v} stands at {p} offsets {a} and {b}", v=F.col("value"), p=F.col("p"), a=low, b=high),
                kind=kind,
                name=name,
                offset=high,
                value=F.col("value"),
                ops=[F.col("send.op"), F.col("first_read.read_op"), F.col("highest_read.read_op")],
                from_ns=F.coalesce("send.invoke_ns", "first_read_ns"),
                to_ns=F.greatest(again_ns, F.col("send.complete_ns")),
                lost_epoch=F.col("epoch"),
            )
        ],
    )
    return union([sent, copies])


def _sent_twice() -> Column:
    """Of a row of `by_value`: in two batches, neither of which repeats the other, or twice in one."""
    return F.coalesce(F.col("first_place") != F.col("last_place"), F.lit(False))


def _nobody_knows_whose() -> Rule:
    one_batch = F.col("first_place.batch") == F.col("last_place.batch")
    how = F.when(one_batch, F.lit("in one send")).otherwise(F.lit("and neither send says that it repeats the other"))
    return Rule(
        DUPLICATE,
        _sent_twice(),
        text(
            "value {v} was sent to {p} twice, {h}: whose record it is that stands there, nobody knows",
            v=F.col("value"),
            p=F.col("p"),
            h=how,
        ),
        kind="unknown",
        name=SENT_TWICE,
        offset=F.col("known_offset"),
        value=F.col("value"),
        ops=[F.col("first_place.batch"), F.when(~one_batch, F.col("last_place.batch"))],
        from_ns=F.col("send.invoke_ns"),
        to_ns=F.col("effective_ns"),
    )


def copied(facts: Facts, *, committed: bool = False) -> DataFrame:
    """(p, value, copies): at how many offsets a value was read, where at several; committed: under read_committed. That
    is the log's doing, or the producer's, which `duplicate` judges; who reads it may go by each of them.
    """
    several = facts.by_value.where(F.col("min_read_offset") < F.col("max_read_offset")).select("p", "value")
    polls = facts.history.polls.where(F.col("isolation") == 1) if committed else facts.history.polls
    return (
        polls.join(F.broadcast(several), on=["p", "value"], how="left_semi")
        .groupBy("p", "value")
        .agg(F.count_distinct("offset").alias("copies"))
    )


def _copies(facts: Facts, rows: DataFrame) -> DataFrame:
    """(p, value, copies, led, leaderships, written, writers, ack_read): at how many offsets it was read; of how many of
    them it is known in which leader epoch that was written, and in how many epochs; the same of producers' epochs;
    whether one of them is where it was acknowledged, null where that was nowhere.
    """
    copies = (
        facts.history.polls.join(F.broadcast(rows.select("p", "value", "ack_offset")), on=["p", "value"], how="inner")
        .groupBy("p", "value", "offset")
        .agg(F.max(stamped()).alias("led"), (F.col("offset") == F.first("ack_offset")).alias("acked"))
    )
    if facts.batches is None:
        copies = copies.withColumn("writer", F.lit(None).cast("bigint"))
    else:
        copies = copies.join(_writers(facts.batches, rows), on=["p", "offset"], how="left")
    return copies.groupBy("p", "value").agg(
        F.count(F.lit(1)).alias("copies"),
        F.count("led").alias("led"),
        F.count_distinct("led").alias("leaderships"),
        F.count("writer").alias("written"),
        F.count_distinct("writer").alias("writers"),
        F.bool_or("acked").alias("ack_read"),
    )


def _writers(batches: DataFrame, rows: DataFrame) -> DataFrame:
    """(p, offset, writer): which producer, in which epoch, wrote what stands there on every replica that has it, in the
    partitions of these rows; null where replicas differ.
    """
    sound = F.col("problem").isNull() & F.coalesce("crc_ok", F.lit(False)) & ~F.coalesce("control", F.lit(False))
    # A batch without gaps: none has more offsets than it holds records.
    sound = sound & (F.col("producer_id") >= 0) & (F.col("records") == F.col("last") - F.col("base") + 1)
    who = F.struct("producer_id", "producer_epoch")
    return (
        batches.where(sound)
        .join(F.broadcast(rows.select("p").distinct()), on="p", how="left_semi")
        .select("p", F.explode(F.sequence("base", "last")).alias("offset"), who.alias("who"))
        .groupBy("p", "offset")
        .agg(F.when(F.min("who") == F.max("who"), F.min("who")).alias("writer"))
    )


def _places(facts: Facts, rows: DataFrame) -> DataFrame:
    """(p, value, places, in_turn, again_ns): at how many offsets the value was read; whether the reads at one were over
    before those at the other began; when those began.
    """
    reads = (
        facts.history.polls.join(F.broadcast(rows.select("p", "value")), on=["p", "value"], how="left_semi")
        .groupBy("p", "value", "offset")
        .agg(F.min("invoke_ns").alias("begun_ns"), F.max("complete_ns").alias("over_ns"))
    )
    return reads.groupBy("p", "value").agg(
        F.count(F.lit(1)).alias("places"),
        (F.min("over_ns") < F.max("begun_ns")).alias("in_turn"),
        F.max("begun_ns").alias("again_ns"),
    )
