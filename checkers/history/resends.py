"""Which sends a real client may have sent a second time by itself, as columns of a row's send.

Decides nothing of what comes of it: see `checkers.black_box.duplicates`. Rows are of `sends`, whose fields stand beside
`txn`, or have them in a struct, as those of Facts.by_value do (`of`: "send.").
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def sent_by_itself(of: str = "") -> Column:
    """Whether librdkafka may have sent it again by itself: for an acks=all, and with no producer's sequence."""
    by_librdkafka = F.col(f"{of}reader") == "confluent"
    return F.coalesce(by_librdkafka & ~F.col(f"{of}in_order") & (F.col(f"{of}acks") == -1), F.lit(False))


def numbered_anew(of: str = "") -> Column:
    """Whether an idempotent real client may have sent it again under another producer epoch."""
    by_real_client = F.col(f"{of}reader").isin("confluent", "java")
    return F.coalesce(by_real_client & F.col(f"{of}in_order") & F.col("txn").isNull(), F.lit(False))
