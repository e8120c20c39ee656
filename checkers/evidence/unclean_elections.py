"""When a loss is attributable to an unclean election: from when, and until when. Such an election, under leader epoch
e, loses records that leaders of lower epochs had and its leader does not have. It loses no record that a leader of e or
later wrote or showed, however long ago; nor one that a leader of a lower epoch lacked. So a loss is attributable to it
if it shows after the election, and if the record was there in an epoch below e and missing in e or above; where no
evidence says in which epoch it was there, if it was there before the last broker acted as leader under a lower epoch.
Until then a deposed leader may still take records and show them. Unless the event logs of all leaders before the
election are there, and whole, that time is not known, and there is no end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F

from checkers.evidence.elections import unclean_elections

WALL_SLACK_NS = 100_000_000
"""How far ZooKeeper's wall clock may be off the harness's, in what decides that something came before an election."""

RESPONSE_NS = 1_000_000_000
"""How long the response of a leader that was deposed meanwhile may have been under way."""


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """from_ns: run time from which it can have cost anything. until_ns: until when somebody led under a lower epoch;
    None where event logs do not show it.
    """

    leader_epoch: int
    from_ns: int
    until_ns: int | None


Unclean = Mapping[str, Sequence[UncleanElection]]
"""Partition → its unclean elections; none where the configuration forbids them."""

NONE: Unclean = {}
_LAST_EPOCH = 2**31 - 1
_KIND = "array<struct<leader_epoch: int, from_ns: bigint, until_ns: bigint>>"


def unclean_of(
    states: DataFrame, timeline: DataFrame, origin_wall_ns: int, whole: Callable[[], AbstractSet[int]]
) -> Unclean:
    """All of a run, with their ends by the event logs. whole: brokers whose event log is there, and whole."""
    rows = unclean_elections(states).select("p", "leader_epoch", "time_ms").collect()
    if not rows:
        return NONE
    mine = F.col("p").isin(*{row.p for row in rows})
    # A follower that reads for a consumer does not act as leader.
    shows = (F.col("e") == "visible") & (F.col("kind") != "follower-fetch")
    acts = (F.col("e") == "ack") | shows | (F.col("e").isin("append", "hw") & (F.col("role") == "leader"))
    acted = timeline.where(acts & mine).groupBy("p", "le").agg(F.max("t_ns").alias("t_ns")).collect()
    led = states.where(mine & (F.col("leader") >= 0)).select("p", "leader", "leader_epoch").distinct().collect()
    whole_logs = whole()
    found: dict[str, list[UncleanElection]] = {}
    for row in sorted(rows, key=lambda row: row.leader_epoch):
        at_ns = row.time_ms * 1_000_000 - origin_wall_ns
        last = max([at_ns, *(one.t_ns for one in acted if one.p == row.p and one.le < row.leader_epoch)])
        before = {one.leader for one in led if one.p == row.p and one.leader_epoch < row.leader_epoch}
        until_ns = last + RESPONSE_NS if before <= whole_logs else None
        found.setdefault(row.p, []).append(UncleanElection(row.leader_epoch, at_ns - WALL_SLACK_NS, until_ns))
    return found


def attributable(
    unclean: Unclean, *, lost_epoch: Column, missed_epoch: Column | None = None, from_ns: Column, to_ns: Column
) -> Column:
    """Of a row with `p`: whether what is lost, or replaced, may be attributable to an unclean election of its
    partition.

    lost_epoch: the highest in which it is known to have been there, missed_epoch: in which it was not; null where not
    known. from_ns: when it was there. to_ns: when it was not.
    """
    missed = F.lit(None).cast("int") if missed_epoch is None else missed_epoch

    def to_this(election: Column) -> Column:
        after = F.coalesce(to_ns >= election["from_ns"], F.lit(True))
        by_then = F.coalesce(election["leader_epoch"] <= missed, F.lit(True))
        in_time = F.coalesce(from_ns <= election["until_ns"], F.lit(True))
        return after & by_then & F.coalesce(lost_epoch < election["leader_epoch"], in_time)

    return F.exists(_of_partition(unclean), to_this) if unclean else F.lit(False)


def taken_back(unclean: Unclean, by_ns: Column) -> Column:
    """Of a row with `p`: whether an unclean election of its partition had come by then."""
    nothing = F.lit(None).cast("bigint")
    return attributable(unclean, lost_epoch=nothing.cast("int"), from_ns=nothing, to_ns=by_ns)


def attributable_to_any(elections: Sequence[UncleanElection], *, from_ns: Column, to_ns: Column) -> Column:
    """Whether what was there at from_ns, and was not at to_ns, may be attributable to one of these, of whichever
    partition it was a record: by time alone.
    """

    def to_this(election: Column) -> Column:
        return (to_ns >= election["from_ns"]) & F.coalesce(from_ns <= election["until_ns"], F.lit(True))

    return F.coalesce(F.exists(_structs(elections), to_this), F.lit(False)) if elections else F.lit(False)


def of_topic(unclean: Unclean, topic: str) -> list[UncleanElection]:
    """Those of all its partitions."""
    return [one for p, found in unclean.items() if p.rpartition("-")[0] == topic for one in found]


def span(there: Column, gone: Column) -> tuple[Column, Column]:
    """(lost_epoch, missed_epoch) of what was there in leader epoch `there`, and not in epoch `gone`; null: not known.

    The second may be the lower one: a deposed leader may go on showing its own log.
    """
    return F.when(there.isNotNull(), F.least(there, gone)), F.when(
        there.isNotNull() & gone.isNotNull(), F.greatest(there, gone)
    )


def epoch_interval(unclean: Unclean, leader_epoch: Column) -> Column:
    """Of a row with `p`: how many unclean elections its partition had up to this leader epoch; null where that is null,
    and it matters.

    Between two of them nothing that was exposed may be lost.
    """
    if not unclean:
        return F.lit(0)
    before = F.filter(_of_partition(unclean), lambda election: election["leader_epoch"] <= leader_epoch)
    return F.when(leader_epoch.isNotNull(), F.size(before))


def to_come(unclean: Unclean, leader_epoch: Column) -> Column:
    """Of a row with `p`: how many unclean elections its partition had after that leader epoch, at most. Of several that
    are gone one that none of them can have taken comes first: nothing excuses it.
    """
    every = epoch_interval(unclean, F.lit(_LAST_EPOCH))
    return every - F.coalesce(epoch_interval(unclean, leader_epoch), F.lit(0))


def with_highest(
    frame: DataFrame,
    unclean: Unclean,
    name: str,
    what: Column,
    keys: Sequence[str],
    order: WindowSpec,
    epoch: str,
    offset: Column,
) -> DataFrame:
    """frame with `name`: the highest `what`, a struct that begins with an offset, of the rows of the same keys that
    order comes to. Of those that stand at the row's own offset or above one that no unclean election parts from the row
    comes first: nothing excuses it. epoch: the name of the leader epoch of a row, which may be null.
    """
    highest = frame.withColumn(name, F.max(what).over(order.partitionBy(*keys)))
    if not unclean:
        return highest
    near = order.partitionBy(*keys, "epoch_interval")
    since = F.when(F.col(epoch).isNotNull(), F.max(what).over(near))
    return (
        highest.withColumn("epoch_interval", epoch_interval(unclean, F.col(epoch)))
        .withColumn("since", since)
        .withColumn(name, F.coalesce(F.when(F.col("since.offset") >= offset, F.col("since")), F.col(name)))
        .drop("epoch_interval", "since")
    )


def last_until(unclean: Unclean) -> Column:
    """Of a row with `p`: the end of its last one; null where it had none, or that end is not known."""
    if not unclean:
        return F.lit(None).cast("bigint")
    elections = _of_partition(unclean)
    return F.get(elections, F.size(elections) - 1)["until_ns"]


def _of_partition(unclean: Unclean) -> Column:
    """Array of struct(leader_epoch, from_ns, until_ns), in order."""
    arrays = F.lit(None)
    for p, elections in unclean.items():
        arrays = F.when(F.col("p") == p, _structs(elections)).otherwise(arrays)
    return F.coalesce(arrays.cast(_KIND), F.array().cast(_KIND))


def _structs(elections: Sequence[UncleanElection]) -> Column:
    return F.array(
        *(
            F.struct(
                F.lit(one.leader_epoch).alias("leader_epoch"),
                F.lit(one.from_ns).cast("bigint").alias("from_ns"),
                F.lit(one.until_ns).cast("bigint").alias("until_ns"),
            )
            for one in elections
        )
    )
