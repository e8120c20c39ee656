"""Versions of the znodes that the rules are about, from the transactions: partition states, brokers, controller epochs.

Grains: states one row per version of one partition's state; registrations one row per life of `/brokers/ids/N`;
epochs one row per version of `/controller_epoch`; assignments one row per (version of a topic, partition).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_STATE = r"^/brokers/topics/(.+)/partitions/(\d+)/state$"
_TOPIC = r"^/brokers/topics/([^/]+)$"
_BROKER = r"^/brokers/ids/(\d+)$"
_STATE_JSON = (
    "leader int, leader_epoch int, controller_epoch int, isr array<int>, "
    "elr struct<replicas: array<int>, isr: array<int>, leader_epoch: int>"
)


@dataclass(frozen=True, slots=True)
class Znodes:
    """generation counts creations of one znode, so that a topic made anew starts over."""

    states: DataFrame
    registrations: DataFrame
    controller_epochs: DataFrame
    assignments: DataFrame


def znode_tables(znodes: DataFrame) -> Znodes:
    return Znodes(_states(znodes), _registrations(znodes), _controller_epochs(znodes), _assignments(znodes))


def _states(znodes: DataFrame) -> DataFrame:
    """(p, generation, zxid, time_ms, session, version, leader, leader_epoch, controller_epoch, isr, eligible, previous:
    struct, led: the last broker that led before).

    eligible: replicas outside the ISR that may lead as its members may; none where the field is of another ISR.
    """
    rows = (
        znodes.where(F.col("path").rlike(_STATE))
        .select(
            F.concat_ws("-", F.regexp_extract("path", _STATE, 1), F.regexp_extract("path", _STATE, 2)).alias("p"),
            "zxid",
            "position",
            "time_ms",
            "session",
            "op",
            "version",
            F.from_json("data", _STATE_JSON).alias("state"),
        )
        .withColumn("state", F.col("state").dropFields("elr").withField("eligible", _eligible(F.col("state"))))
    )
    order = Window.partitionBy("p").orderBy("zxid", "position")
    lives = rows.withColumn("generation", F.sum((F.col("op") == "create").cast("int")).over(order)).where(
        F.col("op") != "delete"
    )
    life = Window.partitionBy("p", "generation").orderBy("zxid", "position")
    led = F.last(F.when(F.col("leader") >= 0, F.col("leader")), ignorenulls=True)
    return lives.select("p", "generation", "zxid", "position", "time_ms", "session", "version", "state.*").select(
        "*",
        F.lag(F.struct("zxid", "version", "leader", "leader_epoch", "controller_epoch", "isr", "eligible"))
        .over(life)
        .alias("previous"),
        led.over(life.rowsBetween(Window.unboundedPreceding, -1)).alias("led"),
    )


def _eligible(state: Column) -> Column:
    """A tool that rewrites leader or ISR may keep fields that it does not know: these are about the old ISR."""
    elr = state["elr"]
    valid = (elr["isr"] == state["isr"]) & (elr["leader_epoch"] == state["leader_epoch"])
    return F.when(valid, elr["replicas"]).otherwise(F.array().cast("array<int>"))


def _registrations(znodes: DataFrame) -> DataFrame:
    """(b, czxid, created_ms, dzxid, deleted_ms): dzxid null while it is still there."""
    order = Window.partitionBy("b").orderBy("zxid", "position")
    rows = znodes.where(F.col("path").rlike(_BROKER) & F.col("op").isin("create", "delete")).select(
        F.regexp_extract("path", _BROKER, 1).cast("int").alias("b"), "zxid", "position", "time_ms", "op"
    )
    return (
        rows.withColumn("next", F.lead(F.struct("op", "zxid", "time_ms")).over(order))
        .where(F.col("op") == "create")
        .select(
            "b",
            F.col("zxid").alias("czxid"),
            F.col("time_ms").alias("created_ms"),
            F.col("next.zxid").alias("dzxid"),
            F.col("next.time_ms").alias("deleted_ms"),
        )
    )


def _controller_epochs(znodes: DataFrame) -> DataFrame:
    """(zxid, time_ms, epoch, previous): every version of /controller_epoch."""
    order = Window.partitionBy("path").orderBy("zxid", "position")
    return (
        znodes.where((F.col("path") == "/controller_epoch") & (F.col("op") != "delete"))
        .withColumn("epoch", F.expr("try_cast(data as int)"))
        .select("path", "zxid", "position", "time_ms", "epoch", F.lag("epoch").over(order).alias("previous"))
    )


def _assignments(znodes: DataFrame) -> DataFrame:
    """(p, zxid, next_zxid, replicas): in force from zxid until next_zxid (null: still)."""
    rows = (
        znodes.where(F.col("path").rlike(_TOPIC) & (F.col("op") != "delete"))
        .select(
            F.regexp_extract("path", _TOPIC, 1).alias("topic"),
            "zxid",
            F.explode(F.from_json("data", "partitions map<string, array<int>>").getField("partitions")).alias(
                "partition", "replicas"
            ),
        )
        .select(F.concat_ws("-", "topic", "partition").alias("p"), "zxid", "replicas")
    )
    order = Window.partitionBy("p").orderBy("zxid")
    return rows.withColumn("next_zxid", F.lead("zxid").over(order))
