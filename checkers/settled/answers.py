"""What answers say of a log, as far as it decides what is settled: a row a request.

In words of `checkers.history.responses`, so that a rule and what is left out for it mean the same.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.black_box.ends_told import OUT_OF_RANGE, told_end
from checkers.history.responses import by_wire, is_poll, requests_latest, response_watermark

ANSWERS = "answers"


def answers_of(requests: DataFrame) -> DataFrame:
    """(p, op, kind, position, next, first, last, own, consumer, invoke, complete, told, bound, phase, leader, reader).

    kind: bits of POLL, OK, PLAIN, FULL. told: the end that an ok answer told. bound: an acknowledgement from before the
    request of something above it contradicts the answer, or makes it stale. own: `client_position`. phase, leader,
    reader: of a drain's poll that passed over something.
    """
    ok, poll = F.col("outcome") == "ok", is_poll()
    kind = _bit(poll, POLL) + _bit(ok, OK) + _bit(poll & ok & _is_plain(), PLAIN) + _bit(F.col("returned") > 0, FULL)
    passed = poll & ok & (F.col("next_position") > F.col("position")) & F.col("phase").startswith("drain")
    return requests.select(
        "p",
        "op",
        kind.alias("kind"),
        "position",
        F.col("next_position").alias("next"),
        F.col("first_offset").alias("first"),
        F.col("last_offset").alias("last"),
        F.col("client_position").alias("own"),
        F.when(poll, F.col("consumer")).alias("consumer"),
        F.col("invoke_ns").alias("invoke"),
        F.col("complete_ns").alias("complete"),
        F.when(ok, told_end()).alias("told"),
        _bound().alias("bound"),
        F.when(passed, F.col("phase")).alias("phase"),
        F.when(passed, F.col("node")).alias("leader"),
        F.when(passed, F.col("reader")).alias("reader"),
    )


POLL, OK, PLAIN, FULL = 1, 2, 4, 8
"""A poll; one that was answered without an error; that returned all offsets from its position to its next one, once and
in order; that returned some.
"""
TEXTS = ("consumer", "phase", "leader", "reader")


def _bound() -> Column:
    """Rules that hold acknowledgements against answers: read-above-hw, refused-read, nonmonotonic-end, staleness."""
    ok, poll = F.col("outcome") == "ok", is_poll()
    watermark = F.when(ok, F.when(requests_latest(), F.col("end_offset")).otherwise(response_watermark()))
    refused = F.when(poll & ~ok & (F.col("error") == OUT_OF_RANGE), F.col("position") - 1)
    at_end = F.when(poll & ok & (F.col("next_position") >= F.col("hw")), F.col("next_position"))
    return F.when(by_wire(), F.least(watermark, refused, at_end))


def _bit(is_so: Column, bit: int) -> Column:
    return F.when(is_so, F.lit(bit)).otherwise(F.lit(0))


def _is_plain() -> Column:
    wide = F.col("next_position") - F.col("position")
    plain = (
        (F.col("returned") == wide)
        & (F.col("in_range") == wide)
        & F.col("ascending")
        & ((wide == 0) | (F.col("first_offset") == F.col("position")))
        & ((wide == 0) | (F.col("last_offset") == F.col("next_position") - 1))
    )
    return F.coalesce(plain, F.lit(False))
