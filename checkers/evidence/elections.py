"""Which versions of a partition's state are elections, and which of those took a leader from outside of the ISR."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def electable() -> Column:
    """Who may lead next by the version before: its ISR, and its eligible replicas (docs/adr/0010)."""
    return F.array_union("previous.isr", "previous.eligible")


def from_outside() -> Column:
    """Of a state: its leader is a new one, neither in the previous version's ISR nor eligible."""
    return (
        (F.col("leader") >= 0)
        & (F.col("leader") != F.col("previous.leader"))
        & ~F.array_contains(electable(), F.col("leader"))
    )


def unclean_elections(states: DataFrame) -> DataFrame:
    """States with a leader from outside, but the first of each partition."""
    return states.where(F.col("previous").isNotNull() & from_outside())


def elections(states: DataFrame) -> DataFrame:
    """States, but the first of each partition, in which another broker than before, or one where none did, leads.

    A new epoch alone is none: the controller gives one also when a dead follower leaves the ISR.
    """
    return states.where(
        F.col("previous").isNotNull()
        & (F.col("leader") >= 0)
        & (F.col("leader") != F.col("previous.leader"))
        & (F.col("leader_epoch") > F.col("previous.leader_epoch"))
    )
