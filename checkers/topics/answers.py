"""lost-topic and topic-id-again: which topic a name has, as brokers answered it.

Input grain: one row per answer that told a topic's id, or that there is no topic. *Lost*: a process told that there is
none, though it had told one before whose deletion nobody had asked for (`back`); so did a broker in a drain, last of
all, when no fault is left and it has been waited for (`end`); or the name had another topic before anybody asked for
the deletion of the one before (`replaced`). *Again*: a topic was made with an id that had been told (`made`); a process
told an earlier topic than it had told before (`back`); so did a broker in a drain, last of all, than anybody had
(`end`).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.history.remade import MADE
from checkers.spark.latest import latest
from checkers.spark.tables import kept
from checkers.topics.facts import TopicFacts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

LOST = "lost-topic"
AGAIN = "topic-id-again"


def answer_checks(facts: TopicFacts) -> Family:
    """Of each topic, the answers about it, and its lives."""
    answers, final = _judged(facts), kept(_final(facts))
    made = answers.where((F.col("f") == MADE) & (F.col("number") > 1))
    counted = {
        "answers": answers.where(F.col("told").isNotNull()),
        "final_answers": final.where(F.col("newest").isNotNull()),
        "made_anew": made,
    }
    counts = [
        figures(rows.groupBy("p").agg(F.count(F.lit(1)).alias("n")), {(checker, name): F.col("n")})
        for checker, name in ((LOST, "answers"), (LOST, "final_answers"), (AGAIN, "answers"), (AGAIN, "made_anew"))
        for rows in (counted[name],)
    ]
    found = [
        _backwards(answers),
        _in_the_end(final),
        _replaced(facts.lives),
        _not_there(facts.lives, final),
        _not_read(facts),
    ]
    return Family(union(found), union(counts))


def _judged(facts: TopicFacts) -> DataFrame:
    """The answers, each with `told`: the newest life that the same process had told before it was asked, and `known`:
    of the life that it tells itself, when and by which answer that was told first.
    """
    known = facts.lives.select(
        "p", "number", F.struct("told_ns", "told_op").alias("known"), F.col("ended_ns").alias("_ended_ns")
    )
    mine = facts.answers.join(F.broadcast(known), on=["p", "number"], how="left")
    told = mine.where(F.col("process").isNotNull() & F.col("number").isNotNull())
    fact = F.struct("number", "op", "invoke_ns", F.col("_ended_ns").alias("ended_ns"))
    return kept(latest(["p", "process"], told, mine, fact, "invoke_ns", "told").drop("_ended_ns"))


def _final(facts: TopicFacts) -> DataFrame:
    """The last answer of each node in each round of the drain, with `newest`: of the lives that had been told by then,
    where nobody ever asked for its deletion.
    """
    newest_first = Window.partitionBy("p", "phase", "node").orderBy(F.desc("invoke_ns"), F.desc("op"))
    # The last that was asked, not the last that was answered: who did not answer has not said that there is none.
    last = (
        facts.final.withColumn("_nth", F.row_number().over(newest_first))
        .where((F.col("_nth") == 1) & F.col("answered"))
        .drop("_nth", "answered")
    )
    told = facts.lives.withColumn("complete_ns", F.col("told_ns"))
    fact = F.struct("number", F.col("told_op").alias("op"), "told_ns", "topic_id", "ended_ns")
    own = facts.lives.select("p", "number", "gone_ns", "gone_op", "denied_ns", "denied_op")
    asked = latest(
        ["p"], told, last.join(F.broadcast(own), on=["p", "number"], how="left"), fact, "invoke_ns", "newest"
    )
    return asked.withColumn("newest", F.when(F.col("newest.ended_ns").isNull(), F.col("newest")))


def _backwards(answers: DataFrame) -> DataFrame:
    """What one process must not answer, and what no creation must."""
    not_ended = F.col("told.ended_ns").isNull() | (F.col("told.ended_ns") > F.col("complete_ns"))
    same = F.col("process").isNotNull()
    shared = {"n": F.col("node"), "p": F.col("p")}
    return apply_rules(
        answers,
        [
            Rule(
                LOST,
                same & F.col("number").isNull() & F.col("told").isNotNull() & not_ended,
                text(
                    "{n} told that there is no topic {p}, though it had told one, and nobody had deleted it", **shared
                ),
                name="back",
                **_between(F.col("told.op"), F.col("told.invoke_ns")),
            ),
            Rule(
                AGAIN,
                same & (F.col("told.number") > F.col("number")),
                text(
                    "{n} told that {p} is the topic of id {i}, though the same process had told a later one",
                    **shared,
                    i=F.col("topic_id"),
                ),
                name="back",
                **_between(F.col("told.op"), F.col("told.invoke_ns")),
            ),
            Rule(
                AGAIN,
                (F.col("f") == MADE) & (F.col("known.told_ns") < F.col("invoke_ns")),
                text("{n} made {p} with id {i}, which it had been told to have before", **shared, i=F.col("topic_id")),
                name="made",
                **_between(F.col("known.told_op"), F.col("known.told_ns")),
            ),
        ],
    )


def _in_the_end(final: DataFrame) -> DataFrame:
    shared = {"n": F.col("node"), "p": F.col("p"), "d": F.col("phase"), "j": F.col("newest.topic_id")}
    return apply_rules(
        final,
        [
            Rule(
                LOST,
                F.col("number").isNull() & F.col("newest").isNotNull(),
                text(
                    "{n} told in the end ({d}) that there is no topic {p}, which has id {j}, and nobody deleted it",
                    **shared,
                ),
                name="end",
                **_between(F.col("newest.op"), F.col("newest.told_ns")),
            ),
            Rule(
                AGAIN,
                F.col("number") < F.col("newest.number"),
                text(
                    "{n} still told in the end ({d}) that {p} is the topic of id {i}, though it is that of {j}",
                    **shared,
                    i=F.col("topic_id"),
                ),
                name="end",
                **_between(F.col("newest.op"), F.col("newest.told_ns")),
            ),
            Rule(
                AGAIN,
                F.col("newest").isNull() & (F.col("gone_ns") < F.col("invoke_ns")),
                text(
                    "{n} told in the end ({d}) that {p} is the topic of id {i}, whose deletion had been answered",
                    **shared,
                    i=F.col("topic_id"),
                ),
                name="ended",
                **_between(F.col("gone_op"), F.col("gone_ns")),
            ),
            Rule(
                LOST,
                F.col("denied_ns") < F.col("invoke_ns"),
                text(
                    "{n} told in the end ({d}) that {p} is the topic of id {i}, whose deletion had been refused as if "
                    "there were none",
                    **shared,
                    i=F.col("topic_id"),
                ),
                name="denied",
                **_between(F.col("denied_op"), F.col("denied_ns")),
            ),
        ],
    )


def _not_there(lives: DataFrame, final: DataFrame) -> DataFrame:
    """Topics of which no broker told the newest life in the end: what became of the last request is not known."""
    newest = lives.groupBy("p").agg(
        F.max(F.struct("number", "topic_id", "told_op", "told_ns", "ended_ns")).alias("life")
    )
    told = final.where(F.col("number").isNotNull()).select("p", "number").distinct()
    missing = newest.withColumn("number", F.col("life.number")).join(
        told.withColumn("seen", F.lit(True)), on=["p", "number"], how="left"
    )
    return apply_rules(
        missing,
        [
            Rule(
                LOST,
                F.col("seen").isNull() | F.col("life.ended_ns").isNotNull(),
                text(
                    "in the end {p} was not there: the last that is known of it is id {i}, and it was not made anew",
                    p=F.col("p"),
                    i=F.col("life.topic_id"),
                ),
                kind="unknown",
                name="absent",
                ops=[F.col("life.told_op")],
                from_ns=F.col("life.told_ns"),
                to_ns=F.col("life.told_ns"),
            )
        ],
    )


def _not_read(facts: TopicFacts) -> DataFrame:
    """Partitions of the newest lives that a reader did not read to their end in any round of the drain."""
    newest = facts.lives.groupBy("p").agg(F.max(F.struct("number", "topic_id")).alias("newest"))
    mine = facts.readings.join(newest, on="p", how="inner").where(F.col("topic_id") == F.col("newest.topic_id"))
    return apply_rules(
        mine,
        [
            Rule(
                LOST,
                ~F.col("whole"),
                text(
                    "partition {k} of topic {p} with id {i}, which is there in the end, was not read to its end ({r})",
                    k=F.col("partition"),
                    p=F.col("p"),
                    i=F.col("topic_id"),
                    r=F.col("reader"),
                ),
                kind="unknown",
                name="unread",
            )
        ],
    )


def _replaced(lives: DataFrame) -> DataFrame:
    before = F.lag(F.struct("topic_id", "told_op", "told_ns", "ended_ns")).over(
        Window.partitionBy("p").orderBy("number")
    )
    return apply_rules(
        lives.withColumn("before", before).where(F.col("before").isNotNull()),
        [
            Rule(
                LOST,
                F.col("before.ended_ns").isNull() | (F.col("before.ended_ns") > F.col("told_ns")),
                text(
                    "{p} was told to be another topic, of id {i}, though nobody had asked for the deletion of the one "
                    "before, of id {j}",
                    p=F.col("p"),
                    i=F.col("topic_id"),
                    j=F.col("before.topic_id"),
                ),
                name="replaced",
                ops=[F.col("before.told_op"), F.col("told_op")],
                from_ns=F.col("before.told_ns"),
                to_ns=F.col("told_ns"),
            )
        ],
    )


def _between(op: Column, from_ns: Column) -> dict[str, Any]:
    return {"ops": [op, F.col("op")], "from_ns": from_ns, "to_ns": F.col("complete_ns")}
