"""A thousand partitions at once: their election after a failure, and the beginning of their reassignment."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from broker.model.ids import TopicPartition
from broker.runtime.controller.term import ControllerTerm
from broker.zk import client as zk_client
from broker.zk import paths, topic_codecs
from broker.zk.client import ZkClient
from tests.integration.controller.conftest import Cluster, Node
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("C3", "elections")

PARTITIONS = 1000


class Trips:
    """Counts what a client sends: requests, and windows of them that are answered together."""

    def __init__(self, client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests = self.round_trips = 0
        for name, at_once in (("_pipelined", 1), ("multi_many", 1), ("_read_together", zk_client._PIPELINE)):
            monkeypatch.setattr(client, name, self._counted(getattr(client, name), at_once))

    def _counted(self, call: Any, at_once: int) -> Any:
        """at_once: how much of what is asked goes into one request."""

        def counted(asked: Sequence[object], *rest: Any) -> Any:
            requests = math.ceil(len(asked) / at_once)
            self.requests += requests
            self.round_trips += math.ceil(requests / zk_client._PIPELINE)
            return call(asked, *rest)

        return counted


def test_thousand_partitions_are_elected_in_one_pass(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller, leader = cluster.add(2), cluster.add(1)
    cluster.add(3)
    eventually(lambda: controller.controller.active, "broker 2 is controller")
    cluster.create_topic("big", dict.fromkeys(range(PARTITIONS), (1, 2, 3)))
    all_states = [paths.partition_state(TopicPartition("big", p)) for p in range(PARTITIONS)]
    eventually(lambda: None not in cluster.client.get_many(all_states).values(), "every partition has a state")

    took_s, trips = _fail(cluster, controller, leader, monkeypatch)

    found = [cluster.state("big", p) for p in (0, PARTITIONS // 2, PARTITIONS - 1)]
    assert [(state.leader, state.isr) for state in found if state is not None] == [(2, (2, 3))] * 3

    def elected() -> int:
        lines = [fields for event, fields in list(cluster.log) if event == "election"]
        return sum(fields["reason"] == "offline" for fields in lines)

    eventually(lambda: elected() == PARTITIONS, "a line on every election")
    with capsys.disabled():
        print(
            f"\n{PARTITIONS} partitions elected anew in {took_s:.2f} s, {trips.requests} ZooKeeper requests in "
            f"{trips.round_trips} round trips"
        )
    # Registrations and their data, then the states, a hundred to a multi: each written once, nothing read again.
    assert trips.requests <= PARTITIONS / 100 + 8
    assert trips.round_trips <= 4


def _fail(cluster: Cluster, controller: Node, leader: Node, monkeypatch: pytest.MonkeyPatch) -> tuple[float, Trips]:
    """End a broker; how long the controller's one event took, and what it sent."""
    term = controller.controller._term
    assert term is not None
    done: list[tuple[float, Trips]] = []
    brokers_changed = term.brokers_changed

    def timed() -> None:
        trips = Trips(controller.client, monkeypatch)
        began = time.monotonic()
        brokers_changed()
        done.append((time.monotonic() - began, trips))
        monkeypatch.undo()

    monkeypatch.setattr(term, "brokers_changed", timed)
    cluster.remove(leader)
    leader.kill()
    return eventually(lambda: done, "the election")[0]


def test_thousand_partitions_begin_to_move_in_a_few_writes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = cluster.add(1)
    for broker in (2, 3):
        cluster.add(broker)
    eventually(lambda: controller.controller.active, "broker 1 is controller")
    cluster.create_topic("big", dict.fromkeys(range(PARTITIONS), (1, 2)))
    all_states = [paths.partition_state(TopicPartition("big", p)) for p in range(PARTITIONS)]
    eventually(lambda: None not in cluster.client.get_many(all_states).values(), "every partition has a state")
    done: list[tuple[float, Trips, Any]] = []

    def alter(term: ControllerTerm) -> Any:
        trips = Trips(controller.client, monkeypatch)
        began = time.monotonic()
        targets = {TopicPartition("big", p): (3, 2) for p in range(PARTITIONS)}
        results = term.admin.reassignments.alter(targets)
        done.append((time.monotonic() - began, trips, results))
        monkeypatch.undo()

    controller.controller.request(alter, lambda error: None, lambda answer: None)
    took_s, trips, results = eventually(lambda: done, "the answer")[0]
    assert set(results.values()) == {None}
    state = cluster.state("big", PARTITIONS - 1)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (2, 1))
    node = cluster.client.get(paths.topic("big"))
    assert node is not None
    topic = topic_codecs.decode_topic("big", node.data)
    assert topic.adding == dict.fromkeys(range(PARTITIONS), (3,))
    assert topic.removing == dict.fromkeys(range(PARTITIONS), (1,))
    with capsys.disabled():
        print(f"\n{PARTITIONS} reassignments begun in {took_s:.2f} s, {trips.requests} ZooKeeper multis")
    assert trips.requests <= PARTITIONS / 200 + 2
