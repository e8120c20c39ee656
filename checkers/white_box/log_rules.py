"""Rules 2 (log half), 7, 10 and 11: the replicas' own files, batch by batch; and what ISR members must hold.

Input grain: one row per batch of one replica, and checkpoint lines. Uncompacted logs only. A torn tail, which
recovery would cut, is counted and not judged; any other batch that cannot be read, or whose CRC does not match, is
corruption.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.allowances.expiry import with_expired
from checkers.evidence.timeline import Evidence, transaction_ns
from checkers.evidence.unclean_elections import last_until
from checkers.history import schema
from checkers.spark.tables import empty
from checkers.verdicts.findings import (
    Family,
    Rule,
    apply_rules,
    figures,
    text,
    union,
)

LOG_MATCHING = "log-matching"
CONTIGUOUS = "log-contiguous"
EPOCH_CACHE = "epoch-cache"


def log_rules(evidence: Evidence) -> Family:
    mine = F.col("p").isin(*evidence.info.partitions)
    batches = evidence.batches.where(mine)
    checkpoints = evidence.checkpoints.where(F.col("p").isNull() | mine)
    torn = F.coalesce(F.col("problem").startswith("torn tail"), F.lit(False))
    wanted = evidence.info.replication_factor or 1
    per_partition = batches.groupBy("p").agg(
        F.count_if(F.col("problem").isNull()).alias("batches"),
        (F.count_distinct("node") >= wanted).cast("int").alias("full"),
        F.count_if(torn).alias("torn"),
    )
    copied = F.col("node").isin(*evidence.segment_nodes)
    marks = _known_watermarks(evidence, checkpoints, copied)
    # What a fault did to a replica's files is no anomaly. Whether anything is lost by it shows when that replica leads.
    sound = copied & evidence.touched.spared()
    in_its_folder = F.col("kind") == "epoch"
    judged = batches.where(sound)
    judged_files = checkpoints.where(sound & (in_its_folder | evidence.touched.spared_shared()))
    judged_marks = _known_watermarks(evidence, judged_files, sound)
    known = marks.select("p", (F.col("replicas") >= wanted).cast("int").alias("marks"))
    epochs = checkpoints.where(mine & (F.col("kind") == "epoch"))
    entries = epochs.groupBy("p").agg(F.count(F.lit(1)).alias("entries"))
    return Family(
        union(
            [
                _along_a_log(judged),
                _across_replicas(evidence, judged, judged_marks),
                _held_by_members(evidence, judged),
                *_epoch_files(judged_files, judged, may_be_emptied=evidence.expiry is not None),
            ]
        ),
        union(
            [
                figures(
                    per_partition,
                    {
                        (LOG_MATCHING, "batches"): F.col("batches"),
                        (LOG_MATCHING, "fully_replicated"): F.col("full"),
                        (CONTIGUOUS, "batches"): F.col("batches"),
                        (CONTIGUOUS, "torn_tails"): F.col("torn"),
                    },
                ),
                figures(known, {(LOG_MATCHING, "watermarks_known"): F.col("marks")}),
                figures(entries, {(EPOCH_CACHE, "entries"): F.col("entries")}),
            ]
        ),
    )


def _known_watermarks(evidence: Evidence, checkpoints: DataFrame, wanted: Column) -> DataFrame:
    """(p, min_hw, replicas): the lowest HW over the wanted replicas (by `node` and `p`) whose HW is known, and how many
    those are.

    The broker's event log is newer than its checkpoint, which lags and may not be there yet. Only lines from before the
    drain count: the files were copied after it began, so that they hold at least what those lines are about. A replica
    that was told to go, as one is that was moved elsewhere, is none of these.
    """
    gone = (F.col("e") == "stop_replica") & F.coalesce("delete", F.lit(True))
    left = evidence.events.where(gone).groupBy("node", "p").agg(F.max("t_ns").alias("left_ns"))
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
    kept = checkpoints.where(F.col("kind") == "high-watermark").groupBy("node", "p").agg(F.max("offset").alias("kept"))
    return (
        logged.join(kept, on=["node", "p"], how="full")
        .where(wanted)
        .groupBy("p")
        .agg(F.min(F.coalesce("logged", "kept")).alias("min_hw"), F.count(F.lit(1)).alias("replicas"))
    )


def _along_a_log(batches: DataFrame) -> DataFrame:
    """Readable, sound, contiguous, epochs never back."""
    order = Window.partitionBy("node", "p").orderBy("file", "file_position")
    stepped = batches.withColumn("before", F.lag(F.struct("last", "epoch")).over(order))
    torn = F.coalesce(F.col("problem").startswith("torn tail"), F.lit(False))
    unreadable = Rule(
        CONTIGUOUS,
        (F.col("problem").isNotNull() & ~torn) | ~F.col("crc_ok"),
        text(
            "{n}, {p}, {f} at byte {b}: {w}",
            n=F.col("node"),
            p=F.col("p"),
            f=F.col("file"),
            b=F.col("file_position"),
            w=F.coalesce("problem", F.lit("the CRC does not match")),
        ),
        offset=F.col("base"),
    )
    broken = Rule(
        CONTIGUOUS,
        (F.col("base") != F.col("before.last") + 1)
        | (F.col("epoch") < F.col("before.epoch"))
        | (F.col("last") < F.col("base"))
        | (F.col("records") != F.col("last") - F.col("base") + 1),
        text(
            "{n}, {p}: batch {b} to {l} of epoch {e} with {r} records follows offset {pl} of epoch {pe}",
            n=F.col("node"),
            p=F.col("p"),
            b=F.col("base"),
            l=F.col("last"),
            e=F.col("epoch"),
            r=F.col("records"),
            pl=F.col("before.last"),
            pe=F.col("before.epoch"),
        ),
        offset=F.col("base"),
    )
    return apply_rules(stepped, [unreadable, broken])


def _across_replicas(evidence: Evidence, batches: DataFrame, held: DataFrame) -> DataFrame:
    """Same (offset, epoch) ⇒ same bytes; below the lowest HW of its replicas every replica has every batch, but for one
    whose log starts later because retention can have deleted it there.

    Nothing else moves the start of a log in a run of the lab: nobody deletes records, and replicas whose files a fault
    damaged are left out.
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
            F.count_distinct("node").alias("on"),
            F.collect_set("node").alias("nodes"),
            F.first("values", ignorenulls=True).alias("values"),
        )
        .join(F.broadcast(held), on="p", how="left")
        .join(F.broadcast(starts), on="p", how="left")
        .join(F.broadcast(tails), on="p", how="left")
    )
    places = _with_deleted(evidence, places)
    # A replica that lacks it may have a log that does not reach the last unclean election.
    behind = F.filter("tails", lambda tail: ~F.array_contains("nodes", tail["node"]))
    behind_epoch = F.array_min(F.transform(behind, lambda tail: tail["epoch"]))
    differs = Rule(
        LOG_MATCHING,
        F.col("low") != F.col("high"),
        text(
            "{p} offset {o}, epoch {e}: the batch differs between {n}",
            p=F.col("p"),
            o=F.col("base"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
        ),
        offset=F.col("base"),
    )
    lacking = Rule(
        LOG_MATCHING,
        (F.col("on") < F.col("replicas")) & (F.col("last") < F.col("min_hw")) & ~F.col("deleted"),
        text(
            "{p}: batch {b} to {l} of epoch {e} lies below every replica's high watermark; of {r} replicas only {n} "
            "have it",
            p=F.col("p"),
            b=F.col("base"),
            l=F.col("last"),
            e=F.col("epoch"),
            n=F.array_sort("nodes"),
            r=F.col("replicas"),
        ),
        name="lacking",
        offset=F.col("base"),
        lost_epoch=F.least("epoch", behind_epoch),
    )
    return apply_rules(places, [differs, lacking])


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


def _epoch_files(checkpoints: DataFrame, batches: DataFrame, *, may_be_emptied: bool) -> list[DataFrame]:
    """may_be_emptied: retention can have deleted all batches of a log, whose end no file's content says then."""
    end = F.col("leo") if may_be_emptied else F.coalesce("leo", F.lit(0))
    order = Window.partitionBy("node", "p").orderBy("position")
    ends = batches.groupBy("node", "p").agg((F.max("last") + 1).alias("leo"))
    rows = (
        checkpoints.where((F.col("kind") == "epoch") | F.col("problem").isNotNull())
        .withColumn("before", F.lag(F.struct("epoch", "offset")).over(order))
        .withColumn("until", F.lead("offset").over(order))
        .join(F.broadcast(ends), on=["node", "p"], how="left")
    )
    unreadable = Rule(EPOCH_CACHE, F.col("problem").isNotNull(), text("{n}: {x}", n=F.col("node"), x=F.col("problem")))
    disorder = Rule(
        EPOCH_CACHE,
        (F.col("epoch") <= F.col("before.epoch"))
        | (F.col("offset") <= F.col("before.offset"))
        | (F.col("offset") > end),
        text(
            "{n}, {p}: epoch {e} starts at {o}, after epoch {be} at {bo}; the log ends at {l}",
            n=F.col("node"),
            p=F.col("p"),
            e=F.col("epoch"),
            o=F.col("offset"),
            be=F.col("before.epoch"),
            bo=F.col("before.offset"),
            l=F.col("leo"),
        ),
        offset=F.col("offset"),
    )
    # The epoch that the file gives a batch is the one in the batch.
    placed = batches.select("node", "p", "base", F.col("epoch").alias("stamped")).join(
        F.broadcast(rows.select("node", "p", "epoch", "offset", "until")), on=["node", "p"], how="inner"
    )
    mismatch = Rule(
        EPOCH_CACHE,
        (F.col("base") >= F.col("offset"))
        & (F.col("until").isNull() | (F.col("base") < F.col("until")))
        & (F.col("stamped") != F.col("epoch")),
        text(
            "{n}, {p}: the batch at {b} is of epoch {e}, the epoch file says {c}",
            n=F.col("node"),
            p=F.col("p"),
            b=F.col("base"),
            e=F.col("stamped"),
            c=F.col("epoch"),
        ),
        offset=F.col("base"),
    )
    return [apply_rules(rows, [unreadable, disorder]), apply_rules(placed, [mismatch])]
