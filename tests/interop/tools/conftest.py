"""One cluster of three brokers, and the tools run in this process against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.tools import commands
from tests.support.brokers import Cluster, running_cluster

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
Tool = Callable[..., list[str]]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def tool(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Tool:
    """tool(name, *words, code=0): the lines that it prints; fails where it ends with another exit code."""

    def run(name: str, *words: str, code: int = 0) -> list[str]:
        capfd.readouterr()
        ended = commands.run(name, ["--bootstrap-server", cluster.bootstrap, *words])
        out, err = capfd.readouterr()
        assert ended == code, out + err
        return out.splitlines()

    return run
