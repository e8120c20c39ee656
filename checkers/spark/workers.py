"""What runs in Spark's Python workers: plain functions of a row, for the little that SQL cannot say.

A worker is started with the first query that needs one, which takes a second or two: no query may need one whose
checker a run does not ask for. A function goes to the workers with the code of its package, so that what runs there is
what this process has, wherever it was imported from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

_F = TypeVar("_F", bound=Callable[..., Any])


def use_this_interpreter(spark: SparkSession) -> None:
    """Workers are of the interpreter that runs this, unless the environment (PYSPARK_PYTHON) or the session's settings
    (`spark.pyspark.python`) name another.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        # pyspark reads the setting where it is started by spark-submit alone.
        spark.sparkContext.pythonExec = spark.sparkContext.getConf().get("spark.pyspark.python") or sys.executable


def in_workers(function: Callable[..., Any], package: ModuleType, returns: T.DataType) -> Callable[..., Column]:
    """The function as one of columns. package: where it and all that it uses of ours is defined."""
    as_udf: Callable[..., Column] = F.udf(by_value(function, package), returns)
    return as_udf


def by_value(function: _F, package: ModuleType) -> _F:
    """The function itself, which goes to workers with the code of its package, not by name."""
    cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    return function
