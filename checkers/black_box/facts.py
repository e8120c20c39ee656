"""Frames that several families share: what is known per value and per offset of a partition.

Grains: `by_value` one row per (partition, value) that was sent or read there; `by_offset` one row per (partition,
offset) that an acknowledgement or a poll named. One shuffle each; both are cached, because nearly every checker
starts here.

*Forgiven*: an acks=1 record that nobody read, in a partition whose leader changed. Its loss is what acks=1 allows; it
stays out of the version order, so that the record which took its offset is not held against the broker (counted by
`lost`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.load_history import History


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of every black-box family. `leader_changed`: partitions (column `p`) whose leader epoch moved."""

    history: History
    by_value: DataFrame
    by_offset: DataFrame
    retention: bool


def build_facts(history: History, leader_changed: DataFrame, *, retention: bool) -> Facts:
    """leader_changed(p): one row per partition that saw a leader change, by whatever evidence there is."""
    by_value = value_facts(history, leader_changed).persist(StorageLevel.MEMORY_AND_DISK)
    by_offset = offset_facts(by_value, history).persist(StorageLevel.MEMORY_AND_DISK)
    return Facts(history, by_value, by_offset, retention)


def value_facts(history: History, leader_changed: DataFrame) -> DataFrame:
    """One row per (p, value): how it was sent, how often, where and when it was read.

    acked: an ok answer named its offset (`ack_offset`). known_offset: the acknowledged offset, else the lowest read.
    effective_ns: the earliest instant at which it certainly was in the log (its acknowledgement or its first read).
    """
    sent = history.sends.select(
        "p",
        "value",
        F.struct("op", "process", "outcome", "acks", "sentinel", "invoke_ns", "complete_ns", "offset").alias("send"),
        F.lit(None).cast("bigint").alias("read_offset"),
        F.lit(None).cast("bigint").alias("read_complete_ns"),
        F.lit(None).cast("bigint").alias("read_op"),
        F.lit(None).cast("boolean").alias("intact"),
    )
    read = history.polls.select(
        "p",
        "value",
        F.lit(None).cast(sent.schema["send"].dataType).alias("send"),
        F.col("offset").alias("read_offset"),
        F.col("complete_ns").alias("read_complete_ns"),
        F.col("op").alias("read_op"),
        "intact",
    )
    grouped = (
        sent.unionByName(read)
        .groupBy("p", "value")
        .agg(
            F.min("send").alias("send"),
            F.count("send").alias("n_sends"),
            F.count("read_op").alias("n_reads"),
            F.min("read_offset").alias("min_read_offset"),
            F.max("read_offset").alias("max_read_offset"),
            F.min("read_complete_ns").alias("first_read_ns"),
            F.min(F.struct("read_complete_ns", "read_op")).alias("first_read"),
            F.max(F.struct("read_offset", "read_op")).alias("highest_read"),
            F.min("intact").alias("all_intact"),
        )
    )
    acked = (F.col("send.outcome") == "ok") & F.col("send.offset").isNotNull()
    return (
        grouped.join(leader_changed.select("p", F.lit(True).alias("leader_changed")), on="p", how="left")
        .select(
            "*",
            F.coalesce(acked, F.lit(False)).alias("acked"),
            F.when(acked, F.col("send.offset")).alias("ack_offset"),
        )
        .withColumn("known_offset", F.coalesce("ack_offset", "min_read_offset"))
        .withColumn("effective_ns", F.least(F.when(F.col("acked"), F.col("send.complete_ns")), F.col("first_read_ns")))
        .withColumn(
            "forgiven",
            F.col("acked")
            & (F.col("send.acks") != -1)
            & (F.col("n_reads") == 0)
            & F.coalesce("leader_changed", F.lit(False)),
        )
    )


def offset_facts(by_value: DataFrame, history: History) -> DataFrame:
    """One row per (p, offset): the values named there, and whether and when it was first read."""
    acked = by_value.where(F.col("acked") & ~F.col("forgiven") & F.col("value").isNotNull()).select(
        "p",
        F.col("ack_offset").alias("offset"),
        "value",
        F.col("send.op").alias("op"),
        F.col("send.invoke_ns").alias("invoke_ns"),
        F.col("send.complete_ns").alias("complete_ns"),
        F.lit(False).alias("is_read"),
    )
    read = history.polls.select("p", "offset", "value", "op", "invoke_ns", "complete_ns", F.lit(True).alias("is_read"))
    named = F.col("value").isNotNull()
    return (
        acked.unionByName(read)
        .groupBy("p", "offset")
        .agg(
            F.min("value").alias("min_value"),
            F.max("value").alias("max_value"),
            F.min(F.when(named, F.struct("value", "op"))).alias("low"),
            F.max(F.when(named, F.struct("value", "op"))).alias("high"),
            F.max("is_read").alias("is_read"),
            F.min(F.when(F.col("is_read"), F.col("complete_ns"))).alias("first_read_ns"),
            F.min("invoke_ns").alias("from_ns"),
            F.max("complete_ns").alias("to_ns"),
        )
    )
