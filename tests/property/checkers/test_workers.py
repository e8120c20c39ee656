"""Functions that run in Spark's Python workers: in this interpreter, with the code of this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from checkers.spark.workers import in_workers
from tests.support import worker_functions
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V4")]


def test_worker_is_of_this_interpreter_and_imports_nothing_of_ours(spark: SparkSession) -> None:
    where = in_workers(worker_functions.where, worker_functions, T.ArrayType(T.StringType()))
    with pyspark_sockets():
        row = spark.range(1).select(where(F.col("id")).alias("found")).first()
    assert row is not None
    executable, *imported = row.found
    assert Path(executable).samefile(sys.executable)
    assert imported == []
