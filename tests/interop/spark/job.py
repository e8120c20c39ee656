"""One application of Spark with its Kafka source and sink: `job.py BOOTSTRAP JARS`; a line on stdin is a task.

`write TOPIC FIRST LAST`: numbers as values, in a batch. `read TOPIC ISOLATION`: the values, by a batch.
`follow TOPIC FOLDER CHECKPOINT`: begins a stream into Parquet files, some records a trigger.
`finish TOPIC FOLDER CHECKPOINT`: the same up to the end of now. `copy TOPIC OTHER CHECKPOINT`: so to another topic.
`files FOLDER`: the values that the stream's files hold. Answers are "done", or values in one line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORDS_A_TRIGGER = "100"


def opened(jars: Path) -> SparkSession:
    paths = [str(jar) for jar in sorted(jars.glob("*.jar"))]
    java_options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", os.pathsep.join(paths))
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


class Job:
    """The application."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.options = {"kafka.bootstrap.servers": bootstrap}

    def write(self, topic: str, first: str, last: str) -> str:
        numbers = self.spark.range(int(first), int(last)).selectExpr("CAST(id AS STRING) AS value")
        numbers.write.format("kafka").options(**self.options, topic=topic).save()
        return "done"

    def read(self, topic: str, isolation: str) -> str:
        found = self.spark.read.format("kafka").options(
            **self.options, **{"subscribe": topic, "kafka.isolation.level": isolation}
        )
        return values(found.load())

    def _stream(self, topic: str, checkpoint: str) -> DataStreamWriter:
        source = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": RECORDS_A_TRIGGER}
        found = self.spark.readStream.format("kafka").options(**self.options, **source).load()
        return found.selectExpr("value").writeStream.option("checkpointLocation", checkpoint)

    def follow(self, topic: str, folder: str, checkpoint: str) -> str:
        self._stream(topic, checkpoint).format("parquet").start(folder)
        return "done"

    def finish(self, topic: str, folder: str, checkpoint: str) -> str:
        query = self._stream(topic, checkpoint).format("parquet").trigger(availableNow=True).start(folder)
        query.awaitTermination()
        return "done"

    def copy(self, topic: str, other: str, checkpoint: str) -> str:
        sink = self._stream(topic, checkpoint).format("kafka").options(**self.options, topic=other)
        sink.trigger(availableNow=True).start().awaitTermination()
        return "done"

    def files(self, folder: str) -> str:
        return values(self.spark.read.parquet(folder))


def values(frame: DataFrame) -> str:
    return " ".join(sorted((row[0] for row in frame.selectExpr("CAST(value AS STRING)").collect()), key=int))


def main() -> None:
    job = Job(opened(Path(sys.argv[2])), sys.argv[1])
    for line in sys.stdin:
        task, *words = line.split()
        try:
            print(getattr(job, task)(*words), flush=True)
        except Exception as failure:
            print("failed: " + " ".join(str(failure).split()), flush=True)


if __name__ == "__main__":
    main()
