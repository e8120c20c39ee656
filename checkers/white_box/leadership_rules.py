"""Rules 2 (event half), 8 and 14, and rule 4 between brokers: what one leader epoch says of another.

Input grain: one row per (partition, leader epoch), and the few events that take or cut. Epochs order what brokers did,
not clocks: everything exposed in an epoch below a leader's own must be in its log.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.verdicts.verdict import ONE_LINE
from checkers.white_box.lives import by_epoch, made_anew
from checkers.white_box.watermark_rules import OFFSET_ORDER

ONE_LEADER = "one-leader-per-epoch"
COMPLETENESS = "leader-completeness"
TRUNCATION = "truncation"


def leadership_rules(evidence: Evidence, lives: DataFrame) -> Family:
    """lives: see `replica_lives`."""
    timeline = evidence.timeline
    takes = (
        timeline.where(F.col("e") == "become_leader")
        .select("b", "p", "le", "leo", "t_ns")
        .join(evidence.epochs.select("p", "le", "earlier", "since"), on=["p", "le"], how="inner")
    )
    per_partition = timeline.groupBy("p").agg(
        F.count_if((F.col("e") == "append") & (F.col("role") == "leader")).alias("appends"),
        F.count_if(F.col("e") == "become_leader").alias("leaderships"),
        F.count_if(F.col("e") == "truncate").alias("truncations"),
        F.count_if((F.col("e") == "truncate") & F.coalesce("in_isr", F.lit(False))).alias("in_isr"),
    )
    return Family(
        union(
            [
                apply_rules(evidence.epochs, [_one_leader(), _follower_above_leader()]),
                apply_rules(takes, [_completeness()]),
                apply_rules(_cuts(evidence, lives), [_truncation()]),
            ]
        ),
        figures(
            per_partition,
            {
                (ONE_LEADER, "leader_appends"): F.col("appends"),
                (COMPLETENESS, "leaderships"): F.col("leaderships"),
                (TRUNCATION, "leaderships"): F.col("leaderships"),
                (TRUNCATION, "truncations"): F.col("truncations"),
                (TRUNCATION, "truncations_in_isr"): F.col("in_isr"),
            },
        ),
    )


def _one_leader() -> Rule:
    """One incarnation of one broker per leader epoch: an epoch granted before a restart is void after it."""
    return Rule(
        ONE_LEADER,
        F.size("actors") > 1,
        text("{p}: {a} all led in epoch {le}", p=F.col("p"), a=F.array_sort("actors"), le=F.col("le")),
        from_ns=F.col("from_ns"),
        to_ns=F.col("to_ns"),
    )


def _follower_above_leader() -> Rule:
    """What a follower received in an epoch is no higher than the leader's HW in that epoch."""
    return Rule(
        OFFSET_ORDER,
        F.col("follower").isNotNull() & (F.coalesce("leader_hw", F.lit(-1)) < F.col("follower.hw")),
        text(
            "broker {b} followed {p} in epoch {le} up to high watermark {h}; the leader's in that epoch was {l}",
            b=F.col("follower.b"),
            p=F.col("p"),
            le=F.col("le"),
            h=F.col("follower.hw"),
            l=F.col("leader_hw"),
        ),
        kind=F.when(F.col("leader_hw").isNull(), F.lit("unknown")).otherwise(F.lit("invalid")),
        offset=F.col("follower.hw"),
        from_ns=F.col("follower.t_ns"),
        to_ns=F.col("follower.t_ns"),
    )


def _gone(end: Column) -> Column:
    """What an earlier epoch had exposed beyond this end: struct(exposed, le).

    What was exposed since the last unclean election comes first: nothing excuses its loss.
    """
    return F.when(F.col("since.exposed") > end, F.col("since")).otherwise(F.col("earlier"))


def _exposed_before(end: Column) -> Column:
    gone = _gone(end)
    return text("; epoch {w} had exposed everything below {x}", w=gone["le"], x=gone["exposed"])


