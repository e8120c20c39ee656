"""offset-not-linearizable: commits and fetches of a (group, partition) have one order that explains them all.

What several fetches show together: a commit without an answer that one showed has taken effect, and does so once.
`registers` judges each fetch against commits; one that is wrong by itself is left out here.

Commits are linearizable: an acknowledged one takes effect between its invocation and its answer; one without an answer,
or of a transaction, at any time after its invocation, or never. A fetch shows what had taken effect at some moment
before its answer, of an older state the longer its node may have been deposed: not before all that was over when a
commit was begun that this node acknowledged before (`facts`), and not before what this node had acknowledged or shown
when it was asked. A fetch of the final drain is a read as fresh as any: no earlier than its invocation.

Left out: groups of which a client commits whose requests went to nobody knows whom, who may send one twice; and fetches
of which it is not known who answered. A search that takes too long is unknown.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.groups.facts import GroupFacts
from checkers.search.keys import search_register
from checkers.search.register import READ, WRITE
from checkers.verdicts.findings import Family, figures
from checkers.verdicts.searched import operation, order_findings, registers, sought

ORDER = "offset-not-linearizable"
_NONE_YET = -1
"""What a fetch returns where nothing is committed."""


def order_checks(facts: GroupFacts, reads: DataFrame) -> Family:
    """reads: `registers.judged_fetches`."""
    searched = _searched(facts, reads)
    per_partition = searched.groupBy("p").agg(F.sum("shown").alias("shown"), F.count(F.lit(1)).alias("registers"))
    return Family(
        _findings(searched),
        figures(
            per_partition,
            {(ORDER, "fetches_searched"): F.col("shown"), (ORDER, "registers_searched"): F.col("registers")},
        ),
    )


def _searched(facts: GroupFacts, reads: DataFrame) -> DataFrame:
    """(group, p, operations, shown, found): what the search found of each register, in parallel. `shown`: fetches of a
    committed offset.
    """
    acked = F.col("outcome") == "ok"
    writes = facts.commits.where(F.col("outcome").isin("ok", "info")).select(
        "group",
        "p",
        operation(
            WRITE,
            F.col("committed"),
            complete_ns=F.when(acked, F.col("complete_ns")),
            session=F.when(acked, F.col("node")),
        ),
        F.col("node").isNull().alias("unknown_node"),
        F.lit(0).alias("is_fetch"),
        F.lit(0).alias("is_shown"),
    )
    judged = reads.where(~F.col("behind") & ~F.col("unexplained") & (F.col("node").isNotNull() | F.col("drained")))
    fetches = judged.select(
        "group",
        "p",
        operation(READ, F.col("committed"), session=F.col("node"), since_ns=F.coalesce("proven_ns", F.lit(0))),
        F.lit(False).alias("unknown_node"),
        F.lit(1).alias("is_fetch"),
        (F.col("committed") >= 0).cast("int").alias("is_shown"),
    )
    of_groups = registers(
        writes.unionByName(fetches),
        "group",
        "p",
        counted=[
            F.bool_or("unknown_node").alias("unknown_node"),
            F.sum("is_fetch").alias("fetches"),
            F.sum("is_shown").alias("shown"),
        ],
    ).where(~F.col("unknown_node") & (F.col("fetches") > 0))
    return sought(of_groups, search_register, F.lit(_NONE_YET))


def _findings(searched: DataFrame) -> DataFrame:
    return order_findings(
        ORDER,
        searched,
        "group {g}: {n} returned {v} as the committed offset of {p}, which no order explains: what {k} commits and "
        "fetches before it did leaves {s}",
        "group {g}: of {m} commits and fetches of {p} the first {k} have an order; whether all have one was not found "
        "out in the time that a search has",
        shown={"g": F.col("group"), "p": F.col("p")},
        state={_NONE_YET: "none"},
        offsets=True,
    )
