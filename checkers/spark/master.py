"""Where Spark's work is done: on this machine or on a cluster, and whose settings of a session count.

Decides what of a session follows from its master; starts nothing. A user's own setting goes before ours: one that is
named with `--spark-conf`, and all that `spark-submit` was told. Where spark-submit has started the process, Java runs
already, and what only counts at its start is spark-submit's business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

PIECE_BYTES = 64_000_000
"""Of a history: so much of it is one piece of a shuffle on a cluster. Joined lines take up about as much again."""
LEAST_PIECES, MOST_PIECES = 16, 8192

_LOOPBACK = re.compile(r"local|spark://(127\.[\d.]+|localhost|\[::1\])(:\d+)?$")


def is_local(master: str) -> bool:
    """Whether executors are in the driver's own process; `local-cluster[…]` has them beside it."""
    return re.match(r"local($|\[)", master) is not None


def runs_here(spark: SparkSession) -> bool:
    """Whether the session's executors are in this process's Java."""
    return is_local(str(spark.sparkContext.master))


def is_on_loopback(master: str) -> bool:
    """Whether all that takes part in it is on this machine, so that nothing has to be reached from elsewhere."""
    return _LOOPBACK.match(master) is not None


def is_submitted() -> bool:
    """Whether spark-submit started this process (`org.apache.spark.deploy.PythonRunner`)."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted() -> Mapping[str, str]:
    """What spark-submit, and the defaults that it reads, set; nothing where it did not start this process."""
    if not is_submitted():
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def pieces_for(history_bytes: int) -> int:
    """How many pieces a long job's shuffles come in on a cluster, by what there is to judge."""
    return min(MOST_PIECES, max(LEAST_PIECES, history_bytes // PIECE_BYTES))
