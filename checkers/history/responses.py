"""What a response shows of the log's end, as columns over `requests` of a history; black-box and white-box rules use
them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def is_poll() -> Column:
    return F.col("f") == "poll"


def by_wire() -> Column:
    """Asked by a client of the lab's own, whose lines say all that the response said."""
    return F.coalesce("reader", F.lit("wire")) == "wire"


def by_follower() -> Column:
    """Asked of a follower (KIP-392) by a client of the lab's own: what it says of ends is its own, and lags."""
    return F.col("reader") == "follower"


def by_lab() -> Column:
    """Asked by a client of the lab's own, of whichever replica: it never jumps by itself, and says what it was told."""
    return F.coalesce("reader", F.lit("wire")).isin("wire", "follower")


def imported() -> Column:
    """Whether the row is of a history from elsewhere: how far its polls reached was worked out of their records."""
    return F.coalesce("reader", F.lit("wire")) == "imported"


def requests_latest() -> Column:
    return (F.col("f") == "list_offsets") & (F.col("timestamp") == -1)


def looks_up() -> Column:
    """A ListOffsets that asks for the first record as new as a time."""
    return (F.col("f") == "list_offsets") & (F.col("timestamp") >= 0)


def response_log_start() -> Column:
    """The log start in the response; null where it has none."""
    earliest = (F.col("f") == "list_offsets") & (F.col("timestamp") == -2)
    return F.coalesce("log_start", F.when(earliest, F.col("end_offset")))


def response_epoch() -> Column:
    """Leader epoch of the response."""
    return F.when(requests_latest(), F.col("leader_epoch_answered")).otherwise(F.col("leader_epoch"))


def known_epoch(column: Column) -> Column:
    """Null where the history has -1: not known."""
    return F.when(column >= 0, column)


def answered_in() -> Column:
    """Leader epoch of the response; null where it is not known."""
    return known_epoch(response_epoch())


def carried_end() -> Column:
    """Offset after the last record that a poll returned; null without any, and for all else."""
    return F.when(is_poll() & (F.col("returned") > 0), F.col("last_offset") + 1)


def response_watermark() -> Column:
    """The high watermark in a poll's response; null where it has none, and for all else."""
    return F.when(is_poll(), F.col("hw"))


def stable_end() -> Column:
    """Last stable offset that the response gives; null where it has none."""
    latest = requests_latest() & (F.col("isolation") == 1)
    return F.when(latest, F.col("end_offset")).when(is_poll() & (F.col("lso") >= 0), F.col("lso"))


def shown_stable_end() -> Column:
    """End of what the response shows to be decided: its last stable offset, and under read_committed all that the
    response passed over; null where it shows nothing.
    """
    passed = is_poll() & (F.col("isolation") == 1) & (F.col("next_position") > F.col("position"))
    return F.greatest(stable_end(), F.when(passed, F.col("next_position")))


def shown_end() -> Column:
    """End of what the response shows to be committed; null where it shows nothing. An end offset, or a watermark, shows
    that of all below it, with records or without: the greatest of these counts. A lookup by time shows what it found.
    """
    found = F.when(F.col("end_offset") >= 0, F.col("end_offset") + 1)
    return (
        F.when(requests_latest(), F.col("end_offset"))
        .when(looks_up(), found)
        .otherwise(F.greatest(carried_end(), response_watermark()))
    )


def furthest_shown(requests: DataFrame) -> DataFrame:
    """(p, reached): the highest end that any response of a partition showed."""
    return requests.where(F.col("outcome") == "ok").groupBy("p").agg(F.max(shown_end()).alias("reached"))
