"""Rule 7: replicas hold the same bytes, and all that is committed; and what ISR members must hold.

Input grain: one row per batch of one replica, checkpoint lines, and for the times of what is found the lines of the
event logs. Uncompacted logs only.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.evidence.timeline import Evidence, told_to_go, transaction_ns
from checkers.evidence.unclean_elections import last_until
from checkers.history import schema
from checkers.spark.tables import empty, kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union

LOG_MATCHING = "log-matching"


def matching_rules(evidence: Evidence) -> Family:
    mine = evidence.lasting()
    checkpoints = evidence.checkpoints.where(F.col("p").isNull() | mine)
    copied = F.col("node").isin(*evidence.segment_nodes)
    # What a fault did to a replica's files is no anomaly. Whether anything is lost by it shows when that replica leads.
    sound = evidence.sound()
    judged = evidence.batches.where(mine & sound)
    marks = kept(known_watermarks(evidence, checkpoints, copied, sound))
    wanted = evidence.info.replication_factor or 1
    known = marks.select("p", (F.col("replicas") >= wanted).cast("int").alias("marks"))
    return Family(
        union([_across_replicas(evidence, judged, marks), _held_by_members(evidence, judged)]),
        figures(known, {(LOG_MATCHING, "watermarks_known"): F.col("marks")}),
    )


def known_watermarks(evidence: Evidence, checkpoints: DataFrame, copied: Column, sound: Column) -> DataFrame:
    """(p, replicas, min_hw, judged): of how many replicas whose files were `copied` (by `node` and `p`) the HW is
    known; and of those that are `sound` as well the lowest, and on which nodes they are.

    The broker's event log is newer than its checkpoint, which lags and may not be there yet. Only lines from before the
    drain count: the files were copied after it began, so that they hold at least what those lines are about. A replica
    that was told to go, as one is that was moved elsewhere, is none of these. A checkpoint that a fault touched says
    nothing of what is sound.
    """
    left = evidence.events.where(told_to_go()).groupBy("node", "p").agg(F.max("t_ns").alias("left_ns"))
    drains = evidence.history.requests.where(F.col("phase").startswith("drain"))
    began = drains.groupBy("p").agg(F.min("invoke_ns").alias("drain_ns"))
    logged = (
        evidence.timeline.where(F.col("e").isin("hw", "become_leader", "become_follower"))
        .join(F.broadcast(began), on="p", how="inner")
        .where(F.col("t_ns") < F.col("drain_ns"))
        .groupBy("node", "p")
        .agg(F.max_by("hw", F.struct("t_ns", "s")).alias("logged"), F.max("t_ns").alias("logged_ns"))
        .join(F.broadcast(left), on=["node", "p"], how="left")
        .where(F.col("left_ns").isNull() | (F.col("left_ns") < F.col("logged_ns")))
        .select("node", "p", "logged")
    )
    stored = checkpoints.where(F.col("kind") == "high-watermark").groupBy("node", "p")
    by_files = F.when(evidence.touched.spared_shared(), F.col("stored"))
    mark = F.when(sound, F.coalesce("logged", by_files))
    return (
        logged.join(stored.agg(F.max("offset").alias("stored")), on=["node", "p"], how="full")
        .groupBy("p")
        .agg(
            F.count_if(copied).alias("replicas"),
            F.min(mark).alias("min_hw"),
            F.collect_set(F.when(mark.isNotNull(), F.col("node"))).alias("judged"),
        )
    )


def _across_replicas(evidence: Evidence, batches: DataFrame, marks: DataFrame) -> DataFrame:
    """Same (offset, epoch) ⇒ same bytes; below the lowest HW of its replicas every replica has every batch, but for one
    whose log starts later because retention, or a request, can have deleted it there.

    Nothing else moves the start of a log in a run of the lab; replicas whose files a fault damaged are left out.
    """
    starts = (
        batches.groupBy("p", "node").agg(F.min("base").alias("start")).groupBy("p").agg(F.max("start").alias("start"))
    )
    tails = batches.where(F.col("problem").isNull()).groupBy("p", "node").agg(F.max("epoch").alias("epoch"))
    tails = tails.groupBy("p").agg(F.collect_list(F.struct("node", "epoch")).alias("tails"))
    places = (
        batches.where(F.col("problem").isNull())
        .groupBy("p", "base", "epoch")
        .agg(
            F.min("digest").alias("low"),
            F.max("digest").alias("high"),
            F.max("last").alias("last"),
            F.collect_set("node").alias("nodes"),
            F.first("values", ignorenulls=True).alias("values"),
        )
        .join(F.broadcast(marks), on="p", how="left")
        .join(F.broadcast(starts), on="p", how="left")
        .join(F.broadcast(tails), on="p", how="left")
    )
    bytes_differ = F.col("low") != F.col("high")
    # One whose watermark is not known may have it, and stands for none of the others.
    lack = F.size(F.array_except("judged", "nodes")) > 0
    below_all = lack & (F.col("last") < F.col("min_hw")) & ~F.col("deleted")
    odd = kept(_with_deleted(evidence, places).where(bytes_differ | F.coalesce(below_all, F.lit(False))))
    odd = odd.join(F.broadcast(_came_about(evidence, odd)), on=["p", "base", "epoch"], how="left")
    # A replica that lacks it may have a log that does not reach the last unclean election.
    behind = F.filter("tails", lambda tail: ~F.array_contains("nodes", tail["node"]))
    behind_epoch = F.array_min(F.transform(behind, lambda tail: tail["epoch"]))
    differs = Rule(
        LOG_MATCHING,
        bytes_differ,
        text(
            "{p} offset {o}, epoch {e}: the batch differs between {n}",
            p=F.col("p"),
            o=F.col("base"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
        ),
        offset=F.col("base"),
        from_ns=F.col("first_ns"),
        to_ns=F.col("differed_ns"),
    )
    lacking = Rule(
        LOG_MATCHING,
        below_all,
        text(
            "{p}: batch {b} to {l} of epoch {e} lies below every replica's high watermark; of {r} replicas only {n} "
            "have it",
            p=F.col("p"),
            b=F.col("base"),
            l=F.col("last"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
            r=F.size("judged"),
        ),
        name="lacking",
        offset=F.col("base"),
        lost_epoch=F.least("epoch", behind_epoch),
        from_ns=F.col("first_ns"),
        to_ns=F.col("lacked_ns"),
    )
    return apply_rules(odd, [differs, lacking])


def _came_about(evidence: Evidence, odd: DataFrame) -> DataFrame:
    """(p, base, epoch, first_ns, differed_ns, lacked_ns): by the event logs, when a batch was first appended; when the
    last of its copies was; and when it was missing below every watermark: once the last replica knew it to be
    committed, and once the log of each that has it not had been cut, or opened, without it. Null where no line says so.

    odd: few rows.
    """
    place = ("p", "base", "epoch")
    lines = evidence.timeline.select(
        "node",
        "p",
        "e",
        "t_ns",
        "hw",
        "own_leo",
        F.col("le").alias("of"),
        F.col("base").alias("from"),
        F.col("last").alias("to"),
    ).where(F.col("e").isin("append", "truncate", "recovered", "hw", "become_leader", "become_follower"))
    at = F.col("t_ns")
    holds = (F.col("e") == "append") & (F.col("of") == F.col("epoch"))
    holds = holds & (F.col("from") <= F.col("base")) & (F.col("base") <= F.col("to"))
    without = F.col("e").isin("truncate", "recovered") & (F.col("own_leo") <= F.col("base"))
    return (
        lines.join(F.broadcast(odd.select(*place, "last", "nodes")), on="p", how="inner")
        .groupBy(*place, "node")
        .agg(
            F.min(F.when(holds, at)).alias("first_ns"),
            F.max(F.when(holds, at)).alias("differed_ns"),
            F.min(F.when(F.col("hw") > F.col("last"), at)).alias("known_ns"),
            F.max(F.when(without & ~F.array_contains("nodes", F.col("node")), at)).alias("without_ns"),
        )
        .groupBy(*place)
        .agg(
            F.min("first_ns").alias("first_ns"),
            F.max("differed_ns").alias("differed_ns"),
            F.greatest(F.max("known_ns"), F.max("without_ns")).alias("lacked_ns"),
        )
    )


def _with_deleted(evidence: Evidence, places: DataFrame) -> DataFrame:
    """places with `deleted`: below the highest log start of its replicas, where retention can have deleted it from one
    before the files were copied. A batch whose values cannot be read may be as old as the run.
    """
    if evidence.expiry is None:
        return places.withColumn("deleted", F.lit(False))
    copied = evidence.history.marks.agg(
        F.coalesce(F.max(F.when(F.col("f") == "evidence", F.col("time_ns"))), F.max("time_ns"), F.lit(2**62)).alias(
            "gone_ns"
        )
    )
    below = places.where(F.col("base") < F.col("start"))
    sent = (
        below.select("p", "base", "epoch", F.explode("values").alias("value"))
        .join(evidence.history.sends.select("p", "value", "invoke_ns"), on=["p", "value"], how="inner")
        .groupBy("p", "base", "epoch")
        .agg(F.max("invoke_ns").alias("sent_ns"))
    )
    rows = (
        below.select("p", "base", "epoch", F.col("last").alias("offset"))
        .join(sent, on=["p", "base", "epoch"], how="left")
        .join(F.broadcast(copied), how="cross")
    )
    expired = with_expired(evidence.expiry, rows, evidence.history, reused=bool(evidence.unclean))
    return places.join(
        expired.select("p", "base", "epoch", "expired"), on=["p", "base", "epoch"], how="left"
    ).withColumn("deleted", F.coalesce("expired", F.lit(False)))


def _held_by_members(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """A member of the ISR holds every acks=all record that was acknowledged before its files were copied.

    Members are those of the last state before the drain that the last state of all still has: whoever joined later may
    have caught up after its copy. A replica without a single batch may be one whose files are not there.
    """
    names = {node.broker_id: node.name for node in evidence.info.brokers if node.broker_id is not None}
    if not names:
        return empty(batches.sparkSession, schema.FINDING)
    drains = evidence.history.requests.where(F.col("phase").startswith("drain"))
    began = drains.groupBy("p").agg(F.min("invoke_ns").alias("drain_ns"))
    acked = (
        evidence.history.ops.where(
            (F.col("f") == "send")
            & (F.col("outcome") == "ok")
            & (F.col("acks") == -1)
            & F.col("base_offset").isNotNull()
        )
        .join(F.broadcast(began), on="p", how="inner")
        .where(F.col("complete_ns") < F.col("drain_ns"))
        # What was sent since the last unclean election cannot hide behind what that cost.
        .withColumn("since", F.coalesce(F.col("invoke_ns") > last_until(evidence.unclean), F.lit(False)))
        .groupBy("p", "drain_ns", "since")
        .agg(F.max(F.struct((F.col("base_offset") + F.col("n_values")).alias("end"), "op", "invoke_ns")).alias("acked"))
    )
    run_ns = transaction_ns(evidence)
    by_zxid = F.struct("zxid", "position")
    members = (
        evidence.znodes.states.join(F.broadcast(acked), on="p", how="inner")
        .groupBy("p", "acked", "drain_ns")
        .agg(
            F.array_intersect(
                F.max_by(F.when(run_ns < F.col("drain_ns"), F.col("isr")), F.when(run_ns < F.col("drain_ns"), by_zxid)),
                F.max_by("isr", by_zxid),
            ).alias("members")
        )
        .select("p", "acked", "drain_ns", F.explode("members").alias("b"))
    )
    whole = batches.where(F.col("problem").isNull()).groupBy("node", "p").agg((F.max("last") + 1).alias("leo"))
    named = F.create_map(*[F.lit(part) for pair in names.items() for part in pair])
    judged = members.withColumn("node", named[F.col("b")]).join(F.broadcast(whole), on=["node", "p"], how="inner")
    return apply_rules(
        judged,
        [
            Rule(
                LOG_MATCHING,
                F.col("leo") < F.col("acked.end"),
                text(
                    "{n}, in the ISR of {p}, holds a log that ends at {l}; acks=all was acknowledged for all below {a}",
                    n=F.col("node"),
                    p=F.col("p"),
                    l=F.col("leo"),
                    a=F.col("acked.end"),
                ),
                name="held",
                offset=F.col("acked.end") - 1,
                ops=[F.col("acked.op")],
                from_ns=F.col("acked.invoke_ns"),
                to_ns=F.col("drain_ns"),
            )
        ],
    )
