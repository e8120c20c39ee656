"""Deleted records: what the acknowledgements of DeleteRecords say, each by itself.

Input grain: one row per delete_records that was acknowledged. These hold:

- *low*: its low watermark is not below the offset that was asked for.
- *beyond*: nothing is acknowledged that lies beyond the end of the log: a high watermark as high was there, and the run
  ends with one at least as high. Else such a deletion would account for every loss.
- *unsent*: nor is what lies beyond as many records as had been sent to the partition by then. Its log reaches no
  further, be it that it does so in the end. Not of a partition that transactions write to, or a real client that may
  send by itself what it has sent (checkers/allowances/expiry.py): more may stand there.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.allowances.expiry import counted, with_more
from checkers.history.load import History
from checkers.history.responses import furthest_shown
from checkers.verdicts.findings import Rule, apply_rules, text

DELETED = "deleted-records"


def answer_findings(history: History, acked: DataFrame) -> DataFrame:
    """acked: deletions that came out ok."""
    begun = history.sends.where(F.col("outcome") != "fail")
    rows = (
        counted(acked, "complete_ns", begun, "invoke_ns", "sent")
        .join(F.broadcast(furthest_shown(history.requests)), on="p", how="left")
        .join(F.broadcast(with_more(history)), on="p", how="left")
        .withColumn("reached", F.coalesce("reached", F.lit(0)))
        .withColumn("sent", F.when(F.col("has_more").isNull(), F.coalesce("sent", F.lit(0))))
    )
    beyond = F.col("before") > F.col("reached")
    said = text("what lies below offset {b} of {p} was said to be deleted", b=F.col("before"), p=F.col("p"))

    def rule(name: str, condition: Column, how: Column) -> Rule:
        return Rule(
            DELETED,
            condition,
            F.concat(said, how),
            name=name,
            offset=F.col("before"),
            ops=[F.col("op")],
            from_ns=F.col("invoke_ns"),
            to_ns=F.col("complete_ns"),
        )

    return apply_rules(
        rows,
        [
            rule(
                "low",
                F.col("low_watermark") < F.col("before"),
                text(" with the low watermark at {l}", l=F.col("low_watermark")),
            ),
            rule(
                "beyond",
                beyond,
                text(", and no response of the run shows its log to reach beyond {r}", r=F.col("reached")),
            ),
            rule(
                "unsent",
                ~beyond & (F.col("before") > F.col("sent")),
                text(", and no more than {n} records had been sent there by then", n=F.col("sent")),
            ),
        ],
    )
