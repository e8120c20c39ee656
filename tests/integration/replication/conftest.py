"""Clusters on real files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disk_cluster import DiskCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DiskCluster]:
    cluster = DiskCluster(tmp_path)
    cluster.settle()
    yield cluster
    cluster.close()
