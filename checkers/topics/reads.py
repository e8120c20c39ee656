"""deleted-topic-read: a broker served a poll of a topic that had been deleted: the name's next topic had been told, or,
where that says so (`over_when_answered`), the deletion had been answered.

Input grain: one row per poll of a topic that is made anew. A topic is made under a name only once the one before has no
replica left that a broker could serve (`facts`). What such a poll returns needs not to be a record: that it was carried
out at all is the finding, for it says that a replica is there.
"""

from __future__ import annotations

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.topics.facts import TopicFacts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

READ = "deleted-topic-read"
_OF_A_LOG = ("OFFSET_OUT_OF_RANGE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
"""Errors of a broker that has a log of that id: ids are compared before epochs and offsets."""
_SAID = "^[A-Z_]+$"
"""What errors of brokers look like; others are of clients that got no answer."""


def read_checks(facts: TopicFacts) -> Family:
    """Of each topic, its polls."""
    order = Window.partitionBy("p").orderBy("number")
    lives = facts.lives.select(
        "p",
        "topic_id",
        F.lead(F.struct(F.col("told_ns").alias("at_ns"), F.col("told_op").alias("op"))).over(order).alias("next"),
        F.when(
            F.lit(facts.over_when_answered), F.struct(F.col("gone_ns").alias("at_ns"), F.col("gone_op").alias("op"))
        ).alias("answer"),
    )
    served = (F.col("outcome") == "ok") | F.col("error").isin(*_OF_A_LOG)
    known = F.filter(F.array("next", "answer"), lambda one: one["at_ns"].isNotNull())
    followed = lives.where(F.col("next").isNotNull())
    over = lives.withColumn("over", F.array_min(known)).where(F.col("over").isNotNull())
    asked = facts.polls.join(F.broadcast(over), on=["p", "topic_id"], how="inner").where(
        F.col("invoke_ns") > F.col("over.at_ns")
    )
    found = apply_rules(
        asked,
        [
            Rule(
                READ,
                served,
                text(
                    "{n} served a poll of partition {k} of topic {p} with id {i}, which was known to be deleted before "
                    "that was asked",
                    n=F.col("node"),
                    k=F.col("partition"),
                    p=F.col("p"),
                    i=F.col("topic_id"),
                ),
                ops=[F.col("over.op"), F.col("op")],
                from_ns=F.col("over.at_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    return Family(
        found,
        union(
            [
                figures(
                    followed.groupBy("p").agg(F.count(F.lit(1)).alias("followed")),
                    {(READ, "topics"): F.col("followed")},
                ),
                figures(
                    asked.where((F.col("outcome") == "ok") | F.col("error").rlike(_SAID))
                    .groupBy("p")
                    .agg(F.count(F.lit(1)).alias("asked")),
                    {(READ, "polls_of_deleted"): F.col("asked")},
                ),
            ]
        ),
    )
