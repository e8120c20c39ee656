"""A session beside another one, with the same data and memory, for queries over few rows of a long job.

Without code generation, replanning and shuffles, as a short job has it (`session`): each of the checkers' large plans
costs seconds to compile, which rows by the hundred thousand do not pay back.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

_BRIEF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def brief_session(session: SparkSession) -> SparkSession:
    """It ends with the other one."""
    brief = session.newSession()
    for name, value in _BRIEF.items():
        brief.conf.set(name, value)
    return brief
