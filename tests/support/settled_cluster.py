"""A cluster in memory whose brokers have taken up their roles."""

from __future__ import annotations

from tests.support.memory_cluster import MemoryCluster


def settled(min_isr: int = 1, **kwargs: object) -> MemoryCluster:
    cluster = MemoryCluster(min_isr=min_isr, **kwargs)  # type: ignore[arg-type]
    cluster.settle()
    return cluster
