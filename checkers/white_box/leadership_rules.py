"""Rules 2 (event half), 8 and 14: who appends in an epoch, what a new leader must hold, what may be cut.

Input grain: timeline events and `exposures` (per partition and leader epoch, the highest HW ever taken, shown or
acknowledged there). Epochs order what brokers did, not clocks: everything exposed in an epoch below a leader's own
must be in its log.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.findings import Family, figures, finding, text, union
from checkers.white_box.inputs import Evidence

ONE_LEADER = "one-leader-per-epoch"
COMPLETENESS = "leader-completeness"
TRUNCATION = "truncation"


def leadership_rules(evidence: Evidence) -> Family:
    timeline = evidence.timeline
    per_partition = timeline.groupBy("p").agg(
        F.count_if((F.col("e") == "append") & (F.col("role") == "leader")).alias("appends"),
        F.count_if(F.col("e") == "become_leader").alias("leaderships"),
        F.count_if(F.col("e") == "truncate").alias("truncations"),
        F.count_if((F.col("e") == "truncate") & F.coalesce("in_isr", F.lit(False))).alias("in_isr"),
    )
    return Family(
        union([_one_leader(timeline), _epochs_back(timeline), _completeness(evidence), _truncations(evidence)]),
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


def _one_leader(timeline: DataFrame) -> DataFrame:
    """One incarnation of one broker per leader epoch: an epoch granted before a restart is void after it."""
    acts = timeline.where((F.col("e") == "become_leader") | ((F.col("e") == "append") & (F.col("role") == "leader")))
    actors = (
        acts.groupBy("p", "le")
        .agg(
            F.collect_set(F.concat_ws("/", "b", "i")).alias("actors"),
            F.min("t_ns").alias("from_ns"),
            F.max("t_ns").alias("to_ns"),
            F.max("last").alias("last"),
        )
        .where(F.size("actors") > 1)
    )
    return finding(
        actors,
        ONE_LEADER,
        text("{p}: {a} all led in epoch {le}", p=F.col("p"), a=F.array_sort("actors"), le=F.col("le")),
        offset=F.col("last"),
        from_ns=F.col("from_ns"),
        to_ns=F.col("to_ns"),
    )


def _epochs_back(timeline: DataFrame) -> DataFrame:
    """A leader stamps the epoch of its last role, no other."""
    odd = timeline.where(
        (F.col("e") == "append") & (F.col("role") == "leader") & (F.coalesce("was_le", F.lit(-1)) != F.col("le"))
    )
    return finding(
        odd,
        ONE_LEADER,
        text(
            "broker {b} appended to {p} as leader of epoch {le}, its last role was of epoch {w}",
            b=F.col("b"),
            p=F.col("p"),
            le=F.col("le"),
            w=F.col("was_le"),
        ),
        offset=F.col("base"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _against_earlier(rows: DataFrame, exposed: DataFrame) -> DataFrame:
    """rows (p, le, …) with the highest exposure of any lower epoch of the partition: `earlier` struct(exposed, le)."""
    keyed = rows.withColumn("row", F.monotonically_increasing_id())
    earlier = (
        keyed.select("row", F.col("p").alias("row_p"), F.col("le").alias("row_le"))
        .join(F.broadcast(exposed), on=(F.col("row_p") == F.col("p")) & (F.col("le") < F.col("row_le")), how="inner")
        .groupBy("row")
        .agg(F.max(F.struct("exposed", "le")).alias("earlier"))
    )
    return keyed.join(earlier, on="row", how="inner").drop("row")


def _completeness(evidence: Evidence) -> DataFrame:
    leaders = evidence.timeline.where(F.col("e") == "become_leader").select("b", "p", "le", "leo", "t_ns", "isr")
    short = _against_earlier(leaders, evidence.exposed).where(F.col("leo") < F.col("earlier.exposed"))
    return finding(
        short,
        COMPLETENESS,
        text(
            "broker {b} became leader of {p} in epoch {le} with log end {n}; epoch {w} had exposed everything "
            "below {x}",
            b=F.col("b"),
            p=F.col("p"),
            le=F.col("le"),
            n=F.col("leo"),
            w=F.col("earlier.le"),
            x=F.col("earlier.exposed"),
        ),
        offset=F.col("leo"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _truncations(evidence: Evidence) -> DataFrame:
    """A member of the ISR cut a record that an earlier epoch had exposed."""
    cuts = evidence.timeline.where(
        (F.col("e") == "truncate") & F.coalesce("in_isr", F.lit(False)) & (F.col("to") < F.col("from_leo"))
    ).select("b", "p", "le", "from_leo", "to", "hw", "reason", "t_ns")
    broken = _against_earlier(cuts, evidence.exposed).where(F.col("to") < F.col("earlier.exposed"))
    return finding(
        broken,
        TRUNCATION,
        text(
            "broker {b}, in the ISR of {p} in epoch {le}, cut its log from {f} to {t} ({r}); epoch {w} had exposed "
            "everything below {x}",
            b=F.col("b"),
            p=F.col("p"),
            le=F.col("le"),
            f=F.col("from_leo"),
            t=F.col("to"),
            r=F.col("reason"),
            w=F.col("earlier.le"),
            x=F.col("earlier.exposed"),
        ),
        offset=F.col("to"),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )
