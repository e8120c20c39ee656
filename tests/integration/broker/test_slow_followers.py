"""R11 with real processes: a hung, a slow and a rate-limited follower each leave the ISR in time and come back.

The row bounds what a partition waits by 1.5 lag times and the ISR change; the change and this machine get a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Broker, Cluster, running_cluster, wait_until
from tests.support.raw_client import RawClient, batch_of
from tests.support.slow_door import SlowDoor

pytestmark = pytest.mark.guarantee("R11", "stuck-follower")

LAG_MS = 1500
SLACK_S = 1.0
BOUND_S = 1.5 * LAG_MS / 1000 + SLACK_S
RECORD_BYTES = 20_000
PAUSE_S = 0.01


@dataclass
class World:
    """Broker 1 leads; what its followers get of it comes through the door."""

    cluster: Cluster
    door: SlowDoor

    @property
    def victim(self) -> int:
        """A follower that is not the controller: that one has to be there to take it out of the ISR."""
        return next(i for i in (2, 3) if i != self.cluster.controller())

    def hang(self) -> None:
        self.cluster.brokers[self.victim].pause()

    def slow_down(self) -> None:
        """Each answer comes later than the lag time; the connection lives, nothing times out."""
        self.door.delay_s = LAG_MS / 1000 * 1.2

    def narrow(self) -> None:
        """A tenth of what is written at most gets through."""
        self.door.bytes_per_s = RECORD_BYTES / PAUSE_S / 10

    def heal(self) -> None:
        self.cluster.brokers[self.victim].resume()
        self.door.heal()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("cluster")

    def port_of_broker_1() -> int:
        """As its settings say: it is drawn when the broker is made, after the door."""
        lines = (folder / "broker-1" / "server.properties").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("listeners=")).rpartition(":")[2])

    door = SlowDoor(port_of_broker_1)
    settings = {
        "replica.lag.time.max.ms": str(LAG_MS),
        "zookeeper.session.timeout.ms": "18000",
        "min.insync.replicas": "2",
    }
    overrides = {1: {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{door.port}"}}
    try:
        with running_cluster(folder, settings=settings, overrides=overrides) as cluster:
            wait_until(lambda: cluster.controller() is not None, "a controller")
            made = World(cluster, door)
            door.marked = b"broker-%d-fetcher" % made.victim
            yield made
    finally:
        door.close()


class Flood:
    """Steady writes with acks=1 on a thread of their own: something to fall behind of."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._client = RawClient(broker.port)
        self._topic = topic
        self._stop = threading.Event()
        self.errors: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        data = batch_of(RECORD_BYTES)
        while not self._stop.is_set():
            error = self._client.produce(self._topic, data, 1).error
            if error:
                self.errors.append(error)
            time.sleep(PAUSE_S)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()


def isr_of(cluster: Cluster, topic: str) -> set[int]:
    state = cluster.state(topic, 0)
    assert state is not None
    assert isinstance(state["isr"], list)
    return set(state["isr"])


@pytest.mark.parametrize("fault", [World.hang, World.slow_down, World.narrow], ids=["hung", "slow", "rate-limited"])
def test_follower_that_falls_behind_leaves_the_isr_in_time_and_comes_back(
    world: World, fault: Callable[[World], None], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, leader, victim = world.cluster, world.cluster.brokers[1], world.victim
    topic = f"behind-{fault.__name__}"
    admin = AdminClient({"bootstrap.servers": leader.address})
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1, 2, 3]])])[topic].result(20)
    cluster.wait_state(topic, 0, leader=1, isr={1, 2, 3})
    # The state is written before its leader hears of it, and serves.
    cluster.wait_told(topic)
    client = RawClient(leader.port)

    def written() -> float:
        """Seconds that one append with acks=all took."""
        began = time.monotonic()
        assert client.produce(topic, batch_of(100), -1).error == 0
        return time.monotonic() - began

    flood = Flood(leader, topic)
    try:
        calm = [written() for _ in range(30)]
        assert isr_of(cluster, topic) == {1, 2, 3}, "all keep up before"
        began = time.monotonic()
        fault(world)
        try:
            took = [written()]
            while victim in isr_of(cluster, topic):
                assert time.monotonic() - began < 30, f"ISR {isr_of(cluster, topic)}"
                took.append(written())
            left_s = time.monotonic() - began
            while_out = [written() for _ in range(30)]
            assert isr_of(cluster, topic) == {1, 2, 3} - {victim}
        finally:
            world.heal()
        healed = time.monotonic()
        cluster.wait_state(topic, 0, leader=1, isr={1, 2, 3})
        back_s = time.monotonic() - healed
        after = [written() for _ in range(30)]
    finally:
        flood.stop()
        client.close()
    with capsys.disabled():
        print(
            f"\n{topic}: out after {left_s:.2f} s, longest write {max(took):.2f} s (lag time {LAG_MS / 1000} s), "
            f"median before/while out/after {median(calm) * 1000:.0f}/{median(while_out) * 1000:.0f}/"
            f"{median(after) * 1000:.0f} ms, back after {back_s:.2f} s"
        )
    assert not flood.errors
    assert max(took) < BOUND_S
    assert median(while_out) < 0.5, "it is waited for no more"
    kinds = [event["kind"] for event in leader.events() if event["e"] == "isr_propose" and event["p"] == f"{topic}-0"]
    assert kinds == ["shrink", "expand"], "out once, in once"
    wait_until(lambda: len(set(logs(cluster, topic))) == 1, "the same bytes on every replica")


def logs(cluster: Cluster, topic: str) -> list[bytes]:
    """The partition's bytes on each broker."""
    folders = [broker.folder / "data" / f"{topic}-0" for broker in cluster.brokers.values()]
    return [b"".join(Path(file).read_bytes() for file in sorted(folder.glob("*.log"))) for folder in folders]
