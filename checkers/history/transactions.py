"""What became of each transaction, by what its producer was answered: committed, aborted or not known.

Grain: one row per transaction that a send, a commit of offsets or an `end_txn` names. `fate`: `committed` where an
end_txn with commit came out ok; `aborted`, certainly, where none with commit was invoked or each came out fail; else
`unknown`. A transaction without end_txn is ended by its coordinator, or by the next producer of its id: aborted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


def transactions_table(history: History) -> DataFrame:
    """(txn, fate, commit_op, commit_invoked_ns, committed_ns, end_op).

    commit_invoked_ns: when a commit was first asked for; before that nothing of it may be shown as committed.
    committed_ns: when a commit had come out ok. Null where there is none.
    """
    named = history.sends.where(F.col("txn").isNotNull()).select("txn").distinct()
    of_coordinator = history.coordination.where(F.col("asked.txn").isNotNull()).select(
        F.col("asked.txn").alias("txn"),
        "f",
        "op",
        "outcome",
        "invoke_ns",
        "complete_ns",
        F.col("asked.commit").alias("commit"),
    )
    commit = (F.col("f") == "end_txn") & F.col("commit")
    ok = commit & (F.col("outcome") == "ok")
    ends = of_coordinator.groupBy("txn").agg(
        F.count_if(ok).alias("oks"),
        F.count_if(commit & (F.col("outcome") == "info")).alias("infos"),
        F.min(F.when(commit, F.col("op"))).alias("commit_op"),
        F.min(F.when(commit, F.col("invoke_ns"))).alias("commit_invoked_ns"),
        F.min(F.when(ok, F.col("complete_ns"))).alias("committed_ns"),
        F.max(F.when(F.col("f") == "end_txn", F.col("op"))).alias("end_op"),
    )
    fate = F.when(F.col("oks") > 0, F.lit(COMMITTED)).when(F.col("infos") > 0, F.lit(UNKNOWN)).otherwise(F.lit(ABORTED))
    return (
        named.join(ends, on="txn", how="full_outer")
        .withColumn("fate", fate)
        .select("txn", "fate", "commit_op", "commit_invoked_ns", "committed_ns", "end_op")
    )
