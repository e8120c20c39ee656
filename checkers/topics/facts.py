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
NOBODYS = "UNKNOWN_TOPIC_ID"
"""Why a deletion by id is refused where nobody has it."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """lives(p, topic_id, number, told_ns, told_op, ended_ns, ended_op, gone_ns, gone_op, denied_ns, denied_op): of the
    topic p, numbered from 1 in the order in which they were told first. ended: when their deletion was first asked for,
    null where it never was; gone: when one was first answered to be over; denied: when one was first refused because
    nobody had a topic of that id.

    answers(p, op, f, phase, node, process, topic_id, invoke_ns, complete_ns, number): those that came out ok of what
    asked for a topic's id, or made it; topic_id and number null: there was none. process: which one of the node
    answered, as far as that is known (`history.processes`). final: the same of what was asked in rounds of the drain,
    with or without an answer (answered).

    polls(p, topic_id, partition, op, node, outcome, error, invoke_ns, complete_ns): of these topics. records(p,
    topic_id, partition, op, value, complete_ns): as polls returned them. readings(p, topic_id, partition, reader,
    whole): whether a drain read a partition to its end.

    over_when_answered: whether a deletion that was answered is over on every broker that can be reached; Kafka answers
    once the controller's own metadata have lost the topic.
    """

    lives: DataFrame
    answers: DataFrame
    polls: DataFrame
    final: DataFrame
    readings: DataFrame
    records: DataFrame
    over_when_answered: bool


def build_topic_facts(history: History, faults: Iterable[Fault], *, over_when_answered: bool) -> TopicFacts:
    """faults: of the run; those that stop processes, or change files, part a node's processes."""
    rows = history.coordination.where(F.col("f").isin(MADE, ENDED, TOLD)).withColumn("p", F.col("topic"))
    # A creation that was answered without an id tells nothing.
    tells = (F.col("f") == TOLD) | ((F.col("f") == MADE) & F.col("answered.topic_id").isNotNull())
    asked = rows.where(tells & (F.col("f") != ENDED)).select(
        "p",
        "op",
        "f",
        "phase",
        "node",
        life(ends_of(faults)).alias("process"),
        F.when(F.col("outcome") == "ok", F.col("answered.topic_id")).alias("topic_id"),
        (F.col("outcome") == "ok").alias("answered"),
        "invoke_ns",
        "complete_ns",
    )
    answers = asked.where("answered").drop("answered")
    told = (
        answers.where(F.col("topic_id").isNotNull())
        .groupBy("p", "topic_id")
        .agg(F.min(F.struct("complete_ns", "op")).alias("told"))
    )
    failed, answered = F.col("outcome") == "fail", F.struct("complete_ns", "op")
    ended = (
        rows.where(F.col("f") == ENDED)
        .groupBy("p", F.col("asked.topic_id").alias("topic_id"))
        .agg(
            F.min(F.when(~failed, F.struct("invoke_ns", "op"))).alias("ended"),
            F.min(F.when(F.col("outcome") == "ok", answered)).alias("gone"),
            F.min(F.when(failed & (F.col("error") == NOBODYS), answered)).alias("denied"),
        )
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
            F.col("gone.complete_ns").alias("gone_ns"),
            F.col("gone.op").alias("gone_op"),
            F.col("denied.complete_ns").alias("denied_ns"),
            F.col("denied.op").alias("denied_op"),
        )
    )
    numbers = F.broadcast(lives.select("p", "topic_id", "number"))
    named = F.regexp_extract("p", _LIFE, 1) != ""
    polls = history.requests.where((F.col("f") == "poll") & named).select(
        *_names(),
        "op",
        "node",
        "outcome",
        "error",
        "invoke_ns",
        "complete_ns",
    )
    numbered = kept(answers.join(numbers, on=["p", "topic_id"], how="left"))
    drained = asked.where(F.col("phase").startswith(DRAIN) & F.col("node").isNotNull())
    return TopicFacts(
        lives,
        numbered,
        polls,
        kept(drained.join(numbers, on=["p", "topic_id"], how="left")),
        _readings(history),
        history.polls.where(named).select(*_names(), "op", "value", "complete_ns"),
        over_when_answered,
    )


def _names() -> list[Column]:
    """p, topic_id, partition of a row about a partition of one life."""
    return [F.regexp_extract("p", _LIFE, at).alias(name) for at, name in ((1, "p"), (2, "topic_id"), (3, "partition"))]


def _readings(history: History) -> DataFrame:
    marks = history.marks.where(
        F.col("f").isin("drain-complete", "drain-incomplete") & (F.regexp_extract("p", _LIFE, 1) != "")
    )
    return (
        marks.withColumn("whole", F.col("f") == "drain-complete")
        .select(*_names(), "reader", "whole")
        .groupBy("p", "topic_id", "partition", "reader")
        .agg(F.max("whole").alias("whole"))
    )


_LIFE = r"^([^~]+)~(.+)-(\d+)$"
"""Name of a partition of one life: topic, id, number (`history.tables.named_topic`)."""


def _numbered() -> Column:
    return F.row_number().over(Window.partitionBy("p").orderBy("told.complete_ns", "told.op"))
