"""follower-went-back: what a follower that reads for consumers (KIP-392) says of its watermark, answer by answer.

Input grain: one row per poll of a follower with a response. A row proves: a follower told a watermark, and the same
process, asked after that answer in the same leader epoch, told a lower one. It may lag behind the leader's as it likes.

The rule is highwater's: its follower's watermark is a maximum within a leader epoch, and falls with its log alone,
which is cut for a leader of another epoch. Apache Kafka's followers take what the leader tells, and only warn where
that goes back (UnifiedLog.updateHighWatermarkMetadata): a broker of Kafka's may be found at fault here.

In its leader's epoch a follower's log may rightly fall below its watermark in three cases. An unclean election took
what it had shown, and it took the new epoch before it cut; a replica outside the ISR throws away a compacted log that a
cut would leave with holes: the workload refuses follower reads with either. And a replica outside the ISR that has
nothing below its watermark, its log being empty since it began at an earlier leader's start, begins anew at its
leader's lower one: allowed, where it told a watermark at its log start, and a lower log start since.

That it shows nothing above the leader's watermark, `visibility` says by what clients saw, and `watermark_rules` by the
event logs; what it returned, or passed over, the rules of polls judge as of any reader.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.history.processes import ends_of, life
from checkers.history.responses import by_follower
from checkers.spark.latest import latest
from checkers.spark.tables import kept
from checkers.verdicts.findings import Family, Rule, apply_rules, figures, text
from checkers.verdicts.jobs import Group

BACK = "follower-went-back"


def of_followers(history: History, faults: Iterable[Fault]) -> dict[str, Group]:
    """One job. Nothing is computed before it is called."""
    return {"followers": lambda: [follower_checks(history, faults)]}


def _began_anew() -> Column:
    """Whether it had nothing below its watermark when it told it, and has a log that begins lower since."""
    had_nothing = F.col("told.hw") <= F.col("told.log_start")
    return F.coalesce(had_nothing & (F.col("log_start") < F.col("told.log_start")), F.lit(False))


def follower_checks(history: History, faults: Iterable[Fault]) -> Family:
    """faults: of the run; those that end processes, or change files, part a node's lives."""
    answers = history.requests.where((F.col("outcome") == "ok") & by_follower() & (F.col("hw") >= 0)).select(
        "p",
        "op",
        "node",
        "leader_epoch",
        "invoke_ns",
        "complete_ns",
        "hw",
        "log_start",
        "returned",
        life(ends_of(faults)),
    )
    answers = kept(answers)
    known = answers.where(F.col("life").isNotNull() & (F.col("leader_epoch") >= 0))
    fact = F.struct("hw", "op", "complete_ns", "log_start")
    judged = kept(latest(["p", "leader_epoch", "life"], known.drop("invoke_ns"), known, fact, "invoke_ns", "told"))
    found = apply_rules(
        judged,
        [
            Rule(
                BACK,
                (F.col("told.hw") > F.col("hw")) & ~_began_anew(),
                text(
                    "{n}, a follower of {p} in leader epoch {e}, told a watermark of {h}, though the same process had "
                    "told {t} in that epoch before",
                    n=F.col("node"),
                    p=F.col("p"),
                    e=F.col("leader_epoch"),
                    h=F.col("hw"),
                    t=F.col("told.hw"),
                ),
                offset=F.col("hw"),
                ops=[F.col("told.op"), F.col("op")],
                from_ns=F.col("told.complete_ns"),
                to_ns=F.col("complete_ns"),
            )
        ],
    )
    per_partition = answers.groupBy("p").agg(
        F.count(F.lit(1)).alias("answers"), F.count_if(F.col("returned") > 0).alias("with_records")
    )
    after_others = judged.where(F.col("told").isNotNull()).groupBy("p").agg(F.count(F.lit(1)).alias("judged"))
    return Family(
        found,
        figures(
            per_partition.join(after_others, on="p", how="left"),
            {
                (BACK, "follower_answers"): F.col("answers"),
                (BACK, "answers_with_records"): F.col("with_records"),
                (BACK, "answers_judged"): F.col("judged"),
            },
        ),
    )
