"""What the white-box rules read: the evidence tables of a run, and the timeline that most rules share.

The timeline is the event log of each (broker, incarnation, partition) in the order of `s`, each line with what was in
force just before it: the last leader epoch and HW taken by this broker as leader, the committed ISR, the LEO. One
sort serves six rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.evidence.event_log_gaps import whole_logs
from checkers.evidence.touched_files import NOTHING_TOUCHED, TouchedFiles, touched_files
from checkers.evidence.unclean_elections import NONE, Unclean, epoch_interval, unclean_of
from checkers.evidence.znodes import Znodes
from checkers.history.load import History
from checkers.history.remade import life_of
from checkers.history.retention import Expiry
from checkers.history.run_info import RunInfo
from checkers.spark.tables import kept

_IN_TIMELINE = (
    "recovered",
    "become_leader",
    "become_follower",
    "append",
    "truncate",
    "hw",
    "isr_propose",
    "isr_commit",
    "ack",
    "visible",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """events, batches, checkpoints: schema.EVENTS (readable lines), BATCH, CHECKPOINT. epochs: see `epochs_table`.

    segment_nodes: nodes whose log folders were copied whole; what the others hold is not known, and a part of it would
    look like a log with a gap, or one that ends too soon. touched: which files faults damaged. unclean: elections from
    outside the ISR, where the configuration allows them. expiry: what retention can have deleted. lives: topics that
    were made anew, each by the name of its last life, whose replicas are there in the end.
    """

    info: RunInfo
    history: History
    events: DataFrame
    timeline: DataFrame
    fetches: DataFrame
    epochs: DataFrame
    znodes: Znodes
    batches: DataFrame
    checkpoints: DataFrame
    segment_nodes: tuple[str, ...]
    touched: TouchedFiles = NOTHING_TOUCHED
    unclean: Unclean = field(default_factory=dict)
    expiry: Expiry | None = None
    lives: tuple[str, ...] = ()

    def sound(self) -> Column:
        """Of a row with `node` and `p`: the replica's files were copied whole, and as its broker left them."""
        return F.col("node").isin(*self.segment_nodes) & self.touched.spared()

    def lasting(self) -> Column:
        """Of a row with `p`: a partition that the run has from some time on until its end, and whose replicas' files
        can be held against each other.
        """
        of_the_run = F.col("p").isin(*self.info.partitions)
        return of_the_run | F.coalesce(life_of().isin(*self.lives), F.lit(False)) if self.lives else of_the_run


def told_to_go() -> Column:
    """Of an event: the broker was told to delete its replica."""
    return (F.col("e") == "stop_replica") & F.coalesce("delete", F.lit(True))


def build_evidence(
    info: RunInfo,
    history: History,
    events: DataFrame,
    znodes: Znodes,
    batches: DataFrame,
    checkpoints: DataFrame,
    segment_nodes: Sequence[str],
    expiry: Expiry | None = None,
    lives: Sequence[str] = (),
) -> Evidence:
    timeline = kept(build_timeline(events))
    unclean = NONE
    if info.unclean:
        whole = partial(whole_logs, history, events, timeline, znodes.registrations)
        unclean = unclean_of(znodes.states, timeline, info.origin_wall_ns, whole)
    touched = touched_files(history.marks)
    # A fault names a folder, which says the topic's name alone.
    damaged = {p.rpartition("-")[0] for p in touched.partitions()}
    return Evidence(
        info,
        history,
        events,
        timeline,
        received_fetches(events),
        kept(epochs_table(timeline, unclean)),
        znodes,
        batches,
        checkpoints,
        tuple(segment_nodes),
        touched,
        unclean,
        expiry,
        tuple(life for life in lives if life.partition("~")[0] not in damaged),
    )


FOLLOWER_FETCH = "follower-fetch"
"""`kind` of a line `visible` of a follower that reads for a consumer (KIP-392)."""


