"""Frames that the checkers of administration share: changes of settings and descriptions, growths and counts.

What is promised. A topic's settings are in ZooKeeper: a change is a conditional write there, made by whichever broker
was asked, and a description is read from there for each request. ZooKeeper's writes are linearizable. Its reads are so
where it has one server; of an ensemble a server may lag behind, and with it what the brokers read that are connected to
it. A growth of partitions is a conditional write of the controller's, and is acknowledged once that broker itself knows
all the new partitions; it is refused by what ZooKeeper holds. How many there are every broker answers from its own
metadata, which the controller fills: that may lag, and grows while one process lives.

Source: kafka.server.ConfigHelper, ZkConfigRepository, ZkAdminManager.createPartitions, ZkMetadataCache; KIP-195.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.spark.tables import kept

SETUP, DRAIN = "setup", "drain"
"""A phase, and what names of phases begin with."""
ENOUGH = "INVALID_PARTITIONS"
"""Why a growth to no more than there is is refused."""


@dataclass(frozen=True, slots=True)
class AdminFacts:
    """One row per operation, with p (the topic), node, phase, outcome, error, invoke_ns and complete_ns.

    alters, describes: of all outcomes, and of those that came out ok; config (a name), setting (-1: none). growths: of
    all outcomes; counts: of those that came out ok; count, and life: which process of the node answered, as far as that
    is known. one_server: whether ZooKeeper is a single server.
    """

    alters: DataFrame
    describes: DataFrame
    growths: DataFrame
    counts: DataFrame
    one_server: bool


def build_admin_facts(history: History, faults: Iterable[Fault], *, one_server: bool) -> AdminFacts:
    """faults: of the run; those that stop processes part a node's lives."""
    rows = history.coordination.where(F.col("topic").isNotNull())
    when: list[Column | str] = [
        "op",
        "phase",
        F.col("topic").alias("p"),
        "node",
        "outcome",
        "error",
        "invoke_ns",
        "complete_ns",
    ]
    ends = [(node, _began_ns(fault)) for fault in faults if _ends_processes(fault) for node in fault.targets]
    config, ok = F.col("asked.config").alias("config"), F.col("outcome") == "ok"

    def of(f: str) -> DataFrame:
        return rows.where(F.col("f") == f)

    return AdminFacts(
        of("alter_config").select(*when, config, F.col("asked.setting").alias("setting")),
        of("describe_config").where(ok).select(*when, config, F.col("answered.setting").alias("setting")),
        kept(of("create_partitions").select(*when, F.col("asked.count").alias("count"), _life(ends))),
        kept(of("count_partitions").where(ok).select(*when, F.col("answered.count").alias("count"), _life(ends))),
        one_server,
    )


def _ends_processes(fault: Fault) -> bool:
    """A fault that does not say what it does may do anything."""
    return fault.stops_process or not fault.effects


def _began_ns(fault: Fault) -> int:
    return fault.start_ns if fault.began_ns is None else fault.began_ns


def _life(ends: Sequence[tuple[str, int]]) -> Column:
    """Equal for two answers only if one process gave both. Null where the node had one end between question and answer,
    or is not known. Brokers are restarted between phases, too.
    """

    def ended_by(at: Column) -> Column:
        counted = [
            F.when((F.col("node") == node) & (F.lit(began_ns) <= at), F.lit(1)).otherwise(F.lit(0))
            for node, began_ns in ends
        ]
        return reduce(Column.__add__, counted, F.lit(0))

    asked, answered = ended_by(F.col("invoke_ns")), ended_by(F.col("complete_ns"))
    life = F.concat_ws("/", "node", "phase", asked.cast("string"))
    return F.when((asked == answered) & F.col("node").isNotNull(), life).alias("life")
