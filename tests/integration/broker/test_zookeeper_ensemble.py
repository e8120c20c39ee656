"""C9 over an ensemble of three: the death of one server, its leader too, costs no session, no election and no write."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.exceptions import KazooException

from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.zookeeper import ZooKeeperEnsemble

pytestmark = pytest.mark.guarantee("C9")

SETTINGS = {"zookeeper.session.timeout.ms": "8000", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
STATE = f"/brokers/topics/{TOPIC}/partitions/0/state"


def served(cluster: Cluster) -> bool:
    """Whether the test's own client reaches the ensemble; what it asks next is answered."""
    try:
        return bool(cluster.zk.exists("/brokers"))
    except KazooException:
        return False


def registered(cluster: Cluster) -> dict[int, int]:
    """Broker epochs: another session has another."""
    return {i: cluster.zk.get(f"/brokers/ids/{i}")[1].czxid for i in cluster.live()}


def test_death_of_one_server_costs_no_session_and_no_election(tmp_path: Path) -> None:
    ensemble = ZooKeeperEnsemble(tmp_path / "ensemble")
    with running_cluster(tmp_path, settings=SETTINGS, ensemble=ensemble) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        create(cluster, 1)
        writer = Writer(cluster)
        try:
            writer.wait_for_more(50)
            before, epochs, controller = cluster.zk.get(STATE), registered(cluster), cluster.controller()
            for victim in ("leader", "follower"):
                leader = ensemble.leader()
                assert leader is not None
                gone = leader if victim == "leader" else next(n for n in ensemble.servers if n != leader)
                ensemble.servers[gone].kill()
                writer.wait_for_more(50)
                wait_until(lambda: ensemble.leader() is not None and served(cluster), "the others elect a leader")
                assert cluster.zk.get(STATE)[1].mzxid == before[1].mzxid, "nothing was written for it"
                assert registered(cluster) == epochs, "every session goes on"
                assert cluster.controller() == controller
                # And what needs ZooKeeper is done by the two that are left.
                create(cluster, 2, f"without-its-{victim}")
                ensemble.servers[gone].start()
            follower = next(i for i in (2, 3) if i != controller)
            cluster.brokers[follower].kill()
            cluster.wait_state(TOPIC, 0, leader=1, isr={1, 2, 3} - {follower})
            cluster.brokers[follower].start()
            cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
            writer.wait_for_more(50)
        finally:
            writer.stop()
        assert read(cluster, writer.sent) == list(range(writer.sent))


@pytest.mark.nightly
def test_ensemble_without_a_majority_stops_writes_and_loses_none(tmp_path: Path) -> None:
    ensemble = ZooKeeperEnsemble(tmp_path / "ensemble")
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "3000"}
    with running_cluster(tmp_path, settings=settings, ensemble=ensemble) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        create(cluster, 1)
        writer = Writer(cluster)
        try:
            writer.wait_for_more(50)
            dead = [ensemble.servers[number] for number in (1, 2)]
            for server in dead:
                server.kill()
            leader = cluster.brokers[1]
            wait_until(lambda: "session deadline passed: True" in leader.output, "the leader stands still")
            for server in dead:
                server.launch()
            for server in dead:
                server.wait_until_it_serves()
            writer.wait_for_more(50)
        finally:
            writer.stop()
        wait_until(lambda: served(cluster), "the ensemble serves")
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        assert read(cluster, writer.sent) == list(range(writer.sent))
