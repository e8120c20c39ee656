"""A cluster in memory whose brokers have taken up their roles."""

from __future__ import annotations

import pytest

from tests.support.memory_cluster import MemoryCluster


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.settle()
    return cluster
