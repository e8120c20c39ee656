"""duplicate, over the lives of a topic: one value was read in two of them, though it was sent once.

Input grain: one row per record that a poll by id returned. A request is appended once, to what has the name then.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.topics.facts import TopicFacts
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

DUPLICATE = "duplicate"


def value_checks(facts: TopicFacts) -> Family:
    """Of each value that is known."""
    read = F.struct("complete_ns", "op", "topic_id", "partition")
    several = (
        facts.records.where(F.col("value").isNotNull())
        .groupBy("p", "value")
        .agg(F.countDistinct("topic_id").alias("lives"), F.min(read).alias("first"), F.max(read).alias("last"))
        .where(F.col("lives") > 1)
        .withColumn("topic", F.col("p"))
        .withColumn(
            "p", F.concat(F.col("topic"), F.lit("~"), F.col("last.topic_id"), F.lit("-"), F.col("last.partition"))
        )
    )
    found = apply_rules(
        several,
        [
            Rule(
                DUPLICATE,
                F.lit(True),
                text(
                    "value {v} was read in topic {t} with id {i}, and in the one with id {j}, though it was sent once",
                    v=F.col("value"),
                    t=F.col("topic"),
                    i=F.col("first.topic_id"),
                    j=F.col("last.topic_id"),
                ),
                name="lives",
                value=F.col("value"),
                ops=[F.col("first.op"), F.col("last.op")],
                from_ns=F.col("first.complete_ns"),
                to_ns=F.col("last.complete_ns"),
            )
        ],
    )
    counted = facts.records.groupBy("p").agg(F.countDistinct("value").alias("values"))
    return Family(found, figures(counted, {(DUPLICATE, "values_of_lives"): F.col("values")}))
