"""Rows about coordinators and groups, in small, on a cluster of ours: each finds what its table shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.bench import Bench, Tools
from benchmarks.measure.memory import Ballast
from benchmarks.process import BenchmarkFailed
from benchmarks.rows.base import Found, Row
from benchmarks.rows.coordination import CoordinatorLoad, OffsetCommits, Transactions, require_committed
from benchmarks.rows.groups import GroupSettles, IdleMembers
from benchmarks.systems import Cluster, highwater
from broker.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]
ROWS = [
    OffsetCommits(4, 0.5),
    Transactions(1, 0.5),
    Transactions(4, 0.5),
    GroupSettles(10),
    IdleMembers(20, 1.0, heartbeat_s=0.1, a_group=10),
    CoordinatorLoad(2000),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    ballast = Ballast(folder / "ballast", wanted=False)
    cluster = Cluster(highwater(), folder / "cluster")
    try:
        cluster.start()
        yield Bench(cluster.kind, Tools(folder / "none", None, ballast), cluster)
    finally:
        cluster.close()
        ballast.release()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_finds_what_its_table_shows(bench: Bench, row: Row) -> None:
    found: Found = {}
    row.run(bench, found)
    # Of a short run there are no percentiles.
    assert {name for name in row.metrics if not name.startswith("p")} <= set(found)
    assert all(value >= 0 for value in found.values()), found
    assert not bench.doubts


def test_commit_that_is_refused_ends_the_run() -> None:
    refused = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", [OffsetCommitResponsePartition(0, 25)])])
    with pytest.raises(BenchmarkFailed, match=r"errors \[25\]"):
        require_committed(memoryview(refused.encode(8)))
