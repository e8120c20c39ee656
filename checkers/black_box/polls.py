"""What consecutive polls and the inside of one poll say: vanished read, skips, steps back.

Inside one response: every offset that any poll ever read and that lies in [position, next_position) must be in the
response; under read_committed every one that such a poll read, or that holds a record of no transaction. If it is not
and had been read before, it *vanished*; otherwise the response *skipped* it (int-poll-skip).
So it is not where a real client jumped to a log start that had moved, and retention or a request can have deleted the
record by then, inside a poll or between two (`jumps`). Offsets out of order or outside of the range are an
int-nonmonotonic poll, and so are leader epochs that fall from one record to the next, or are above that of the leader,
or follower, that answered: a log is written in one epoch after another, and nobody has a record of an epoch to come
(KIP-101). Between polls the wire reader chooses its position, as `assign` does, so a jump there is counted
and is no finding; a client that keeps its position itself is judged by the position that it reports
(`client_position`), where the history has it. Right after a poll that is the next position by definition; it is
evidence where something may have moved it: after a change of leader, or a poll that failed, while there is load.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts, seen_in
from checkers.black_box.jumps import gone_by_then
from checkers.black_box.offsets import VANISHED
from checkers.evidence.unclean_elections import span
from checkers.history.responses import by_lab, known_epoch
from checkers.spark.tables import one_piece
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

INT_SKIP = "int-poll-skip"
SKIP = "poll-skip"
INT_NONMONOTONIC = "int-nonmonotonic-poll"
NONMONOTONIC = "nonmonotonic-poll"


def poll_checks(facts: Facts) -> Family:
    polls = facts.history.requests.where(F.col("f") == "poll")
    ok = F.col("outcome") == "ok"
    order = Window.partitionBy("p", "consumer").orderBy("op")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    stepped = (
        polls.withColumn(
            "previous",
            F.last(F.when(ok, F.struct("next_position", "op", "node", "complete_ns")), ignorenulls=True).over(before),
        )
        .withColumn("previous_next", F.col("previous.next_position"))
        .withColumn("previous_op", F.col("previous.op"))
        .withColumn("previous_ns", F.col("previous.complete_ns"))
        .withColumn("tried", F.lag("outcome").over(order))
        .where(ok)
    )
    moved = (F.col("node") != F.col("previous.node")) | (F.col("previous_op").isNotNull() & (F.col("tried") != "ok"))
    # Where a subscribed consumer goes on is its own affair at each poll; who leads it is not known of it.
    subscribed = F.col("group").isNotNull() & F.col("previous_op").isNotNull()
    risked = F.col("client_position").isNotNull() & (F.col("phase") == "main") & (moved | subscribed)
    ranked = _ranked(stepped, facts.by_offset)
    gaps = ranked.where(F.col("rank_next") - F.col("rank_position") > F.col("in_range"))
    own = F.col("client_position")
    jumped = ranked.where((own > F.col("previous_next")) & (F.col("rank_own") > F.col("rank_previous")))
    back = ranked.where(own < F.col("previous_next"))
    outside = (F.col("first_offset") < F.col("position")) | (F.col("last_offset") >= F.col("next_position"))
    disorder = ranked.where((F.col("returned") > 0) & (~F.col("ascending") | outside))
    to_come = F.col("highest_epoch") > known_epoch(F.col("leader_epoch"))
    written = ranked.where(~F.col("epochs_ascend") | to_come)
    found = [
        _gap_findings(gaps, facts),
        _poll_finding(
            _over_records(jumped, facts),
            SKIP,
            "consumer {c} jumped from {b} to {a} over records that others read",
            "client_position",
            "previous_next",
        ),
        _poll_finding(back, NONMONOTONIC, "consumer {c} went back from {b} to {a}", "client_position", "previous_next"),
        _poll_finding(
            disorder,
            INT_NONMONOTONIC,
            "a poll of consumer {c} from position {a} returned offsets out of order or out of its range, up to {b}",
            "position",
            "last_offset",
        ),
        _poll_finding(
            written,
            INT_NONMONOTONIC,
            "a poll of consumer {c} from position {a} returned records of leader epochs up to {b} that fall, or are "
            "above the epoch of the answer",
            "position",
            "highest_epoch",
        ),
    ]
    per_partition = ranked.groupBy("p").agg(
        F.count(F.lit(1)).alias("polls"),
        F.count_if(F.col("rank_next") - F.col("rank_position") > F.col("in_range")).alias("gaps"),
        F.count_if(F.col("position") > F.col("previous_next")).alias("jumps"),
        F.count_if(F.col("position") < F.col("previous_next")).alias("steps_back"),
        F.count_if(risked).alias("own_positions"),
    )
    return Family(
        union(found),
        figures(
            per_partition,
            {
                (VANISHED, "polls"): F.col("polls"),
                (INT_SKIP, "polls"): F.col("polls"),
                (INT_SKIP, "polls_with_gaps"): F.col("gaps"),
                (SKIP, "own_positions"): F.col("own_positions"),
                (SKIP, "seeks_forward"): F.col("jumps"),
                (NONMONOTONIC, "own_positions"): F.col("own_positions"),
                (NONMONOTONIC, "seeks_back"): F.col("steps_back"),
                (INT_NONMONOTONIC, "polls"): F.col("polls"),
            },
        ),
    )


def _ranked(polls: DataFrame, by_offset: DataFrame) -> DataFrame:
    """polls with the number of offsets ever read below their position, next position, predecessor's end and what the
    client says that its position is; null where neither can be too many: a poll has no gap that returned as many
    offsets as it passed over, and no client jumped that does not say so.
    """
    doubtful = polls.where(
        (F.col("next_position") - F.col("position") > F.col("in_range"))
        | (F.col("client_position") > F.col("previous_next"))
    )
    return polls.join(_ranks(doubtful, by_offset), on="op", how="left")


def _ranks(polls: DataFrame, by_offset: DataFrame) -> DataFrame:
    """(op, rank_position, rank_next, rank_previous, rank_own) of polls, see `_ranked`."""
    known = by_offset.where("is_read").select(
        "p",
        "offset",
        F.lit(1).alias("known"),
        F.col("shown").cast("int").alias("shown"),
        F.lit(None).cast("bigint").alias("op"),
        F.lit(None).cast("string").alias("which"),
        F.lit(None).cast("int").alias("isolation"),
    )
    points = polls.select(
        "p",
        "op",
        "isolation",
        F.explode(
            F.array(
                F.struct(F.lit("position").alias("which"), F.col("position").alias("offset")),
                F.struct(F.lit("next").alias("which"), F.col("next_position").alias("offset")),
                F.struct(F.lit("previous").alias("which"), F.col("previous_next").alias("offset")),
                F.struct(F.lit("own").alias("which"), F.col("client_position").alias("offset")),
            )
        ).alias("point"),
    ).select(
        "p",
        F.col("point.offset").alias("offset"),
        F.lit(0).alias("known"),
        F.lit(0).alias("shown"),
        "op",
        F.col("point.which").alias("which"),
        "isolation",
    )
    points = points.where(F.col("offset").isNotNull())
    # A point stands before the record at its own offset: ranks count what lies strictly below.
    below = Window.partitionBy("p").orderBy("offset", "known").rowsBetween(Window.unboundedPreceding, 0)
    return (
        known.unionByName(points)
        .transform(one_piece)
        .withColumn(
            "rank", F.when(F.col("isolation") == 1, F.sum("shown").over(below)).otherwise(F.sum("known").over(below))
        )
        .where(F.col("op").isNotNull())
        .groupBy("op")
        .agg(
            *[
                F.max(F.when(F.col("which") == which, F.col("rank"))).alias(f"rank_{which}")
                for which in ("position", "next", "previous", "own")
            ]
        )
    )


def _over_records(jumped: DataFrame, facts: Facts) -> DataFrame:
    """Those rows whose jump between two polls passed over a record that was read, and that may not have been deleted by
    then: the last before where it landed, for a log loses its head.
    """
    if facts.expiry is None:
        return jumped
    known = facts.by_offset.where("is_read").select(F.col("p").alias("known_p"), F.col("offset").alias("known"))
    last = (
        jumped.join(
            known,
            on=(F.col("p") == F.col("known_p"))
            & (F.col("known") >= F.col("previous_next"))
            & (F.col("known") < F.col("client_position")),
            how="inner",
        )
        .groupBy("p", "op", F.col("complete_ns").alias("gone_ns"))
        .agg(F.max("known").alias("offset"))
    )
    gone = gone_by_then(facts.expiry, last, facts.by_value, facts.history).where("gone")
    return jumped.join(gone.select("op"), on="op", how="left_anti")


def _gap_findings(gaps: DataFrame, facts: Facts) -> DataFrame:
    """One row per (poll, offset) that the poll passed over although some poll read it.

    By ranks, which have no gaps: which of the offsets that were read it had to return, less those that it returned. Its
    cost goes with what these polls returned and missed.
    """
    of_level = F.when(F.col("shown"), F.array(F.lit(0), F.lit(1))).otherwise(F.array(F.lit(0)))
    upto = Window.partitionBy("p").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    known = (
        facts.by_offset.where("is_read")
        .withColumn("rank_0", F.count(F.lit(1)).over(upto) - 1)
        .withColumn("rank_1", F.sum(F.col("shown").cast("int")).over(upto) - 1)
        .select("p", "offset", "first_read_ns", "low", "rank_0", "rank_1", F.explode(of_level).alias("isolation"))
        .withColumn("rank", F.when(F.col("isolation") == 1, F.col("rank_1")).otherwise(F.col("rank_0")))
        .drop("rank_0", "rank_1")
    )
    missing = (
        gaps.select(
            "p",
            "op",
            "isolation",
            "invoke_ns",
            "complete_ns",
            "consumer",
            by_lab().alias("wire"),
            known_epoch(F.col("leader_epoch")).alias("missed_in"),
            F.explode(F.sequence(F.col("rank_position"), F.col("rank_next") - 1)).alias("rank"),
        )
        .join(known, on=["p", "isolation", "rank"], how="inner")
        .join(facts.history.polls.select("op", "offset"), on=["op", "offset"], how="left_anti")
    )
    # The lab's own readers do not jump: they fail, and say where they begin anew.
    landed = missing.withColumn("gone_ns", F.when(~F.col("wire"), F.col("complete_ns")))
    missing = gone_by_then(facts.expiry, landed, facts.by_value, facts.history).where(~F.col("gone"))
    vanished = F.col("first_read_ns") < F.col("invoke_ns")
    read_ns, there = F.col("first_read_ns"), F.lit(None).cast("int")
    if facts.unclean:
        missing = missing.join(_there_before(missing, facts), on=["op", "offset"], how="left")
        missing = missing.withColumn("low", F.coalesce(F.struct("latest.value", "latest.op"), F.col("low")))
        read_ns, there = F.coalesce("latest.at_ns", "first_read_ns"), F.col("seen_in")
    lost_epoch, missed_epoch = span(there, F.col("missed_in"))
    return apply_rules(
        missing,
        [
            Rule(
                F.when(vanished, F.lit(VANISHED)).otherwise(F.lit(INT_SKIP)),
                F.lit(True),
                F.concat(
                    text("value {v} of {p} offset {o} was ", v=F.col("low.value"), p=F.col("p"), o=F.col("offset")),
                    F.when(
                        vanished, F.lit("read before, and a later poll passed over it without returning it")
                    ).otherwise(F.lit("passed over by a poll that did not return it, and read by another")),
                ),
                offset=F.col("offset"),
                value=F.col("low.value"),
                ops=[F.col("low.op"), F.col("op")],
                from_ns=F.least(read_ns, F.col("invoke_ns")),
                to_ns=F.greatest("first_read_ns", "complete_ns"),
                lost_epoch=lost_epoch,
                missed_epoch=missed_epoch,
            )
        ],
    )


def _there_before(missing: DataFrame, facts: Facts) -> DataFrame:
    """(op, offset, latest, seen_in): what had been read there last before the poll was begun, and the highest leader
    epoch in which anything had; of any read there where none came before.
    """
    reads = facts.history.polls.select(
        "p",
        "offset",
        F.struct(F.col("complete_ns").alias("at_ns"), "value", "op").alias("read"),
        seen_in().alias("seen"),
    )
    before = F.col("read.at_ns") < F.col("invoke_ns")
    return (
        missing.select("p", "op", "offset", "invoke_ns", "first_read_ns")
        .join(reads, on=["p", "offset"], how="inner")
        .where(before | (F.col("first_read_ns") >= F.col("invoke_ns")))
        .groupBy("op", "offset")
        .agg(F.max(F.when(before, F.col("read"))).alias("latest"), F.max("seen").alias("seen_in"))
    )


def _poll_finding(rows: DataFrame, checker: str, template: str, at: str, other: str) -> DataFrame:
    return apply_rules(
        rows,
        [
            Rule(
                checker,
                F.lit(True),
                text(template, c=F.col("consumer"), a=F.col(at), b=F.col(other)),
                offset=F.col(at),
                ops=[F.col("previous_op"), F.col("op")],
                from_ns=F.coalesce("previous_ns", "invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
