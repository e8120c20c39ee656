"""Topics that are deleted and made anew under their names: their lives, and which of them a send went to.

A life is known by its topic's id, and partitions of different lives have different names (`tables.named_topic`). Reads
go by id. A send goes by name: to the life that its line names, which was there when it was invoked, or to a later one.
It is of the former where it was acknowledged before anybody asked for what can have made the next one; and of the one
in which its values were read, where that is one alone. Every other send, but one that certainly failed, may be in
several, and what its answer said is of no life that is known: it is an unanswered send of the life that it names, and
of each later one in which its values were read.

Source: docs/history-format.md; KIP-516 (topic ids), of which Produce requests have none before Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

MADE, ENDED, TOLD = "create_topic", "delete_topic", "describe_topic"
_ANSWERS = (MADE, TOLD)

_FOLLOWING = T.StructType(
    [
        T.StructField("of_topic", T.StringType()),
        T.StructField("of_id", T.StringType()),
        T.StructField("next_ns", T.LongType()),
        T.StructField(
            "later",
            T.ArrayType(T.StructType([T.StructField("id", T.StringType()), T.StructField("from_ns", T.LongType())])),
        ),
    ]
)


class Life(NamedTuple):
    """known_ns: when a line first named the id, in run time. ended_ns: when its deletion was first asked for; None:
    never.
    """

    topic: str
    topic_id: str
    known_ns: int
    ended_ns: int | None


class Making(NamedTuple):
    """A request to make a topic that may have been carried out. done_ns: by when; None: at any later time."""

    topic: str
    invoked_ns: int
    done_ns: int | None


def lives_of(operations: DataFrame) -> list[Life]:
    """Of each topic in their order. operations: as joined (`tables.joined_operations`)."""
    named = operations.where(F.col("asked.topic_id").isNotNull()).select(
        "topic",
        F.col("asked.topic_id").alias("topic_id"),
        F.col("invoke_ns").alias("known_ns"),
        F.when((F.col("f") == ENDED) & (F.col("outcome") != "fail"), F.col("invoke_ns")).alias("ended_ns"),
    )
    answered = operations.where(F.col("f").isin(*_ANSWERS) & (F.col("outcome") == "ok")).select(
        "topic",
        F.col("answered.topic_id").alias("topic_id"),
        F.col("complete_ns").alias("known_ns"),
        F.lit(None).cast("bigint").alias("ended_ns"),
    )
    rows = (
        named.unionByName(answered.where(F.col("topic_id").isNotNull()))
        .groupBy("topic", "topic_id")
        .agg(F.min("known_ns").alias("known_ns"), F.min("ended_ns").alias("ended_ns"))
        .collect()
    )
    return sorted((Life(*row) for row in rows), key=lambda one: (one.topic, one.known_ns))


def makings_of(operations: DataFrame) -> list[Making]:
    """All that did not certainly fail."""
    asked = operations.where((F.col("f") == MADE) & (F.col("outcome") != "fail"))
    done = F.when(F.col("outcome") == "ok", F.col("complete_ns"))
    return [Making(*row) for row in asked.select("topic", "invoke_ns", done).collect()]


def ended_lives(coordination: DataFrame) -> DataFrame:
    """(life): `topic~id` of those that are gone: their deletion was answered, or the name had another one later."""
    order = Window.partitionBy("topic").orderBy("told_ns")
    told = (
        coordination.where(
            F.col("f").isin(*_ANSWERS) & (F.col("outcome") == "ok") & F.col("answered.topic_id").isNotNull()
        )
        .groupBy("topic", F.col("answered.topic_id").alias("topic_id"))
        .agg(F.min("complete_ns").alias("told_ns"))
        .withColumn("next_ns", F.lead("told_ns").over(order))
        .where(F.col("next_ns").isNotNull())
        .select("topic", "topic_id")
    )
    answered = coordination.where((F.col("f") == ENDED) & (F.col("outcome") == "ok")).select(
        "topic", F.col("asked.topic_id").alias("topic_id")
    )
    return told.unionByName(answered).select(F.concat_ws("~", "topic", "topic_id").alias("life")).distinct()


def lasting_lives(coordination: DataFrame) -> list[str]:
    """`topic~id` of those that a round of the drain was told, and nobody asked to delete: one per topic at most."""
    asked = coordination.where((F.col("f") == ENDED) & (F.col("outcome") != "fail")).select(
        "topic", F.col("asked.topic_id").alias("topic_id")
    )
    told = (
        coordination.where((F.col("f") == TOLD) & (F.col("outcome") == "ok") & F.col("phase").startswith("drain"))
        .select("topic", F.col("answered.topic_id").alias("topic_id"))
        .where(F.col("topic_id").isNotNull())
        .join(F.broadcast(asked.distinct()), on=["topic", "topic_id"], how="left_anti")
        .groupBy("topic")
        .agg(F.collect_set("topic_id").alias("ids"))
    )
    return sorted(f"{row.topic}~{row.ids[0]}" for row in told.collect() if len(row.ids) == 1)


def life_of() -> Column:
    """Of a row: which life the partition `p` is of, as `ended_lives` names it; of any other topic its name."""
    return F.regexp_extract("p", r"^(.+)-\d+$", 1)


def in_lives(operations: DataFrame) -> tuple[DataFrame, DataFrame]:
    """(the operations, without the offset of a send whose life is not sure; the sends among them, each under every life
    that it may have gone to).
    """
    following = _following(lives_of(operations), makings_of(operations))
    known = operations.sparkSession.createDataFrame(following, _FOLLOWING)
    own_id = F.when(F.col("f") == "send", F.col("asked.topic_id"))
    joined = operations.withColumn("own_id", own_id).join(
        F.broadcast(known), on=(F.col("topic") == F.col("of_topic")) & (F.col("own_id") == F.col("of_id")), how="left"
    )
    joined = joined.join(_read_in(operations), on="op", how="left")
    acknowledged = F.col("outcome") == "ok"
    in_time = acknowledged & F.coalesce(F.col("complete_ns") <= F.col("next_ns"), F.lit(False))
    alone = F.col("own_id").isNull() | (F.col("outcome") == "fail") | F.col("next_ns").isNull() | in_time
    # What was acknowledged went to a life that had begun by then; what was not may be carried out at any time.
    begun = F.filter("later", lambda one: ~acknowledged | (one["from_ns"] <= F.col("complete_ns")))
    may_be = F.concat(F.array("own_id"), F.transform(begun, lambda one: one["id"]))
    read = F.array_intersect(may_be, F.coalesce("read_in", F.array().cast("array<string>")))
    lives = (
        F.when(alone, F.array("own_id"))
        .when(acknowledged & (F.size(read) == 1), read)
        .otherwise(F.array_union(F.array("own_id"), read))
    )
    named = F.concat_ws("-", F.concat_ws("~", "topic", "life"), "partition")
    marked = (
        joined.withColumn("sure", alone | (acknowledged & (F.size(read) == 1)))
        .withColumn("lives", lives)
        .withColumn("base_offset", F.when(F.col("sure"), F.col("base_offset")))
        .drop("own_id", "read_in", *_FOLLOWING.names)
    )
    sends = (
        marked.where(F.col("f") == "send")
        .withColumn("life", F.explode("lives"))
        .withColumn("p", F.when(F.col("life").isNull(), F.col("p")).otherwise(named))
        .withColumn("outcome", F.when(F.col("sure"), F.col("outcome")).otherwise(F.lit("info")))
    )
    return _moved(marked, named).drop("lives", "sure"), sends.drop("lives", "sure", "life")


def _moved(marked: DataFrame, named: Column) -> DataFrame:
    """The operations, each send whose life is sure under that life."""
    sure = F.when(F.col("sure"), F.get("lives", F.lit(0)))
    moved = marked.withColumn("life", sure).withColumn("p", F.when(F.col("life").isNull(), F.col("p")).otherwise(named))
    return moved.drop("life")


def _read_in(operations: DataFrame) -> DataFrame:
    """(op, read_in): of sends to such topics, the lives in which some of their values were read."""
    of_lives = operations.where(F.col("asked.topic_id").isNotNull())
    reads = (
        of_lives.where((F.col("f") == "poll") & (F.col("outcome") == "ok"))
        .select("topic", F.col("asked.topic_id").alias("life"), F.explode("records.value").alias("value"))
        .distinct()
    )
    sent = of_lives.where(F.col("f") == "send").select("op", "topic", F.explode("values").alias("value"))
    return (
        sent.join(reads, on=["topic", "value"], how="inner").groupBy("op").agg(F.collect_set("life").alias("read_in"))
    )


def _following(
    lives: Sequence[Life], makings: Iterable[Making]
) -> list[tuple[str, str, int | None, list[tuple[str, int | None]]]]:
    """Rows of _FOLLOWING: since when the life after this one may have been there, and which may follow, since when."""
    of_topics: dict[str, list[Making]] = {}
    for making in makings:
        of_topics.setdefault(making.topic, []).append(making)
    rows = []
    for at, life in enumerate(lives):
        same = [one for one in lives[at:] if one.topic == life.topic]
        begins = [_next_ns(one, of_topics.get(one.topic, ())) for one in same]
        later = [(after.topic_id, since) for (_, after), since in zip(pairwise(same), begins, strict=False)]
        rows.append((life.topic, life.topic_id, begins[0], later))
    return rows


def _next_ns(life: Life, makings: Sequence[Making]) -> int | None:
    """Since when another one may have the name: after its deletion was asked for, and something was that makes one,
    which may have been under way then.
    """
    ended_ns = life.ended_ns
    if ended_ns is None:
        return None
    can = [one for one in makings if one.done_ns is None or one.done_ns > ended_ns]
    return min((max(one.invoked_ns, ended_ns) for one in can), default=None)
