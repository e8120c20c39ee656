"""Rule 14 over a restart: a broker finds again what it knew to be committed, and what it had written.

Input grain: one row per (broker, incarnation, partition), in the order of their lives. A row found proves that a broker
opened a log that ends below a high watermark that an incarnation before had taken for this replica, or below the end
that the last one had written. A kill may come between a legal cut and its line, so that an end counts only where
nothing can have cut the log since: nothing below a watermark is cut; a leader cuts nothing; and of what a follower
appended in its last role its leader cannot say that it diverges. To a role of before, the logs may diverge until
something new was appended, or, of a follower that has nothing to append, until its leader has answered a fetch from
that end. Brokers that cut their logs to the watermark do so with the role itself (`truncation` of their first line):
of those no end counts. Of nodes that lost power an end counts as far as it was synced; what was committed stays.
Whether a fault took the files, or the power, `checkers.evidence.touched_files` says.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.timeline import Evidence, told_to_go
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text, union
from checkers.white_box.leadership_rules import TRUNCATION
from checkers.white_box.lives import made_anew


def restart_rules(evidence: Evidence, lives: DataFrame) -> Family:
    """lives: see `replica_lives`."""
    judged = (
        lives.where(F.col("opened").isNotNull() & F.col("before").isNotNull())
        .join(F.broadcast(made_anew(evidence)), on="p", how="left_anti")
        .select("b", "i", "p", "anew_at", "before.*", "opened.leo", "opened.t_ns", "opened.s")
    )
    counts = judged.groupBy("p").agg(
        F.count_if(_counts("known")).alias("reopened"),
        F.count_if(_counts("written.end")).alias("ends_reopened"),
    )
    return Family(
        union([apply_rules(judged, [_below_a_watermark(), _below_its_end()]), _opened_once_more(evidence)]),
        figures(
            counts,
            {
                (TRUNCATION, "logs_reopened"): F.col("reopened"),
                (TRUNCATION, "ends_reopened"): F.col("ends_reopened"),
            },
        ),
    )


def _counts(end: str) -> Column:
    """Whether a log must reach that end. To begin anew is no single step: a kill in between leaves a prefix. Then it
    begins above that end again.
    """
    return F.col(end).isNotNull() & F.coalesce(F.col("anew_at") < F.col(end), F.lit(True))


def _below_a_watermark() -> Rule:
    return Rule(
        TRUNCATION,
        _counts("known") & (F.col("leo") < F.col("known")),
        F.concat(_opened(), text("; an incarnation before it had taken high watermark {h}", h=F.col("known"))),
        offset=F.col("leo"),
        lost_epoch=F.col("taught"),
        # To start cuts nothing: what an unclean election cost it, it cut in a life in which it had heard of it.
        missed_epoch=F.coalesce("heard", F.lit(-1)),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _below_its_end() -> Rule:
    return Rule(
        TRUNCATION,
        _counts("written.end") & (F.col("leo") < F.col("written.end")),
        F.concat(
            _opened(),
            text(
                "; the incarnation before it had written everything below {w}, last in a role of epoch {le}, and "
                "nothing had cut that",
                w=F.col("written.end"),
                le=F.col("written.le"),
            ),
        ),
        offset=F.col("leo"),
        # No election can have taken it: in its last role nothing was cut, and it had no other.
        lost_epoch=F.coalesce("written.le", F.lit(-1)),
        missed_epoch=F.coalesce("written.le", F.lit(-1)),
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )


def _opened_once_more(evidence: Evidence) -> DataFrame:
    """Logs that a broker opened once more in one life, and shorter than it had them, though it was not told to delete
    any of the partition's. Damage may have it throw one away; a log of a topic that was made anew is another one.
    """
    of_the_run = F.col("p").isin(*evidence.info.partitions)
    left = evidence.events.where(told_to_go()).select("b", "i", "p").distinct()
    again = (
        evidence.timeline.where((F.col("e") == "recovered") & (F.col("leo") < F.col("was_leo")) & of_the_run)
        .where(evidence.touched.spared() & evidence.touched.spared_shared() & evidence.touched.kept_power())
        .join(F.broadcast(left), on=["b", "i", "p"], how="left_anti")
        .join(F.broadcast(made_anew(evidence)), on="p", how="left_anti")
    )
    in_no_role = F.coalesce("was_le", F.lit(-1))
    shorter = Rule(
        TRUNCATION,
        F.lit(True),
        F.concat(_opened("once more"), text("; it ended at {w} just before", w=F.col("was_leo"))),
        offset=F.col("leo"),
        # A cut has a line of its own, whatever it is for.
        lost_epoch=in_no_role,
        missed_epoch=in_no_role,
        from_ns=F.col("t_ns"),
        to_ns=F.col("t_ns"),
    )
    return apply_rules(again, [shorter])


def _opened(when: str = "after a restart") -> Column:
    return text(
        f"broker {{b}}, {{p}}, event {{i}}/{{s}}: opened with log end {{n}} {when}",
        b=F.col("b"),
        p=F.col("p"),
        i=F.col("i"),
        s=F.col("s"),
        n=F.col("leo"),
    )
