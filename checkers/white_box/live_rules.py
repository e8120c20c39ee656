"""Rule 15: who gets into an ISR, and how.

Input grain: one row per (version of a partition's state, broker that it grants a place). An expansion, under the leader
epoch of before, grants one to the broker that it adds: by a proposal of the leader, whose event log has that proposal.
An election, under a new leader epoch, grants all of its ISR anew and adds nobody: it takes out, or it takes one replica
alone, that is eligible (docs/adr/0010) or whose election was unclean; rule 1 decides which of them it was. Whoever is
granted a place is registered then. A controller may write a moment after that ended, by at most the session's time-out:
later than that its own session would have ended too. It may take brokers that are gone out one by one, each under a new
leader epoch of the leader that stays (Kafka's does: ZkReplicaStateMachine); what such a write keeps is judged by the
ones that follow it. New topics are not judged.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence, transaction_ns
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text

LIVE_ISR = "live-isr"


def live_rules(evidence: Evidence) -> Family:
    """Every place in an ISR that a version of a partition's state grants, held against registrations and proposals."""
    grace_ms = evidence.info.session_timeout_ms
    states = evidence.znodes.states
    places = _with_lives(_places(states), evidence.znodes.registrations)
    judged = (
        places.withColumn("members", F.array_sort("isr"))
        .join(_proposals(evidence), on=["p", "leader_epoch", "version", "members"], how="left")
        .join(_logged_up_to(evidence), on=["p", "leader"], how="left")
        .join(_going(states, grace_ms), on=["p", "zxid", "b"], how="left")
    )
    at_ns = transaction_ns(evidence)
    found = apply_rules(
        judged,
        [_dead(grace_ms, at_ns), _added_by_election(at_ns), _not_proposed(at_ns), _other_broker_epoch(grace_ms, at_ns)],
    )
    return Family(found, _figures(states, places, grace_ms))


def _rule(when: Column, detail: Column, at_ns: Column) -> Rule:
    where = text("{p} version {v}: ", p=F.col("p"), v=F.col("version"))
    return Rule(LIVE_ISR, when, F.concat(where, detail), from_ns=at_ns, to_ns=at_ns)


def _dead(grace_ms: int, at_ns: Column) -> Rule:
    """A broker that is granted a place is registered, or was until a session's time-out ago, or is being taken out."""
    dead = (F.col("dead_ms").isNull() | (F.col("dead_ms") > grace_ms)) & F.col("going").isNull()
    who = F.when(F.col("added"), text("broker {b} entered the ISR", b=F.col("b"))).otherwise(
        text("an election left broker {b} in the ISR", b=F.col("b"))
    )
    since = text(", though it was not registered (for {d} ms)", d=F.col("dead_ms"))
    return _rule(dead, F.concat(who, since), at_ns)


def _added_by_election(at_ns: Column) -> Rule:
    """An election adds nobody, but a leader that is the whole ISR afterwards."""
    alone = (F.col("b") == F.col("leader")) & (F.size("isr") == 1)
    detail = text(
        "an election (leader {l}, epoch {e}) put broker {b} into the ISR {i}, which was {w} before",
        l=F.col("leader"),
        e=F.col("leader_epoch"),
        b=F.col("b"),
        i=F.col("isr"),
        w=F.col("was"),
    )
    return _rule(F.col("by_election") & F.col("added") & ~alone, detail, at_ns)


def _not_proposed(at_ns: Column) -> Rule:
    """An expansion is proposed by the leader, whose event log has the proposal if it has anything of that version or
    later.
    """
    # A topic made anew counts its versions from 0 again: a line does not say which of its lives it is of.
    leader_knew = (F.col("generation") <= 1) & (
        F.col("logged") >= F.struct(F.col("leader_epoch").alias("le"), F.col("version").alias("pe"))
    )
    detail = text(
        "broker {b} entered the ISR {i}, and its leader {l}, whose event log tells of later, had proposed no such ISR",
        b=F.col("b"),
        i=F.col("isr"),
        l=F.col("leader"),
    )
    return _rule(~F.col("by_election") & F.col("bes").isNull() & leader_knew, detail, at_ns)


def _other_broker_epoch(grace_ms: int, at_ns: Column) -> Rule:
    """An expansion is proposed for the registration that the broker has then, or had until moments ago."""
    replaced_ms = F.col("time_ms") - F.col("life.created_ms")
    # What a leader proposed again, of a broker that had come again, it may have proposed in vain.
    be = F.transform("bes", lambda epochs: F.coalesce(F.element_at(epochs, F.col("b").cast("string")), F.lit(-1)))
    registered = F.col("life.czxid")
    meant = F.exists(
        be, lambda one: (one == registered) | ((one >= 0) & (one < registered) & (replaced_ms <= grace_ms))
    )
    detail = text(
        "broker {b} entered the ISR under broker epoch {be} (-1: none), but was registered as {c} for {d} ms",
        b=F.col("b"),
        be=F.array_max(be),
        c=registered,
        d=replaced_ms,
    )
    return _rule(~F.col("by_election") & ~meant, detail, at_ns)


