"""Sessions that end, and ZooKeeper that is restarted or written by others, under a writing producer.

Never two leaders that commit, never a broker that is stuck: every acknowledged record is there, once and in order, and
ISR changes and elections still work afterwards (KAFKA-2729, KAFKA-13407).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.ports import free_port
from broker.wire.errors import ErrorCode
from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support.brokers import Broker, Cluster, running_cluster, wait_until
from tests.support.pinned_client import MARK, PinnedClient
from tests.support.proxy import Proxy

pytestmark = pytest.mark.guarantee("R10", "C9")

SETTINGS = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
STATE = f"/brokers/topics/{TOPIC}/partitions/0/state"


@dataclass
class Life:
    """A cluster under load, each broker behind its own door to ZooKeeper."""

    cluster: Cluster
    doors: dict[int, Proxy]
    writer: Writer
    leader: int

    def shut_out(self, broker: int) -> None:
        """ZooKeeper hears nothing of this broker any more; brokers and clients still do."""
        self.doors[broker].refusing = True
        self.doors[broker].cut()

    def let_in(self, broker: int) -> None:
        self.doors[broker].refusing = False

    def led_by(self) -> object:
        state = self.cluster.state(TOPIC, 0)
        return None if state is None else state["leader"]

    def isr_still_changes(self) -> None:
        """A follower that dies leaves the ISR, and comes back in."""
        state = self.cluster.state(TOPIC, 0)
        assert state is not None
        follower = next(i for i in self.cluster.brokers if i != state["leader"])
        self.cluster.brokers[follower].kill()
        self.cluster.wait_state(TOPIC, 0, isr=set(self.cluster.brokers) - {follower})
        self.writer.wait_for_more(20)
        self.cluster.brokers[follower].start()
        self.cluster.wait_state(TOPIC, 0, isr=set(self.cluster.brokers))


@contextmanager
def life(tmp_path: Path, leader_is_controller: bool = False) -> Iterator[Life]:
    port = free_port()
    doors = {i: Proxy(port) for i in (1, 2, 3)}
    try:
        overrides = {i: {"zookeeper.connect": f"127.0.0.1:{door.port}"} for i, door in doors.items()}
        with running_cluster(tmp_path, settings=SETTINGS, overrides=overrides, zookeeper_port=port) as cluster:
            wait_until(lambda: cluster.controller() is not None, "a controller")
            controller = cluster.controller()
            assert controller is not None
            leader = controller if leader_is_controller else next(i for i in cluster.brokers if i != controller)
            create(cluster, leader)
            writer = Writer(cluster)
            try:
                writer.wait_for_more(50)
                one = Life(cluster, doors, writer, leader)
                yield one
                cluster.wait_state(TOPIC, 0, isr=set(cluster.brokers))
                one.isr_still_changes()
                writer.wait_for_more(20)
            finally:
                writer.stop()
            values = read(cluster, writer.sent, skip=MARK)
            assert values == list(range(writer.sent)), "each once, in the order sent"
    finally:
        for door in doors.values():
            door.close()


@contextmanager
def pinned(cluster: Cluster, broker: int, topic: str) -> Iterator[dict[int, PinnedClient]]:
    """Producers that ask this broker only, by their acks; both were served."""
    with ExitStack() as stack:
        clients = {acks: stack.enter_context(PinnedClient(cluster.brokers[broker], topic, acks)) for acks in (-1, 1)}
        for client in clients.values():
            wait_until(lambda: ErrorCode.NONE in client.since(0), lambda: str(client.attempts))  # noqa: B023
        yield clients


def all_refused_since(clients: dict[int, PinnedClient], session_over_s: float) -> None:
    """The deadline of the broker's own clock comes before ZooKeeper's: when that has expired it, nothing is taken."""
    for acks, client in clients.items():
        errors = client.wait_for(20, session_over_s)
        assert set(errors) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}, f"acks={acks}: {errors}"


def acknowledged_since(broker: Broker, session_over_ns: int) -> list[dict[str, object]]:
    """By the wall clock; of what was sent before that, too."""
    return [event for event in broker.events() if event["e"] == "ack" and int(str(event["w"])) > session_over_ns]


@pytest.mark.parametrize("leader_is_controller", [False, True])
def test_leader_whose_session_ends_unknown_to_it_is_replaced_and_comes_back(
    tmp_path: Path, leader_is_controller: bool
) -> None:
    with life(tmp_path, leader_is_controller) as one:
        cluster, old = one.cluster, one.leader
        with pinned(cluster, old, TOPIC) as clients:
            one.shut_out(old)
            wait_until(lambda: old not in cluster.live(), "the end of its session")
            over_s, over_ns = time.monotonic(), time.time_ns()
            wait_until(lambda: one.led_by() not in (old, -1), "another leader")
            one.writer.wait_for_more(50)
            all_refused_since(clients, over_s)
            assert acknowledged_since(cluster.brokers[old], over_ns) == []
        one.let_in(old)
        wait_until(lambda: old in cluster.live(), lambda: cluster.brokers[old].output[-2000:])


def test_last_in_sync_leader_acknowledges_nothing_beside_one_that_was_elected_uncleanly(tmp_path: Path) -> None:
    with life(tmp_path) as one:
        cluster, old = one.cluster, one.leader
        other = next(i for i in cluster.brokers if i not in (old, cluster.controller()))
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        topic = NewTopic("alone", 1, replica_assignment=[[old, other]], config=settings)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])["alone"].result(20)
        cluster.brokers[other].kill()
        cluster.wait_state("alone", 0, leader=old, isr={old})
        # It needs nobody else to commit: its own clock alone tells it to stop.
        with pinned(cluster, old, "alone") as clients:
            one.shut_out(old)
            wait_until(lambda: old not in cluster.live(), "the end of its session")
            over_s, over_ns = time.monotonic(), time.time_ns()
            cluster.brokers[other].start()
            cluster.wait_state("alone", 0, leader=other, isr={other})
            elected_s = time.monotonic()
            with pinned(cluster, other, "alone"):
                all_refused_since(clients, elected_s)
            all_refused_since(clients, over_s)
            assert acknowledged_since(cluster.brokers[old], over_ns) == []
        one.let_in(old)
        cluster.wait_state("alone", 0, leader=other, isr={old, other})


def test_session_that_is_short_of_ending_costs_no_election(tmp_path: Path) -> None:
    with life(tmp_path) as one:
        before = one.cluster.state(TOPIC, 0)
        for _ in range(3):
            one.doors[one.leader].cut()
            one.writer.wait_for_more(30)
        assert one.cluster.state(TOPIC, 0) == before


def test_restarted_zookeeper_wedges_nobody(tmp_path: Path) -> None:
    with life(tmp_path) as one:
        before = one.cluster.state(TOPIC, 0)
        one.cluster.zookeeper.restart()
        one.writer.wait_for_more(50)
        wait_until(lambda: one.cluster.live() == {1, 2, 3}, "all brokers registered")
        after = one.cluster.state(TOPIC, 0)
        assert before is not None
        assert after is not None
        assert after["leader_epoch"] in (before["leader_epoch"], int(str(before["leader_epoch"])) + 1)


def test_state_that_somebody_else_wrote_wedges_nobody(tmp_path: Path) -> None:
    with life(tmp_path) as one:
        for _ in range(3):
            content, stat = one.cluster.zk.get(STATE)
            one.cluster.zk.set(STATE, json.dumps(json.loads(content), indent=1).encode(), stat.version)
            one.writer.wait_for_more(20)


def test_all_sessions_that_end_together_come_back(tmp_path: Path) -> None:
    with life(tmp_path) as one:
        for broker in one.doors:
            one.shut_out(broker)
        wait_until(lambda: not one.cluster.live(), "no broker registered")
        for broker in one.doors:
            one.let_in(broker)
        wait_until(lambda: one.cluster.live() == {1, 2, 3}, "all brokers registered")
        one.writer.wait_for_more(50)
