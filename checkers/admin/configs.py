"""config-not-linearizable: changes and descriptions of a topic's setting have one order that explains them all.

Of a (topic, setting) the topic's own value is a register, none (-1) at first and where it was deleted. An acknowledged
change takes effect between its invocation and its answer, one without an answer at any time after its invocation, or
never; a description shows what is there at some moment between the two. Where ZooKeeper is an ensemble, whose servers
may lag, a description of the main phase may show what was there at any earlier time (`facts`).

So also of two settings of one topic that are changed at once: neither change may take the other back. Apache Kafka's
brokers read, and write unconditionally, and may: a finding, there.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from checkers.admin.facts import DRAIN, AdminFacts
from checkers.search.keys import search_register
from checkers.search.register import READ, WRITE
from checkers.verdicts.findings import Family, figures
from checkers.verdicts.searched import alone, operation, order_findings, registers, sought

CONFIG = "config-not-linearizable"
_NONE = -1


def config_checks(facts: AdminFacts) -> Family:
    """Of each (topic, setting) that was described."""
    ok = F.col("outcome") == "ok"
    writes = facts.alters.where(F.col("outcome").isin("ok", "info")).select(
        "p",
        "config",
        operation(WRITE, F.col("setting"), complete_ns=F.when(ok, F.col("complete_ns"))),
        ok.cast("int").alias("changed"),
        F.lit(0).alias("described"),
    )
    lagging = F.lit(not facts.one_server) & ~F.col("phase").startswith(DRAIN)
    # Of an ensemble it is not told which server a broker's session is with, and the next one may lag behind.
    session = F.col("node") if facts.one_server else alone()
    reads = facts.describes.select(
        "p",
        "config",
        operation(READ, F.col("setting"), session=session, since_ns=F.when(lagging, F.lit(0))),
        F.lit(0).alias("changed"),
        (F.col("setting") != _NONE).cast("int").alias("described"),
    )
    counted = [F.sum("changed").alias("changed"), F.sum("described").alias("described")]
    of_settings = registers(writes.unionByName(reads), "p", "config", counted=counted)
    searched = sought(of_settings, search_register, F.lit(_NONE))
    per_topic = searched.groupBy("p").agg(
        F.sum("changed").alias("changed"), F.sum("described").alias("described"), F.count(F.lit(1)).alias("registers")
    )
    return Family(
        order_findings(
            CONFIG,
            searched,
            "{n} described {c} of {p} as {v}, which no order explains: what {k} changes and descriptions before it did "
            "leaves {s}",
            "of {m} changes and descriptions of {c} of {p} the first {k} have an order; whether all have one was not "
            "found out in the time that a search has",
            shown={"c": F.col("config"), "p": F.col("p")},
            state={_NONE: "unset"},
        ),
        figures(
            per_topic,
            {
                (CONFIG, "changes"): F.col("changed"),
                (CONFIG, "settings_described"): F.col("described"),
                (CONFIG, "registers_searched"): F.col("registers"),
            },
        ),
    )