def _completeness() -> Rule:
    return Rule(
        COMPLETENESS,
        F.col("leo") < F.col("earlier.exposed"),
        F.concat(
            text(
                "broker {b} became leader of {p} in epoch {le} with log end {n}",
                b=F.col("b"),
                p=F.col("p"),
                le=F.col("le"),
                n=F.col("leo"),
            ),
            _exposed_before(F.col("leo")),
        ),
        offset=F.col("leo"),
        lost_epoch=_gone(F.col("leo"))["le"],
        missed_epoch=F.col("le"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _cuts(evidence: Evidence, lives: DataFrame) -> DataFrame:
    """(b, i, s, p, le, hw, from_leo, to, reason, t_ns, member, earlier, since, tail, shown, known, taught): logs that
    were cut, whoever cut them.

    hw: its HW before the cut, by this line or those before, whichever says more. member: in the ISR by its own word,
    which may be of long ago: nobody tells a follower that it was taken in. tail:
    struct(le, end) of the last batch that it had appended before, in this life or an earlier one; shown: what that
    epoch exposed, the highest end. known: the highest HW that it had known, taught: the last epoch in which that rose.
    These are null where what the log held is not known: a log that is cut to the watermark may be another one than its
    leader's; a compacted one is emptied by a replica that does not count as in sync; files that a fault touched, on
    whichever node, may say anything; and of a topic made anew nobody knows which life a log was of.
    """
    info = evidence.info
    of_the_run = F.col("p").isin(*info.partitions) & F.lit(not info.compacted)
    judged = (
        F.coalesce("by_epoch", F.lit(False)) & of_the_run & F.col("strange").isNull() & evidence.touched.spared_shared()
    )
    # Nothing was appended or cut in this life so far: the log is as the one before left it.
    as_opened = F.col("tail.end").isNull() & (F.col("from_leo") <= F.col("before.tail.end"))
    tail = F.when(judged & F.col("tail.le").isNotNull(), F.col("tail")).when(
        judged & as_opened & F.col("before.tail.le").isNotNull(), F.col("before.tail")
    )
    # After an unclean election a checkpoint of before may tell a watermark that is too high.
    calm = ~F.col("p").isin(*evidence.unclean) if evidence.unclean else F.lit(True)
    own = F.greatest("hw", "was_hw")
    known = F.when(calm, F.greatest(own, F.when(as_opened, F.col("before.known")))).when(
        F.col("taught_le").isNotNull(), own
    )
    epochs = evidence.epochs
    shown = epochs.select(F.col("p").alias("of_p"), F.col("le").alias("of_le"), F.col("exposed").alias("shown"))
    return (
        evidence.timeline.where((F.col("e") == "truncate") & (F.col("to") < F.col("from_leo")))
        .join(F.broadcast(by_epoch(evidence)), on="i", how="left")
        .join(F.broadcast(_strange(evidence)), on="p", how="left")
        .join(F.broadcast(lives.select("b", "i", "p", "before")), on=["b", "i", "p"], how="left")
        .select(
            *("b", "i", "s", "p", "le", own.alias("hw"), "from_leo", "to", "reason", "t_ns"),
            F.coalesce("in_isr", F.lit(False)).alias("member"),
            tail.alias("tail"),
            F.when(tail.isNotNull(), known).alias("known"),
            F.when(tail.isNotNull(), F.coalesce("taught_le", "before.taught")).alias("taught"),
        )
        .join(F.broadcast(epochs.select("p", "le", "earlier", "since")), on=["p", "le"], how="inner")
        .join(F.broadcast(shown), on=(F.col("of_p") == F.col("p")) & (F.col("of_le") == F.col("tail.le")), how="left")
    )


def _strange(evidence: Evidence) -> DataFrame:
    """(p, strange): partitions of topics that were made anew, and those of which a fault touched any replica."""
    touched = evidence.touched
    if not touched.folders and not touched.whole:
        return made_anew(evidence).withColumn("strange", F.lit(True))
    hit = F.col("p").isin(*touched.partitions()) | F.col("node").isin(*sorted(touched.whole))
    of_touched = evidence.timeline.where(hit).select("p").distinct()
    return made_anew(evidence).union(of_touched).distinct().withColumn("strange", F.lit(True))


def _truncation() -> Rule:
    """A member of the ISR cut a record that an earlier epoch had exposed, or that it knew to be committed itself; or
    anybody, a leader too, cut what it had appended of an epoch that exposed it, or what it had known to be committed.

    `hw` is from before the cut. It is of this epoch too, and one that nobody exposed may be. What a replica
    appends in an epoch stands behind what that epoch's leader has before it: so all that this leader exposed, up to the
    end of what was appended, was in this log.
    """
    own = F.coalesce(F.col("member") & (F.col("to") < F.col("hw")), F.lit(False))
    exposed = F.coalesce(F.col("member") & (F.col("to") < F.col("earlier.exposed")), F.lit(False))
    held = F.coalesce(F.col("to") < F.col("shown"), F.lit(False))
    # Whoever comes back long after an unclean election cuts then: only the epoch tells what that cost it.
    taught = F.coalesce((F.col("to") < F.col("known")) & F.col("taught").isNotNull(), F.lit(False))

    def where(condition: Column, detail: Column) -> Column:
        return F.when(condition, detail).otherwise(F.lit(""))

    return Rule(
        TRUNCATION,
        own | exposed | held | taught,
        F.concat(
            text(
                "broker {b}, {p}, event {i}/{s}: cut its log from {f} to {t} ({r}) in epoch {le}, {m}in the ISR",
                b=F.col("b"),
                p=F.col("p"),
                i=F.col("i"),
                s=F.col("s"),
                f=F.col("from_leo"),
                t=F.col("to"),
                r=F.col("reason"),
                le=F.col("le"),
                m=F.when(F.col("member"), F.lit("")).otherwise(F.lit("by its own word not ")),
            ),
            where(own, text("; its own high watermark was {h}", h=F.col("hw"))),
            where(taught & ~own, text("; it had known high watermark {h}", h=F.col("known"))),
            where(exposed, _exposed_before(F.col("to"))),
            where(
                held,
                text(
                    "; it had appended up to {a} in epoch {e}, which exposed everything below {x}",
                    a=F.col("tail.end"),
                    e=F.col("tail.le"),
                    x=F.col("shown"),
                ),
            ),
        ),
        name=F.when(own, F.lit(ONE_LINE)).otherwise(F.lit("")),
        offset=F.col("to"),
        lost_epoch=F.greatest(
            F.when(exposed, _gone(F.col("to"))["le"]),
            F.when(held, F.col("tail.le")),
            F.when(taught & ~own, F.col("taught")),
        ),
        missed_epoch=F.col("le"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )
