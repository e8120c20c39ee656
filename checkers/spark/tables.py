"""Parquet tables of a run, written and read back: the one place that decides how many pieces they come in.

A short job is all overhead: tasks, shuffles, plans. With one shuffle partition every table is read as one piece, which
Spark then need not shuffle at all, and the cores are kept busy by running several queries at a time. Long jobs keep
Spark's own splitting.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from checkers.spark.master import runs_here
from checkers.spark.places import Place, UnsharedFolder, address


def read_table(spark: SparkSession, kind: T.StructType, *folders: Place) -> DataFrame:
    """Of one folder, or of several whose rows are one table's."""
    return one_piece(spark.read.schema(kind).parquet(*map(address, folders)))


def write_table(frame: DataFrame, folder: Place, *, pieces: bool = False) -> None:
    """Raises UnsharedFolder where workers have written rows that are not there.

    pieces: as the frame has them also in a short job, for work that is too much for one task.
    """
    frame = frame if pieces else one_piece(frame)
    if runs_here(frame.sparkSession):
        frame.write.mode("overwrite").parquet(address(folder))
        return
    written = Observation()
    counted = F.count(F.lit(1))
    frame.observe(written, counted.alias("rows")).write.mode("overwrite").parquet(address(folder))
    check_shared(frame.sparkSession.read.schema(frame.schema).parquet(address(folder)), written.get["rows"], folder)


def check_shared(found: DataFrame, written: int, folder: Place) -> None:
    """Raises UnsharedFolder where of so many rows, which workers wrote, others are found than these.

    A worker writes its pieces by itself, and the driver takes in what it finds of them: of a folder that each machine
    has for itself that is a part, and nobody would complain.
    """
    there = found.count()
    if there != written:
        raise UnsharedFolder(
            f"{address(folder)}: {written} rows were written by the workers of"
            f" {found.sparkSession.sparkContext.master}, and {there} are there: the run's folder has to be one that all"
            " of them share with the driver (docs/scale.md)"
        )


def stored(frame: DataFrame, folder: Place) -> DataFrame:
    """The same rows, computed now and written, as read back: nothing of how they were made is in the plans of what is
    made of them. Of frames that are cached Spark describes the whole plan, with the plans of those in it, each time.
    """
    write_table(frame, folder)
    return read_table(frame.sparkSession, frame.schema, folder)


def one_piece(frame: DataFrame) -> DataFrame:
    """The same rows, in a short job as one piece: of a table that is read, and after a union.

    Spark counts a union's pieces together, though each is the only one of its side, and shuffles them for whatever
    comes next: a stage more, of as many tasks as there are sides, each of which decodes the whole plan.
    """
    return frame.coalesce(1) if in_one_piece(frame.sparkSession) else frame


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
