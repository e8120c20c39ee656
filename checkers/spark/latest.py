"""What had been told last when somebody asked: a join by time, in one sort."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.spark.tables import one_piece


def latest(keys: list[str], facts: DataFrame, readers: DataFrame, fact: Column, at: str, name: str) -> DataFrame:
    """readers with `name`: the greatest `fact` of the facts of their keys that were complete before the time `at`.

    facts: rows with `complete_ns`. One sort by key and time; a fact that is complete at that very time is not before.
    """
    order = Window.partitionBy(*keys).orderBy("_at", "_is_fact").rowsBetween(Window.unboundedPreceding, 0)
    told = facts.select(*keys, F.col("complete_ns").alias("_at"), F.lit(1).alias("_is_fact"), fact.alias("_fact"))
    asking = readers.withColumn("_at", F.col(at)).withColumn("_is_fact", F.lit(0))
    return (
        asking.unionByName(told, allowMissingColumns=True)
        .transform(one_piece)
        .withColumn(name, F.max("_fact").over(order))
        .where(F.col("_is_fact") == 0)
        .drop("_at", "_is_fact", "_fact")
    )


def last_of(keys: list[str], facts: DataFrame, rows: DataFrame, fact: Column, where: Column, name: str) -> DataFrame:
    """rows with `name`: the greatest `fact` of the facts of their keys for which `where` holds, of a `row` and what was
    `told`. Rows without one are dropped. For few rows: each is held against every fact of its keys.
    """
    told = facts.select(*keys, fact.alias("told"))
    return (
        rows.select(*keys, F.struct("*").alias("row"))
        .join(told, on=keys, how="inner")
        .where(where)
        .groupBy("row")
        .agg(F.max("told").alias(name))
        .select("row.*", name)
    )
