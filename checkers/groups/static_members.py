"""static-member: a static member that comes back within its session keeps its place (KIP-345).

A *return* is a join by an instance without a member id, after that instance had synced in a generation, which was
answered ok. Two rules. *Return*: it was answered with a later generation, though nothing was seen that may have begun
one. *Share*: in one generation one owner (an instance, or a member) was given one share by one sync and another by
another: whoever comes back is given what it had. A share is held against the one right before, and a return against the
instance's last sync: an unclean election of the offsets topic may have taken generations back, and their numbers may be
given out again.

What may begin a generation, from the first sync of the present one on until the return was answered: a join by anybody
else that was not answered with the present one or a lower one, but for members that had been told of a rebalance since
the return was begun; somebody leaves; the session of a member of the generation, or of an instance that had a place
before, may have ended, by the times between its requests. A request without a response may have an effect later, and
leave a member that nobody knows of until its session is over. A coordinator that was deposed, and does not know, goes
by sessions of its own: a return counts only where all members had been answered by the one node since then.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.spark.latest import latest
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

STATIC = "static-member"
REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
LATE_MS = 5_000
"""How long after a client gave it up a request is taken to reach a coordinator at the latest."""
_FOR_EVER = 2**62


def static_checks(facts: GroupFacts) -> Family:
    events = _events(facts)
    returns = _returns(facts, events)
    calm = returns.join(_disturbed(facts, returns, events).select("op").distinct(), on="op", how="left_anti")
    homes = facts.syncs.groupBy("group").agg(F.min(F.get("partitions", F.lit(0))).alias("p"))
    back = calm.where(F.col("answered") > F.col("had.generation")).join(F.broadcast(homes), on="group", how="left")
    found = apply_rules(
        back,
        [
            Rule(
                STATIC,
                F.lit(True),
                text(
                    "group {g}: instance {i}, of generation {n}, came back within its session, and {b} answered with "
                    "generation {a}, though nothing else may have begun one",
                    g=F.col("group"),
                    i=F.col("instance"),
                    n=F.col("had.generation"),
                    b=F.col("node"),
                    a=F.col("answered"),
                ),
                name="return",
                ops=[F.col("had.op"), F.col("op")],
                from_ns=F.col("had.complete_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    read = facts.syncs.select("group", F.explode("partitions").alias("p")).distinct()
    per_partition = read.join(calm, on="group", how="left").groupBy("p").agg(F.count("op").alias("returns"))
    return Family(
        union([found, _shares(facts, homes)]),
        figures(per_partition, {(STATIC, "returns"): F.col("returns")}),
    )


def _events(facts: GroupFacts) -> DataFrame:
    """Requests of members: `generation` is what a join was answered, what the others asked with; `owner` an instance or
    a member id.
    """
    asked = facts.history.coordination.where(F.col("f").isin("join", "sync", "heartbeat", "leave"))
    member = F.coalesce(F.nullif("asked.member", F.lit("")), "answered.member")
    return asked.where(F.col("asked.group").isNotNull()).select(
        "op",
        "f",
        F.col("asked.group").alias("group"),
        F.col("asked.member").alias("asked_member"),
        F.col("asked.instance").alias("instance"),
        F.coalesce("asked.instance", member).alias("owner"),
        F.when(F.col("f") == "join", F.col("answered.generation")).otherwise(F.col("asked.generation")).alias("of"),
        (F.least("asked.session_ms", "asked.rebalance_ms") * 1_000_000).alias("session_ns"),
        ((F.col("asked.session_ms") + F.col("asked.rebalance_ms") + LATE_MS) * 1_000_000).alias("late_ns"),
        (F.col("outcome") == "ok").alias("ok"),
        (F.col("outcome") == "info").alias("unknown"),
        "error",
        "node",
        "invoke_ns",
        "complete_ns",
    )


def _returns(facts: GroupFacts, events: DataFrame) -> DataFrame:
    """Returns with `had` (the instance's last sync before), since when that generation was whole, and who was given
    it.
    """
    anew = (F.col("asked_member") == "") & F.col("instance").isNotNull() & F.col("late_ns").isNotNull()
    joins = events.where((F.col("f") == "join") & F.col("ok") & anew).withColumnRenamed("of", "answered")
    mine = facts.syncs.where(F.col("instance").isNotNull())
    sync = F.struct("invoke_ns", "op", "generation", "complete_ns")
    held = latest(["group", "instance"], mine, joins, sync, "invoke_ns", "had")
    whole = facts.syncs.groupBy("group", "generation").agg(F.min("complete_ns").alias("since_ns"))
    return (
        held.where(F.col("had").isNotNull())
        .withColumn("generation", F.col("had.generation"))
        .join(whole, on=["group", "generation"], how="inner")
    )


def _disturbed(facts: GroupFacts, returns: DataFrame, events: DataFrame) -> DataFrame:
    """(op): returns beside which something may have begun a generation. Few: a row is a return and a request beside
    it.
    """
    r = returns.select(
        "op",
        "group",
        "node",
        F.col("instance").alias("returned"),
        F.col("had.generation").alias("present"),
        "session_ns",
        "late_ns",
        "since_ns",
        F.col("invoke_ns").alias("back_ns"),
        F.col("complete_ns").alias("answered_ns"),
    )
    later = Window.partitionBy("group", "owner", "of").orderBy("invoke_ns", "op")
    again = F.min("complete_ns").over(later.rowsBetween(1, Window.unboundedFollowing))
    refreshed = events.where(F.col("ok") & F.col("f").isin("join", "sync", "heartbeat")).withColumn(
        "again_ns", F.coalesce(again, F.lit(_FOR_EVER))
    )
    beside = r.join(
        events.drop("node", "session_ns", "late_ns").withColumnRenamed("op", "other"), on="group", how="inner"
    ).where((F.col("other") != F.col("op")) & (F.col("invoke_ns") < F.col("answered_ns")))
    until = F.when(F.col("unknown"), F.coalesce("complete_ns", F.lit(_FOR_EVER)) + F.col("late_ns")).otherwise(
        F.col("complete_ns")
    )
    settled = F.col("ok") & (F.col("of") <= F.col("present"))
    comes = (F.col("f") == "join") & ~F.coalesce(settled, F.lit(False))
    moves = beside.where((comes | (F.col("f") == "leave")) & (until > F.col("since_ns")))
    told = facts.history.coordination.where(F.col("error") == REBALANCE_IN_PROGRESS).select(
        F.col("asked.group").alias("group"),
        F.col("asked.member").alias("told_member"),
        F.col("invoke_ns").alias("asked_ns"),
        F.col("complete_ns").alias("told_ns"),
    )
    follows = (
        moves.where((F.col("f") == "join") & (F.col("asked_member") != "") & (F.col("invoke_ns") > F.col("back_ns")))
        .join(told, on="group", how="inner")
        .where(
            (F.col("told_member") == F.col("asked_member"))
            & (F.col("asked_ns") > F.col("back_ns"))
            & (F.col("told_ns") < F.col("invoke_ns"))
        )
        .select("op", "other")
    )
    return union(
        [
            moves.join(follows, on=["op", "other"], how="left_anti").select("op"),
            _silent(r, refreshed).select("op"),
            _elsewhere(r, refreshed).select("op"),
            _not_in_it(r, refreshed).select("op"),
        ]
    )


def _silent(r: DataFrame, refreshed: DataFrame) -> DataFrame:
    """A member of the generation may have lost its session."""
    mine = refreshed.select("group", F.col("of").alias("present"), "invoke_ns", "again_ns")
    return r.join(mine, on=["group", "present"], how="inner").where(
        (F.col("invoke_ns") < F.col("answered_ns"))
        & (F.least("again_ns", "answered_ns") - F.col("invoke_ns") > F.col("session_ns"))
    )


def _elsewhere(r: DataFrame, refreshed: DataFrame) -> DataFrame:
    """Another node has answered a member since."""
    mine = refreshed.select("group", F.col("node").alias("other_node"), "invoke_ns", "complete_ns")
    return r.join(mine, on="group", how="inner").where(
        (F.col("invoke_ns") < F.col("answered_ns"))
        & (F.col("complete_ns") >= F.col("since_ns"))
        & ~F.col("other_node").eqNullSafe(F.col("node"))
    )


def _not_in_it(r: DataFrame, refreshed: DataFrame) -> DataFrame:
    """An instance that had a place before, and did not join the generation, may still have it."""
    instances = refreshed.where(F.col("instance").isNotNull())
    inside = instances.where(F.col("f") == "join").select("group", "instance", F.col("of").alias("present")).distinct()
    earlier = instances.select("group", "instance", "of", "complete_ns")
    may_be_there: Column = (F.col("of") < F.col("present")) & (
        F.col("complete_ns") + F.col("late_ns") > F.col("since_ns")
    )
    return (
        r.join(earlier, on="group", how="inner")
        .where((F.col("instance") != F.col("returned")) & may_be_there)
        .join(inside, on=["group", "instance", "present"], how="left_anti")
    )


def _shares(facts: GroupFacts, homes: DataFrame) -> DataFrame:
    """One owner, one generation, two shares."""
    shares = facts.syncs.select(
        "op",
        "group",
        "generation",
        F.coalesce("instance", "member").alias("owner"),
        F.array_sort(F.coalesce("partitions", F.array().cast("array<string>"))).alias("share"),
        "invoke_ns",
        "complete_ns",
    )
    in_turn = Window.partitionBy("group", "generation", "owner").orderBy("invoke_ns", "op")
    differing = (
        shares.withColumn("last", F.lag(F.struct("share", "op", "invoke_ns")).over(in_turn))
        .where(F.col("last.share") != F.col("share"))
        .join(F.broadcast(homes), on="group", how="left")
    )
    return apply_rules(
        differing,
        [
            Rule(
                STATIC,
                F.lit(True),
                text(
                    "group {g}, generation {n}: {w} was given {a}, and {b}",
                    g=F.col("group"),
                    n=F.col("generation"),
                    w=F.col("owner"),
                    a=_named("last.share"),
                    b=_named("share"),
                ),
                name="share",
                ops=[F.col("last.op"), F.col("op")],
                from_ns=F.col("last.invoke_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )


def _named(share: str) -> Column:
    return F.when(F.size(share) == 0, F.lit("nothing")).otherwise(F.array_join(share, ", "))
