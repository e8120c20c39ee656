"""C9: a ZooKeeper server that is cut off from the others keeps no leader alive, though it goes on answering reads."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from broker.wire.errors import ErrorCode
from tests.integration.broker.writing import TOPIC
from tests.support import namespaces
from tests.support.brokers import running_cluster, wait_until
from tests.support.pinned_client import PinnedClient
from tests.support.zookeeper import ZooKeeperEnsemble

pytestmark = pytest.mark.guarantee("C9")

SETTINGS = {"zookeeper.session.timeout.ms": "3000"}


class BesideTheFirst(ZooKeeperEnsemble):
    """Servers on hosts of their own. The first comes late, so it follows, and is for whoever asks for it by name."""

    def start(self) -> None:
        for number in (2, 3):
            self.servers[number].launch()
        for number in (2, 3):
            self.servers[number].wait_until_it_serves()
        self.servers[1].start()

    @property
    def connect(self) -> str:
        return f"{self.servers[2].connect},{self.servers[3].connect}"


@pytest.mark.sandbox
def test_leader_at_a_server_without_its_quorum_acknowledges_nothing_once_the_others_may_expire_its_session(
    tmp_path: Path,
) -> None:
    # The server that is cut off would not notice for 40 s.
    ensemble = BesideTheFirst(tmp_path / "ensemble", sync_limit=200, hosts=namespaces.make(3))
    overrides = {1: {"zookeeper.connect": ensemble.servers[1].connect}}
    with (
        running_cluster(tmp_path, 2, settings=SETTINGS, overrides=overrides, ensemble=ensemble) as cluster,
        ExitStack() as stack,
    ):
        assert ensemble.servers[1].mode() == "follower"
        reader = KazooClient(ensemble.servers[1].connect)
        reader.start()
        stack.callback(reader.close)
        stack.callback(reader.stop)

        def served(broker: int) -> dict[int, PinnedClient]:
            """Producers that ask this broker only, by their acks."""
            clients = {a: stack.enter_context(PinnedClient(cluster.brokers[broker], TOPIC, a)) for a in (-1, 1)}
            for client in clients.values():
                wait_until(lambda: ErrorCode.NONE in client.since(0), lambda: str(client.attempts))  # noqa: B023
            return clients

        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2]], config=config)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])[TOPIC].result(20)
        cluster.brokers[2].stop()
        cluster.wait_state(TOPIC, 0, leader=1, isr={1})
        clients = served(1)
        stack.callback(namespaces.heal, 1)
        for other in (2, 3):
            namespaces.drop(1, other)
        wait_until(lambda: 1 not in cluster.live(), "the end of its session, as the majority sees it")
        over_s = time.monotonic()
        cluster.brokers[2].start()
        cluster.wait_state(TOPIC, 0, leader=2, isr={2})
        served(2)
        for acks, client in clients.items():
            errors = client.wait_for(20, over_s)
            assert set(errors) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}, f"acks={acks}: {errors}"
        assert reader.exists("/brokers/ids/1"), "the server still answers, from its own memory"