def build_timeline(events: DataFrame) -> DataFrame:
    """Lines about one partition, with `was_*`: what was in force just before the line, in the same incarnation.

    was_leader: struct(le, hw), the highest HW of the latest epoch in which this broker took or advanced it as leader.
    was_isr: the committed ISR of its last leadership, was_pe: the version of that. was_hw: its HW in whichever role,
    which a cut lowers. was_leo: its log end (own_leo: what the line itself makes it).
    was_le: its last role's epoch. role_le: the same, but null again once the log was opened anew (a topic deleted and
    made again counts its epochs from 0). tail: struct(le, end), of the last batch that it appended: its epoch, and the
    end of the log then; le null once the log was cut, both null once it was opened. taught_le: the epoch in which
    its HW last rose.
    """
    lines = events.where(F.col("p").isNotNull() & F.col("e").isin(*_IN_TIMELINE))
    before = Window.partitionBy("b", "i", "p").orderBy("s").rowsBetween(Window.unboundedPreceding, -1)
    takes_hw = (F.col("e") == "become_leader") | ((F.col("e") == "hw") & (F.col("role") == "leader"))
    takes_isr = F.col("e").isin("become_leader", "isr_commit")
    takes_role = F.col("e").isin("become_leader", "become_follower")
    role = F.when(takes_role | (F.col("e") == "recovered"), F.struct(F.when(takes_role, F.col("le")).alias("le")))
    leo = (
        F.when(F.col("e") == "append", F.col("last") + 1)
        .when(F.col("e") == "truncate", F.col("to"))
        .when(F.col("e").isin("recovered", "become_leader", "become_follower"), F.col("leo"))
    )
    tail = F.when(
        F.col("e").isin("append", "truncate", "recovered"),
        F.struct(
            F.when(F.col("e") == "append", F.col("le")).alias("le"),
            F.when(F.col("e") != "recovered", leo).alias("end"),
        ),
    )
    # To begin anew above the log's end raises it: what lies below is committed, and deleted.
    cut_to = F.when(F.col("to") > F.col("from_leo"), F.col("to")).otherwise(F.least("hw", "to"))
    own_hw = F.when(F.col("e") == "truncate", cut_to).when(takes_role | F.col("e").isin("recovered", "hw"), F.col("hw"))
    return lines.select(
        "node",
        "b",
        "i",
        "s",
        "t_ns",
        "e",
        "p",
        "le",
        "pe",
        "leader",
        "role",
        "hw",
        "leo",
        "log_start",
        "epoch_start",
        "isr",
        "maximal",
        "leos",
        "base",
        "last",
        "acks",
        "min_isr",
        "upto",
        "kind",
        "reason",
        "bes",
        "from_leo",
        "to",
        "in_isr",
        leo.alias("own_leo"),
        F.max(F.when(takes_hw, F.struct("le", "hw"))).over(before).alias("was_leader"),
        F.last(F.when(takes_isr, F.col("isr")), ignorenulls=True).over(before).alias("was_isr"),
        F.last(F.when(takes_isr, F.col("pe")), ignorenulls=True).over(before).alias("was_pe"),
        F.last(own_hw, ignorenulls=True).over(before).alias("was_hw"),
        F.last(leo, ignorenulls=True).over(before).alias("was_leo"),
        F.last(F.when(takes_role, F.col("le")), ignorenulls=True).over(before).alias("was_le"),
        F.last(role, ignorenulls=True).over(before).getField("le").alias("role_le"),
        F.last(tail, ignorenulls=True).over(before).alias("tail"),
        F.last(F.when(F.col("e") == "hw", F.col("le")), ignorenulls=True).over(before).alias("taught_le"),
    )


def received_fetches(events: DataFrame) -> DataFrame:
    """(b, i, s, rid, follower, p, offset, le): one row per partition named in a follower's fetch, at the leader."""
    return _parts(events, "fetch_received", "follower")


def sent_fetches(events: DataFrame) -> DataFrame:
    """(b, i, s, rid, leader, p, offset, le): the same, at the follower."""
    return _parts(events, "fetch_sent", "leader")


def _parts(events: DataFrame, event: str, *extra: str) -> DataFrame:
    return (
        events.where(F.col("e") == event)
        .select("node", "b", "i", "s", "t_ns", "rid", *extra, F.explode("parts").alias("part"))
        .select(
            "node",
            "b",
            "i",
            "s",
            "t_ns",
            "rid",
            *extra,
            F.get("part", F.lit(0)).alias("p"),
            F.get("part", F.lit(1)).try_cast("bigint").alias("offset"),
            F.get("part", F.lit(2)).try_cast("int").alias("le"),
        )
    )


def epochs_table(timeline: DataFrame, unclean: Unclean = NONE) -> DataFrame:
    """(p, le, leader_hw, follower, actors, exposed, earlier, since, …): one row per leader epoch of a partition.

    leader_hw: the highest HW taken as leader. follower: struct of the highest HW taken as follower. actors:
    incarnations that led. exposed: the highest HW taken, shown or acknowledged. earlier: struct(exposed, le), the
    highest of all lower epochs. since: the same of those that no unclean election parts from this one.
    """
    leads = (F.col("e") == "become_leader") | ((F.col("e") == "append") & (F.col("role") == "leader"))
    advances = (F.col("e") == "hw") & (F.col("role") == "leader")
    followed = (F.col("e") == "hw") & (F.col("role") == "follower")
    shown = (
        F.when(advances, F.col("hw"))
        .when(F.col("e") == "visible", F.col("upto"))
        .when((F.col("e") == "ack") & (F.col("acks") == -1), F.col("last") + 1)
    )
    below = Window.partitionBy("p").orderBy("le").rowsBetween(Window.unboundedPreceding, -1)
    in_interval = Window.partitionBy("p", "epoch_interval").orderBy("le").rowsBetween(Window.unboundedPreceding, -1)
    highest = F.max(F.when(F.col("exposed").isNotNull(), F.struct("exposed", "le")))
    return (
        timeline.where(F.col("le").isNotNull())
        .groupBy("p", "le")
        .agg(
            F.max(F.when(advances | (F.col("e") == "become_leader"), F.col("hw"))).alias("leader_hw"),
            F.max(F.when(followed, F.struct("hw", "b", "i", "s", "t_ns"))).alias("follower"),
            F.collect_set(F.when(leads, F.concat_ws("/", "b", "i"))).alias("actors"),
            F.max(shown).alias("exposed"),
            F.min(F.when(leads, F.col("t_ns"))).alias("from_ns"),
            F.max(F.when(leads, F.col("t_ns"))).alias("to_ns"),
        )
        .withColumn("epoch_interval", epoch_interval(unclean, F.col("le")))
        .withColumn("earlier", highest.over(below))
        .withColumn("since", highest.over(in_interval))
    )


def transaction_ns(evidence: Evidence) -> Column:
    """`time_ms` of a transaction as run time; ZooKeeper's clock is a wall clock, good to the skew of its node."""
    return F.col("time_ms") * 1_000_000 - F.lit(evidence.info.origin_wall_ns)
