"""Parquet tables of a run, written and read back: the one place that decides how many pieces they come in.

A short job is all overhead: tasks, shuffles, plans. With one shuffle partition every table is read as one piece, which
Spark then need not shuffle at all, and the cores are kept busy by running several queries at a time. Long jobs keep
Spark's own splitting.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame


def address(path: Path) -> str:
    """URI of a local file or folder for Spark. Hadoop takes it as it is, so nothing may be percent-encoded."""
    return f"file://{path.absolute()}"


def read_table(spark: SparkSession, kind: T.StructType, folder: Path) -> DataFrame:
    frame = spark.read.schema(kind).parquet(address(folder))
    return frame.coalesce(1) if in_one_piece(spark) else frame


def write_table(frame: DataFrame, folder: Path) -> None:
    whole = frame.coalesce(1) if in_one_piece(frame.sparkSession) else frame
    whole.write.mode("overwrite").parquet(address(folder))


def in_one_piece(spark: SparkSession) -> bool:
    return spark.conf.get("spark.sql.shuffle.partitions") == "1"


def empty(spark: SparkSession, kind: T.StructType) -> DataFrame:
    """No rows of a type, without a Python worker (which createDataFrame would start)."""
    return spark.range(0).select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in kind.fields])


def kept(frame: DataFrame) -> DataFrame:
    """The same rows, computed once and cached; what is made of them is planned from the cache on.

    Spark goes through a frame's whole plan at every step that is made of it, and the plan of a cached frame is still
    the one by which it was computed.
    """
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    spark = frame.sparkSession
    # pyspark has no call for this.
    assert spark._jvm is not None
    make = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows
    return ClassicFrame(make(spark._jsparkSession, frame._jdf.queryExecution().withCachedData()), spark)
