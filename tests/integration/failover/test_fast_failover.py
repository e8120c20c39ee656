"""kill -9 with the default session: writes go on long before ZooKeeper notices."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.failover import SETTINGS, VICTIMS, failovers

pytestmark = pytest.mark.guarantee("C10")

KILLS = 4
# The rows ask for less (median 0.3 s, worst of 50 1 s); a machine that runs other tests beside this one is slower.
WORST_S = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("failover"), settings=SETTINGS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


@pytest.mark.parametrize("victim", VICTIMS)
def test_acks_all_goes_on_long_before_the_session_ends(cluster: Cluster, victim: str) -> None:
    took = list(failovers(cluster, victim, KILLS))
    assert max(took) < WORST_S, took
    suspicions = [
        event for broker in cluster.brokers.values() for event in broker.events() if event["e"] == "suspicion"
    ]
    spent = [(event["target"], event["be"]) for event in suspicions]
    assert len(spent) == len(set(spent)), "a registration is suspected once"


@pytest.mark.nightly
@pytest.mark.parametrize("victim", VICTIMS)
def test_fifty_kills_each_stay_within_the_rows_figures(tmp_path: Path, victim: str) -> None:
    with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        took = sorted(failovers(cluster, victim, 50))
    print(f"{victim}: median {statistics.median(took):.3f} s, p90 {took[45]:.3f} s, worst {took[-1]:.3f} s")
    assert statistics.median(took) < 0.3, took
    assert took[-1] < 1.0, took


def test_without_suspicion_the_session_decides(tmp_path: Path) -> None:
    settings = {**SETTINGS, "failure.suspicion.enable": "false", "zookeeper.session.timeout.ms": "3000"}
    with running_cluster(tmp_path, settings=settings) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        assert next(failovers(cluster, "leader", 1)) > 1.0
