"""Frames that the checkers of topics made anew share: lives of topics, and what brokers answered of them.

What is promised. A deletion by id is of that topic alone. It is over once every replica is gone from a broker that can
be reached, and the others must do so before they serve again; the name is free after that, and a topic made under it
has an id of its own. So once a later life was told, nobody reads an earlier one. Which id a name has every broker
answers from its own metadata, which the controller fills: that may lag, but one process does not go back, nor forget a
topic that nobody deletes.

Source: kafka.controller.TopicDeletionManager, ReplicaManager.stopReplicas, ZkMetadataCache; KIP-516.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.history.processes import ends_of, life
from checkers.history.remade import ENDED, MADE, TOLD
from checkers.spark.tables import kept

DRAIN = "drain"
"""What names of phases begin with."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """lives(p, topic_id, number, told_ns, told_op, ended_ns, ended_op): of the topic p, numbered from 1 in the order in
    which they were told first. ended: when their deletion was first asked for, null where it never was.

    answers(p, op, f, phase, node, process, topic_id, invoke_ns, complete_ns, number): those that came out ok of what
    asked for a topic's id, or made it; topic_id and number null: there was none. process: which one of the node
    answered, as far as that is known (`history.processes`). polls(p, topic_id, partition, op, node, outcome,
    invoke_ns, complete_ns): of these topics.
    """

    lives: DataFrame
    answers: DataFrame
    polls: DataFrame


def build_topic_facts(history: History, faults: Iterable[Fault]) -> TopicFacts:
    """faults: of the run; those that stop processes, or change files, part a node's processes."""
    rows = history.coordination.where(F.col("f").isin(MADE, ENDED, TOLD)).withColumn("p", F.col("topic"))
    answers = rows.where((F.col("f") != ENDED) & (F.col("outcome") == "ok")).select(
        "p",
        "op",
        "f",
        "phase",
        "node",
        life(ends_of(faults)).alias("process"),
        F.col("answered.topic_id").alias("topic_id"),
        "invoke_ns",
        "complete_ns",
    )
    told = (
        answers.where(F.col("topic_id").isNotNull())
        .groupBy("p", "topic_id")
        .agg(F.min(F.struct("complete_ns", "op")).alias("told"))
    )
    ended = (
        rows.where((F.col("f") == ENDED) & (F.col("outcome") != "fail"))
        .groupBy("p", F.col("asked.topic_id").alias("topic_id"))
        .agg(F.min(F.struct("invoke_ns", "op")).alias("ended"))
    )
    lives = kept(
        told.join(ended, on=["p", "topic_id"], how="left").select(
            "p",
            "topic_id",
            _numbered().alias("number"),
            F.col("told.complete_ns").alias("told_ns"),
            F.col("told.op").alias("told_op"),
            F.col("ended.invoke_ns").alias("ended_ns"),
            F.col("ended.op").alias("ended_op"),
        )
    )
    numbers = F.broadcast(lives.select("p", "topic_id", "number"))
    named = F.regexp_extract("p", _LIFE, 1) != ""
    polls = history.requests.where((F.col("f") == "poll") & named).select(
        F.regexp_extract("p", _LIFE, 1).alias("p"),
        F.regexp_extract("p", _LIFE, 2).alias("topic_id"),
        F.regexp_extract("p", _LIFE, 3).alias("partition"),
        "op",
        "node",
        "outcome",
        "invoke_ns",
        "complete_ns",
    )
    return TopicFacts(lives, kept(answers.join(numbers, on=["p", "topic_id"], how="left")), polls)


_LIFE = r"^([^~]+)~(.+)-(\d+)$"
"""Name of a partition of one life: topic, id, number (`history.tables.named_topic`)."""


def _numbered() -> Column:
    return F.row_number().over(Window.partitionBy("p").orderBy("told.complete_ns", "told.op"))
