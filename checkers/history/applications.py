"""What applications, coordinators and administrators did: the tables `coordination` and `processed` of a history."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

COORDINATION = (
    *("init_producer", "add_partitions", "add_offsets", "txn_offsets", "end_txn"),
    *("join", "sync", "heartbeat", "leave", "commit_offsets", "fetch_offsets"),
    *("assign", "revoke", "lost"),
    *("alter_config", "describe_config", "create_partitions", "count_partitions"),
    *("create_topic", "delete_topic", "describe_topic"),
)
"""Operations that are rows of `coordination`."""


def coordination_table(operations: DataFrame) -> DataFrame:
    """One row per operation of COORDINATION. asked, answered: fields of its invocation and of its completion."""
    return operations.where(F.col("f").isin(*COORDINATION)).select(
        "op",
        "f",
        "process",
        "phase",
        "topic",
        "node",
        "reader",
        "consumer",
        "outcome",
        "error",
        "invoke_ns",
        "complete_ns",
        "asked",
        "answered",
    )


def processed_table(operations: DataFrame) -> DataFrame:
    """One row per value and `process` operation. promise: of its application."""
    return operations.where(F.col("f") == "process").select(
        "op",
        "p",
        F.col("asked.group").alias("group"),
        F.col("asked.member").alias("member"),
        "promise",
        "invoke_ns",
        "complete_ns",
        F.explode("values").alias("value"),
    )
