"""Frames that the checkers of groups share: commits and fetches by partition, joins and syncs, and what the node that
answered must have known by then.

A coordinator that was deposed and does not know it still answers reads (OffsetFetch, a SyncGroup of a stable group, a
JoinGroup of a follower, a Heartbeat) from what it has in memory: such an answer is stale, and legal. It cannot
acknowledge a commit, which takes the in-sync replicas, nor answer a sync of a generation that it has not read or
stored. So a node *must know* what it answered itself before, and everything that had been acknowledged, by whichever
node, when a commit of the group began that this node acknowledged before the read, or when the first sync was sent of
a generation in which it had answered one: what its leader assigned is stored behind all that. Of a real client's
requests it is not known who answered: they are no such proof, and have none.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.load import History
from checkers.spark.latest import latest
from checkers.spark.tables import kept, one_piece


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """commits, fetches: one row per operation and partition (`p`, `committed`); commits of all outcomes. joins, syncs,
    beats (heartbeats): of those that came out ok, one row each (`generation`; of a sync `partitions`). ids: one row per
    join without a member id that was given one (`member`). begun(group, generation, begun_ns): when the first sync of a
    generation was sent, be it that nobody answered it.
    """

    history: History
    commits: DataFrame
    fetches: DataFrame
    joins: DataFrame
    syncs: DataFrame
    beats: DataFrame
    ids: DataFrame
    begun: DataFrame


def build_group_facts(history: History) -> GroupFacts:
    rows = history.coordination.where(F.col("asked.group").isNotNull())
    who = [F.col(f"asked.{name}").alias(name) for name in ("group", "member", "instance")]
    when = ["op", "f", "phase", "node", "outcome", "invoke_ns", "complete_ns"]
    offset = [F.col("one.p").alias("p"), F.col("one.offset").alias("committed")]
    asked = F.col("asked.generation").alias("generation")
    commits = (
        rows.where(F.col("f").isin("commit_offsets", "txn_offsets"))
        .select(*when, *who, asked, F.explode("asked.offsets").alias("one"))
        .select(*when, "group", "member", "instance", "generation", *offset)
        # What is part of a transaction counts when that ends, if it does.
        .withColumn(
            "outcome",
            F.when((F.col("f") == "txn_offsets") & (F.col("outcome") == "ok"), "info").otherwise(F.col("outcome")),
        )
    )
    ok = rows.where(F.col("outcome") == "ok")
    fetches = (
        ok.where(F.col("f") == "fetch_offsets")
        .select(*when, *who, F.explode("answered.offsets").alias("one"))
        .select(*when, "group", *offset)
    )
    joins = ok.where(F.col("f") == "join").select(
        *when,
        F.col("asked.group").alias("group"),
        F.col("asked.instance").alias("instance"),
        F.col("answered.member").alias("member"),
        F.col("answered.generation").alias("generation"),
    )
    syncs = ok.where(F.col("f") == "sync").select(*when, *who, asked, F.col("answered.partitions").alias("partitions"))
    beats = ok.where(F.col("f") == "heartbeat").select(*when, *who, asked)
    # A member that is new is given its id together with an error (KIP-394).
    ids = rows.where((F.col("f") == "join") & (F.col("asked.member") == "") & (F.col("answered.member") != "")).select(
        *when, F.col("asked.group").alias("group"), F.col("answered.member").alias("member")
    )
    sent = rows.where(F.col("f") == "sync").select(F.col("asked.group").alias("group"), asked, "invoke_ns")
    begun = sent.groupBy("group", "generation").agg(F.min("invoke_ns").alias("begun_ns"))
    return GroupFacts(history, kept(commits), kept(fetches), kept(joins), kept(syncs), beats, ids, kept(begun))


def with_proof(facts: GroupFacts, readers: DataFrame) -> DataFrame:
    """readers(group, node, invoke_ns, …) with `proven_ns`: all that was over by then this node had read when it was
    asked, by the commits that it had acknowledged and the generations of which it had answered a sync. Null: nothing.
    """
    acked = (
        facts.commits.where((F.col("outcome") == "ok") & F.col("node").isNotNull())
        .select("group", "node", "complete_ns", "invoke_ns")
        .distinct()
    )
    synced = (
        facts.syncs.where(F.col("node").isNotNull())
        .join(facts.begun, on=["group", "generation"], how="inner")
        .select("group", "node", "complete_ns", F.col("begun_ns").alias("invoke_ns"))
    )
    proofs = acked.unionByName(synced).transform(one_piece)
    return latest(["group", "node"], proofs, readers, F.col("invoke_ns"), "invoke_ns", "proven_ns")


def known(
    facts: GroupFacts, keys: list[str], told: DataFrame, readers: DataFrame, fact: Column, name: str
) -> DataFrame:
    """readers, which have `proven_ns`, with `name`: the greatest fact that the node that answered must have known."""
    here = latest([*keys, "node"], told.where(F.col("node").isNotNull()), readers, fact, "invoke_ns", "_here")
    anywhere = latest(keys, told, here, fact, "proven_ns", "_anywhere")
    return anywhere.withColumn(name, F.greatest("_here", "_anywhere")).drop("_here", "_anywhere")
