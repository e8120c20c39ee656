"""Lines of a history → tables of operations: ops, sends, requests, polls, deletions, marks; the rest is `applications`.

Decides what an operation is: an invocation joined to its completion, `info` when it has none. Judges nothing. Grains:
ops one row per client operation; sends one per value; requests one per read, with or without a response, *an empty poll
has its row*; polls one per record returned; deletions one per delete_records; coordination one per operation of a
producer's, transaction's or group's coordinator, or of an administrator; processed one per value that an application
processed; marks one per nemesis or harness line.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history import schema
from checkers.history.health import who

ASKED = (
    *("transactional_id", "txn", "producer_id", "producer_epoch", "sequence", "resends", "sources", "commit"),
    *("group", "member", "instance", "generation", "protocol", "rebalance", "partitions", "offsets"),
    *("session_ms", "rebalance_ms", "config", "setting", "count", "topic_id"),
)
ANSWERED = (
    *("producer_id", "producer_epoch", "member", "generation", "leader", "protocol", "partitions", "offsets"),
    *("setting", "count", "topic_id"),
)
"""Fields of an invocation, and of its completion, that stand in the structs `asked` and `answered`."""


MOST_OFFSET = 1 << 62
"""An offset beyond it, of whichever sign, is taken for this one: so far no log reaches, and rules reckon with it."""


def told(offset: Column) -> Column:
    """An offset as somebody told it, which may be any number."""
    return F.when(offset > MOST_OFFSET, MOST_OFFSET).when(offset < -MOST_OFFSET, -MOST_OFFSET).otherwise(offset)


def named_topic() -> Column:
    """Of a line: its topic as partitions' names have it. Of one that is made anew each life is a topic of its own:
    `topic~id`. `~` is in no topic's name.
    """
    return F.concat_ws("~", "topic", "topic_id")


def joined_operations(raw: DataFrame) -> DataFrame:
    """One row per client invocation, with its completion's response; `outcome` is info where there is none."""
    client = raw.where(F.col("kind") == "client")
    invokes = client.where(F.col("type") == "invoke").select(
        F.col("index").alias("op"),
        "f",
        "process",
        "phase",
        F.concat_ws("-", named_topic(), "partition").alias("p"),
        "topic",
        "partition",
        "node",
        F.col("time_ns").alias("invoke_ns"),
        "values",
        "acks",
        F.coalesce("sentinel", F.lit(False)).alias("sentinel"),
        told(F.col("position")).alias("position"),
        F.coalesce("leader_epoch", F.lit(-1)).alias("leader_epoch"),
        F.coalesce("isolation", F.lit(0)).alias("isolation"),
        "reader",
        "consumer",
        told(F.col("client_position")).alias("client_position"),
        "timestamp",
        F.struct(*ASKED).alias("asked"),
        "promise",
        "keys",
        "tombstones",
        "in_order",
        told(F.col("before")).alias("before"),
    )
    completions = client.where(F.col("type") != "invoke").select(
        F.col("invoke").alias("op"),
        F.col("index").alias("completion"),
        who().alias("completion_of"),
        F.col("type").alias("completed_as"),
        F.col("time_ns").alias("complete_ns"),
        "error",
        # An answer of -1 names no offset.
        F.when(F.col("base_offset") >= 0, told(F.col("base_offset"))).alias("base_offset"),
        *[told(F.col(name)).alias(name) for name in ("next_position", "hw", "lso", "log_start")],
        "records",
        told(F.col("offset")).alias("end_offset"),
        "leader_epoch_answered",
        "timestamp_answered",
        told(F.col("low_watermark")).alias("low_watermark"),
        F.struct(*ANSWERED).alias("answered"),
    )
    return invokes.join(completions, on="op", how="left").withColumn(
        "outcome", F.coalesce("completed_as", F.lit("info"))
    )


def ops_table(operations: DataFrame) -> DataFrame:
    """One row per client operation, without its values and records."""
    return operations.select(
        "op",
        "f",
        "process",
        "phase",
        "p",
        "node",
        "invoke_ns",
        "complete_ns",
        "outcome",
        "error",
        "acks",
        "sentinel",
        F.coalesce(F.size("values"), F.lit(0)).alias("n_values"),
        "base_offset",
    )


