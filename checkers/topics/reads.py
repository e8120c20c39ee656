"""deleted-topic-read: a broker returned what a topic holds that had been deleted, after the name's next topic was told.

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


def read_checks(facts: TopicFacts) -> Family:
    """Of each topic, its polls."""
    order = Window.partitionBy("p").orderBy("number")
    followed = facts.lives.select(
        "p", "topic_id", "number", F.lead(F.struct("told_ns", "told_op", "topic_id")).over(order).alias("next")
    ).where(F.col("next").isNotNull())
    asked = facts.polls.join(F.broadcast(followed), on=["p", "topic_id"], how="inner").where(
        F.col("invoke_ns") > F.col("next.told_ns")
    )
    found = apply_rules(
        asked,
        [
            Rule(
                READ,
                F.col("outcome") == "ok",
                text(
                    "{n} served a poll of partition {k} of {p} by id {i}, though {p} had been told before to be "
                    "another topic, of id {j}",
                    n=F.col("node"),
                    k=F.col("partition"),
                    p=F.col("p"),
                    i=F.col("topic_id"),
                    j=F.col("next.topic_id"),
                ),
                ops=[F.col("next.told_op"), F.col("op")],
                from_ns=F.col("next.told_ns"),
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
                    asked.groupBy("p").agg(F.count(F.lit(1)).alias("asked")),
                    {(READ, "polls_of_deleted"): F.col("asked")},
                ),
            ]
        ),
    )
