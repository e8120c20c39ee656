"""C5: brokers stopped and started one after the other. acks=all goes on at RF 3, min ISR 2, with the default session.

Sessions of 18 s: had anything waited for one to end, the gap would be that long.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from broker.wire.api import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.failover import SETTINGS, RetryingClient, make_topic
from tests.support.raw_client import RawClient, batch_of, framed

pytestmark = pytest.mark.guarantee("C5")

# A leader's move takes some milliseconds. What the tests beside this one take of the machine is not the broker's, so
# `make test` asks only that nothing waited for a session, which is six times as long.
GAP_MAX_S = 3.0
QUIET_GAP_MAX_S = 0.3


class Client:
    """One record after the other with acks=all on a thread of its own; it asks for the leader before each."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._client = RetryingClient(cluster)
        self._topic = topic
        self._stop = threading.Event()
        self.succeeded: list[float] = []
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._client.until_written(self._topic)
                self.succeeded.append(time.monotonic())
        except BaseException as failure:
            self.failure = failure

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    @property
    def refusals(self) -> set[int | None]:
        return self._client.refusals

    @property
    def longest_gap_s(self) -> float:
        return max(later - earlier for earlier, later in pairwise(self.succeeded))


@dataclass
class Restarts:
    """What a client of each of three leaders noticed while all three were restarted."""

    gaps_s: list[float]
    refusals: set[int | None]


def restart_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Restarts:
    """One broker after the other, each when the one before is in all ISRs again."""
    settings = {**SETTINGS, "auto.leader.rebalance.enable": "true"}
    with running_cluster(tmp_path, settings=settings) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        maker = RetryingClient(cluster)
        topics = {f"led-by-{i}": i for i in cluster.brokers}
        for topic, leader in topics.items():
            make_topic(cluster, maker, topic, leader)
        maker.close()
        clients = {topic: Client(cluster, topic) for topic in topics}
        try:
            for broker in cluster.brokers.values():
                assert broker.stop() == 0
                for topic in topics:
                    state = cluster.state(topic, 0)
                    assert state is not None
                    assert state["leader"] not in (broker.broker_id, -1), "leadership was moved before it went"
                broker.start()
                for topic in topics:
                    cluster.wait_state(topic, 0, isr=set(cluster.brokers))
        finally:
            for client in clients.values():
                client.stop()
        gaps_s = [client.longest_gap_s for client in clients.values()]
        with capsys.disabled():
            longest = ", ".join(f"{gap_s * 1000:.0f} ms" for gap_s in gaps_s)
            print(f"\nrolling restart of three brokers: longest gaps between two acks=all successes {longest}")
        assert not [client.failure for client in clients.values() if client.failure is not None]
        elections = [event for b in cluster.brokers.values() for event in b.events() if event["e"] == "election"]
        led = [event for event in elections if event["p"] in {f"{topic}-0" for topic in topics}]
        assert {"offline", "unclean", "suspected"}.isdisjoint({str(event["reason"]) for event in led}), (
            "nobody was missed"
        )
        return Restarts(gaps_s, set().union(*(client.refusals for client in clients.values())))


def test_rolling_restart_leaves_no_gap_in_acks_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noticed = restart_all(tmp_path, capsys)
    assert max(noticed.gaps_s) < GAP_MAX_S, noticed


@pytest.mark.nightly
def test_rolling_restart_on_a_quiet_machine_costs_a_refusal_and_a_fraction_of_a_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noticed = restart_all(tmp_path, capsys)
    assert noticed.refusals <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}, noticed
    assert max(noticed.gaps_s) < QUIET_GAP_MAX_S, noticed


@pytest.mark.parametrize("is_controller", [False, True])
def test_client_of_a_leader_that_stops_learns_who_leads_before_its_connection_ends(
    tmp_path: Path, is_controller: bool
) -> None:
    # Long enough for a machine that does other work.
    with running_cluster(tmp_path, settings={**SETTINGS, "controlled.shutdown.farewell.ms": "3000"}) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        controller = cluster.controller()
        leaving = next(i for i in cluster.brokers if (i == controller) is is_controller)
        maker = RetryingClient(cluster)
        make_topic(cluster, maker, "moved", leaving)
        maker.close()
        cluster.wait_told("moved")
        client = RawClient(cluster.brokers[leaving].port)
        exits: list[int] = []
        stopping = threading.Thread(target=lambda: exits.append(cluster.brokers[leaving].stop()))
        stopping.start()
        try:
            errors = {client.produce("moved", batch_of(1), -1).error}
            while errors == {ErrorCode.NONE}:
                errors.add(client.produce("moved", batch_of(1), -1).error)
            assert errors <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
            client.send(framed(ApiKey.METADATA, 1, MetadataRequest([MetadataRequestTopic(name="moved")]).encode(1)))
            answer = MetadataResponse.decode(1, memoryview(client.receive())[4:])
            assert answer.topics[0].partitions[0].leader_id not in (-1, leaving)
        finally:
            client.close()
            stopping.join()
        assert exits == [0]