def sends_table(operations: DataFrame) -> DataFrame:
    """One row per value sent, the `nth` of so many (`of`); `offset` is null where the response had none (info, fail,
    acks=0).
    """
    return (
        operations.where(F.col("f") == "send")
        .select("*", F.posexplode("values").alias("nth", "value"))
        .select(
            "op",
            "process",
            "phase",
            "p",
            "node",
            "value",
            "nth",
            F.size("values").alias("of"),
            "reader",
            F.when(F.col("outcome") == "ok", F.col("base_offset") + F.col("nth")).alias("offset"),
            "acks",
            "sentinel",
            "outcome",
            "error",
            "invoke_ns",
            "complete_ns",
            *_of_producer(),
            F.get("asked.sources", F.col("nth")).alias("source"),
            F.get("keys", F.col("nth")).alias("key"),
            F.col("timestamp").alias("stamp"),
            F.coalesce(F.get("tombstones", F.col("nth")), F.lit(False)).alias("tombstone"),
            # KIP-98: what an idempotent producer has under way stands in the order of its sequences.
            (F.coalesce("in_order", F.lit(False)) | F.col("asked.producer_id").isNotNull()).alias("in_order"),
        )
    )


def _of_producer() -> list[Column]:
    """transactional_id, txn, producer_id, producer_epoch, sequence, resends of a send; null for plain ones."""
    names = ("transactional_id", "txn", "producer_id", "producer_epoch", "sequence", "resends")
    return [F.col(f"asked.{name}").alias(name) for name in names]


def requests_table(operations: DataFrame) -> DataFrame:
    """One row per poll or list_offsets. `in_range`: distinct offsets returned inside [position, next_position).
    `epochs_ascend`, `highest_epoch`: of the leader epochs that its records have, where they are known.
    """
    offsets = F.transform(
        F.coalesce("records", F.array().cast(schema.HISTORY_LINE["records"].dataType)), lambda r: told(r.offset)
    )
    inside = F.filter(F.array_distinct("offsets"), lambda o: (o >= F.col("position")) & (o < F.col("next_position")))
    epochs = F.filter(F.transform("records", lambda r: r.epoch), lambda epoch: epoch >= 0)
    return (
        operations.where(F.col("f").isin("poll", "list_offsets"))
        .withColumn("offsets", offsets)
        .withColumn("epochs", epochs)
        .select(
            "op",
            "f",
            "process",
            "phase",
            "p",
            "node",
            "reader",
            "consumer",
            "client_position",
            "isolation",
            "leader_epoch",
            "position",
            "next_position",
            "hw",
            "lso",
            "log_start",
            "timestamp",
            "end_offset",
            "leader_epoch_answered",
            "timestamp_answered",
            "outcome",
            "error",
            "invoke_ns",
            "complete_ns",
            F.size("offsets").alias("returned"),
            F.size(inside).alias("in_range"),
            F.array_min("offsets").alias("first_offset"),
            F.array_max("offsets").alias("last_offset"),
            (F.col("offsets") == F.array_sort(F.array_distinct("offsets"))).alias("ascending"),
            F.coalesce(F.col("epochs") == F.array_sort("epochs"), F.lit(True)).alias("epochs_ascend"),
            F.array_max("epochs").alias("highest_epoch"),
            *_of_member(),
        )
    )


def _of_member() -> list[Column]:
    """group, member, generation, txn of a poll; null where it was of no group, in no transaction."""
    return [F.col(f"asked.{name}").alias(name) for name in ("group", "member", "generation", "txn")]


def polls_table(operations: DataFrame) -> DataFrame:
    """One row per record that a poll returned; `intact` false where the record contradicts itself."""
    return (
        operations.where((F.col("f") == "poll") & (F.col("outcome") == "ok"))
        .select("*", F.posexplode("records").alias("nth", "record"))
        .select(
            "op",
            "process",
            "phase",
            "p",
            "node",
            "reader",
            "consumer",
            "isolation",
            "leader_epoch",
            "nth",
            told(F.col("record.offset")).alias("offset"),
            F.col("record.value").alias("value"),
            F.col("record.epoch").alias("epoch"),
            F.coalesce("record.intact", F.lit(False)).alias("intact"),
            "invoke_ns",
            "complete_ns",
            *_of_member(),
        )
    )


def deletions_table(operations: DataFrame) -> DataFrame:
    """One row per delete_records of a partition, with or without a response."""
    return operations.where(F.col("f") == "delete_records").select(
        "op", "phase", "p", "node", "before", "low_watermark", "outcome", "error", "invoke_ns", "complete_ns"
    )


def marks_table(raw: DataFrame) -> DataFrame:
    """One row per line that is no client's: faults, phases, drains, evidence, leadership."""
    return raw.where(F.col("kind") != "client").select(
        "index",
        "kind",
        "f",
        "phase",
        "time_ns",
        F.when(F.col("partition").isNotNull(), F.concat_ws("-", named_topic(), "partition")).alias("p"),
        "node",
        "error",
        "fault",
        "fault_id",
        "targets",
        "params_json",
        F.coalesce("observed", F.lit(False)).alias("observed"),
        "observation",
        "began_ns",
        "file",
        "family",
        "effects",
        "reader",
        F.coalesce("isolation", F.lit(0)).alias("isolation"),
        "leader",
        "start",
        "end",
        "epoch",
        "isr",
    )
