"""Topics that are deleted and made anew under their names: their lives, and which of them a send may have gone to.

A life is known by its topic's id, and partitions of different lives have different names (`tables.named_topic`). Reads
go by id. A send goes by name: to the life that its line names, which was there when it was invoked, or to a later one.
The line is of the former where the life's deletion had not been asked for when the send was acknowledged: the next one
is made after that. Every other send, but one that certainly failed, may be in that life, in the next, or in a later
one, and what its answer said is of no life that is known: it becomes an unanswered send of each.

Source: docs/history-format.md; KIP-516 (topic ids), of which Produce requests have none before Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

MADE, ENDED, TOLD = "create_topic", "delete_topic", "describe_topic"

_FOLLOWING = T.StructType(
    [
        T.StructField("of_topic", T.StringType()),
        T.StructField("of_id", T.StringType()),
        T.StructField("ended_ns", T.LongType()),
        T.StructField(
            "later",
            T.ArrayType(T.StructType([T.StructField("id", T.StringType()), T.StructField("from_ns", T.LongType())])),
        ),
    ]
)


class Life(NamedTuple):
    """told_ns: when an answer first told the id, in run time. ended_ns: when its deletion was first asked for; None:
    never.
    """

    topic: str
    topic_id: str
    told_ns: int
    ended_ns: int | None


def lives_of(operations: DataFrame) -> list[Life]:
    """Of each topic in their order. operations: as joined (`tables.joined_operations`)."""
    of_topics = operations.where(F.col("f").isin(MADE, ENDED, TOLD))
    answered = of_topics.where((F.col("outcome") == "ok") & F.col("answered.topic_id").isNotNull()).select(
        "topic",
        F.col("answered.topic_id").alias("topic_id"),
        F.col("complete_ns").alias("told_ns"),
        F.lit(None).cast("bigint").alias("ended_ns"),
    )
    ended = of_topics.where((F.col("f") == ENDED) & (F.col("outcome") != "fail")).select(
        "topic",
        F.col("asked.topic_id").alias("topic_id"),
        F.lit(None).cast("bigint").alias("told_ns"),
        F.col("invoke_ns").alias("ended_ns"),
    )
    rows = (
        answered.unionByName(ended)
        .groupBy("topic", "topic_id")
        .agg(F.min("told_ns").alias("told_ns"), F.min("ended_ns").alias("ended_ns"))
        .where(F.col("told_ns").isNotNull())
        .collect()
    )
    return sorted((Life(*row) for row in rows), key=lambda one: (one.topic, one.told_ns))


def ended_lives(coordination: DataFrame) -> DataFrame:
    """(life): `topic~id` of those whose deletion may have been carried out."""
    asked = coordination.where((F.col("f") == ENDED) & (F.col("outcome") != "fail"))
    return asked.select(F.concat_ws("~", "topic", F.col("asked.topic_id")).alias("life")).distinct()


def life_of() -> Column:
    """Of a row: which life the partition `p` is of, as `ended_lives` names it; of any other topic its name."""
    return F.regexp_extract("p", r"^(.+)-\d+$", 1)


def in_lives(operations: DataFrame) -> tuple[DataFrame, DataFrame]:
    """(the operations, without the offset of a send whose life is not sure; the sends among them, each under every life
    that it may have gone to).
    """
    known = operations.sparkSession.createDataFrame(_following(lives_of(operations)), _FOLLOWING)
    own_id = F.when(F.col("f") == "send", F.col("asked.topic_id"))
    joined = operations.withColumn("own_id", own_id).join(
        F.broadcast(known), on=(F.col("topic") == F.col("of_topic")) & (F.col("own_id") == F.col("of_id")), how="left"
    )
    acknowledged = F.col("outcome") == "ok"
    in_time = acknowledged & F.coalesce(F.col("complete_ns") <= F.col("ended_ns"), F.lit(False))
    sure = F.col("own_id").isNull() | (F.col("outcome") == "fail") | F.col("ended_ns").isNull() | in_time
    # What was acknowledged went to a life that had begun by then; what was not may be carried out at any time.
    begun = F.filter("later", lambda one: ~acknowledged | (one["from_ns"] <= F.col("complete_ns")))
    others = F.transform(begun, lambda one: one["id"])
    may_be = F.when(sure, F.array("own_id")).otherwise(F.concat(F.array("own_id"), others))
    named = F.concat_ws("-", F.concat_ws("~", "topic", "life"), "partition")
    marked = (
        joined.withColumn("may_be", may_be)
        .withColumn("sure", sure)
        .withColumn("base_offset", F.when(F.col("sure"), F.col("base_offset")))
        .drop("own_id", *_FOLLOWING.names)
    )
    sends = (
        marked.where(F.col("f") == "send")
        .withColumn("life", F.explode("may_be"))
        .withColumn("p", F.when(F.col("life").isNull(), F.col("p")).otherwise(named))
        .withColumn("outcome", F.when(F.col("sure"), F.col("outcome")).otherwise(F.lit("info")))
    )
    return marked.drop("may_be", "sure"), sends.drop("may_be", "sure", "life")


def _following(lives: Sequence[Life]) -> list[tuple[str, str, int | None, list[tuple[str, int | None]]]]:
    """Rows of _FOLLOWING. A life begins after the one before it has been asked to end."""
    rows = []
    for at, life in enumerate(lives):
        same = [one for one in lives[at:] if one.topic == life.topic]
        later = [(after.topic_id, before.ended_ns) for before, after in pairwise(same)]
        rows.append((life.topic, life.topic_id, life.ended_ns, later))
    return rows