def _figures(states: DataFrame, places: DataFrame, grace_ms: int) -> DataFrame:
    by_election = F.col("by_election")
    per_partition = (
        states.groupBy("p")
        .agg(F.count(F.lit(1)).alias("versions"))
        .join(
            places.groupBy("p").agg(
                F.count_if(F.col("added") & ~by_election).alias("entered"),
                F.count_if(by_election).alias("left"),
                F.count_if((F.col("dead_ms") > 0) & (F.col("dead_ms") <= grace_ms)).alias("raced"),
            ),
            on="p",
            how="left",
        )
    )
    return figures(
        per_partition,
        {
            (LIVE_ISR, "versions"): F.col("versions"),
            (LIVE_ISR, "isr_entries"): F.col("entered"),
            (LIVE_ISR, "places_after_elections"): F.col("left"),
            (LIVE_ISR, "places_just_after_a_death"): F.col("raced"),
        },
    )


def _places(states: DataFrame) -> DataFrame:
    """(p, zxid, …, b, added, by_election): who gets a place by a version, or keeps it by an election."""
    by_election = F.col("leader_epoch") != F.col("previous.leader_epoch")
    added = F.array_except("isr", "previous.isr")
    # Where nobody leads the ISR stays as it was, whoever lives.
    granted = F.when(by_election & (F.col("leader") >= 0), F.col("isr")).otherwise(added)
    rows = states.where(F.col("previous").isNotNull()).select(
        "p",
        "generation",
        "zxid",
        "time_ms",
        "version",
        "leader",
        "leader_epoch",
        "isr",
        F.col("previous.isr").alias("was"),
        by_election.alias("by_election"),
        added.alias("adds"),
        F.explode(granted).alias("b"),
    )
    return rows.withColumn("added", F.array_contains("adds", F.col("b"))).drop("adds")


def _with_lives(places: DataFrame, lives: DataFrame) -> DataFrame:
    """With `life`, the broker's last registration before the transaction, and `dead_ms`, how long that had been gone;
    null where there was none.
    """
    return (
        places.alias("a")
        .join(
            lives.alias("l"),
            on=(F.col("a.b") == F.col("l.b")) & (F.col("l.czxid") < F.col("a.zxid")),
            how="left",
        )
        .groupBy(*[F.col(f"a.{name}") for name in places.columns])
        .agg(F.max(F.struct("l.czxid", "l.created_ms", "l.dzxid", "l.deleted_ms")).alias("life"))
        .withColumn(
            "dead_ms",
            F.when(F.col("life.czxid").isNull(), F.lit(None))
            .when(F.col("life.dzxid") < F.col("zxid"), F.col("time_ms") - F.col("life.deleted_ms"))
            .otherwise(F.lit(0)),
        )
    )


def _going(states: DataFrame, grace_ms: int) -> DataFrame:
    """(p, zxid, b, going): members that a controller kept under a new leader epoch of the leader that stayed, and took
    out under one that came moments after.

    Moments are what its session lasts. One that dies in between leaves the rest to the next, which is elected when that
    session has ended.
    """
    of_state = ("p", "generation", "zxid", "time_ms", "leader", "leader_epoch", "controller_epoch")
    stays = (F.col("leader") == F.col("previous.leader")) & (F.col("leader_epoch") > F.col("previous.leader_epoch"))
    kept = states.where(stays & (F.col("leader") >= 0)).select(
        *of_state, F.explode(F.array_intersect("isr", "previous.isr")).alias("b")
    )
    taken = states.select(*of_state, F.explode(F.array_except("previous.isr", "isr")).alias("b"))
    first = F.min(F.struct("t.zxid", "t.time_ms", "t.leader_epoch", "t.controller_epoch"))
    moments_ms = F.when(F.col("out.controller_epoch") == F.col("controller_epoch"), grace_ms).otherwise(2 * grace_ms)
    return (
        kept.alias("k")
        .join(
            taken.alias("t"),
            on=(F.col("k.p") == F.col("t.p"))
            & (F.col("k.generation") == F.col("t.generation"))
            & (F.col("k.b") == F.col("t.b"))
            & (F.col("t.zxid") > F.col("k.zxid")),
            how="inner",
        )
        .groupBy("k.p", "k.zxid", "k.b", "k.time_ms", "k.leader_epoch", "k.controller_epoch")
        .agg(first.alias("out"))
        .where(
            (F.col("out.leader_epoch") > F.col("leader_epoch"))
            & (F.col("out.time_ms") - F.col("time_ms") <= moments_ms)
        )
        .select("p", "zxid", "b", F.lit(True).alias("going"))
    )


def _proposals(evidence: Evidence) -> DataFrame:
    """(p, leader_epoch, version, members, bes): what a leader proposed as the ISR of that version, in order; and by
    which broker epochs, each time that it did.

    A proposal names the version that it is to replace.
    """
    return (
        evidence.events.where((F.col("e") == "isr_propose") & (F.col("kind") == "expand"))
        .select(
            "p",
            F.col("le").alias("leader_epoch"),
            (F.col("pe") + 1).alias("version"),
            F.array_sort("isr").alias("members"),
            F.coalesce("bes", F.create_map().cast("map<string, bigint>")).alias("bes"),
        )
        .groupBy("p", "leader_epoch", "version", "members")
        .agg(F.collect_list("bes").alias("bes"))
    )


def _logged_up_to(evidence: Evidence) -> DataFrame:
    """(p, leader, told): the highest (leader epoch, version) of a partition in this broker's event log."""
    knows = evidence.events.where(
        F.col("e").isin("become_leader", "become_follower", "isr_commit") & F.col("p").isNotNull()
    )
    return knows.groupBy("p", F.col("b").alias("leader")).agg(F.max(F.struct("le", "pe")).alias("logged"))
