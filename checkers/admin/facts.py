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

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.history.processes import ends_of, life
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
    """faults: of the run; those that stop processes, or change files, part a node's lives."""
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
    ends = ends_of(faults)
    config, ok = F.col("asked.config").alias("config"), F.col("outcome") == "ok"

    def of(f: str) -> DataFrame:
        return rows.where(F.col("f") == f)

    return AdminFacts(
        of("alter_config").select(*when, config, F.col("asked.setting").alias("setting")),
        of("describe_config").where(ok).select(*when, config, F.col("answered.setting").alias("setting")),
        kept(of("create_partitions").select(*when, F.col("asked.count").alias("count"), life(ends))),
        kept(of("count_partitions").where(ok).select(*when, F.col("answered.count").alias("count"), life(ends))),
        one_server,
    )
