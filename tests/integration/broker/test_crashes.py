"""kill -9 of whoever matters while a retrying idempotent producer writes: every record is there, once and in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from broker.wire.errors import ErrorCode
from tests.integration.admin.asking import set_config
from tests.integration.broker.writing import TOPIC, Writer, create, end_offset, known_by, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.pinned_client import MARK, PinnedClient

pytestmark = pytest.mark.guarantee("R7", "C1", "C8", "C9")

SETTINGS = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
Killed = Callable[[Cluster], set[int]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


@pytest.mark.parametrize("victim", ["leader", "controller", "leader-and-controller-in-one", "leader-then-controller"])
def test_killed_brokers_cost_no_acknowledged_record_and_no_duplicate(cluster: Cluster, victim: str) -> None:
    controller = cluster.controller()
    assert controller is not None
    others = [i for i in cluster.brokers if i != controller]
    create(cluster, controller if victim == "leader-and-controller-in-one" else others[0])
    writer = Writer(cluster)
    try:
        writer.wait_for_more(100)
        victims = {
            "leader": [others[0]],
            "controller": [controller],
            "leader-and-controller-in-one": [controller],
            "leader-then-controller": [others[0], controller],
        }[victim]
        for broker in victims:
            cluster.brokers[broker].kill()
            if broker != victims[-1]:
                # One after the other: two dead of three would be below min ISR.
                cluster.brokers[broker].start()
                cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
                writer.wait_for_more(20)
        writer.wait_for_more(100)
        cluster.brokers[victims[-1]].start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        writer.wait_for_more(20)
    finally:
        writer.stop()
    assert sorted(writer.acknowledged) == list(range(writer.sent))
    values = read(cluster, writer.sent)
    assert values == list(range(writer.sent)), "each once, in the order sent"
    assert [writer.acknowledged[value] for value in values] == list(range(writer.sent))


def test_all_brokers_killed_at_once_cost_no_acknowledged_record(cluster: Cluster) -> None:
    create(cluster, 1)
    writer = Writer(cluster)
    try:
        writer.wait_for_more(200)
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        writer.wait_for_more(50)
    finally:
        writer.stop()
    assert read(cluster, writer.sent) == list(range(writer.sent))


@pytest.mark.parametrize("killed", [(1, 2), (2, 3), (3, 1)], ids=str)
def test_last_of_three_has_every_acknowledged_record_when_the_others_are_gone_for_good(
    cluster: Cluster, killed: tuple[int, int]
) -> None:
    """R7: all but one of the brokers that were in the ISR. The operator says that one replica is to be enough now."""
    create(cluster, 1)
    first, second = killed
    (last,) = cluster.brokers.keys() - set(killed)
    writer = Writer(cluster)
    try:
        writer.wait_for_more(100)
        cluster.brokers[first].kill()
        writer.wait_for_more(100)
    finally:
        writer.stop()
    before = writer.sent
    assert sorted(writer.acknowledged) == list(range(before))
    cluster.wait_state(TOPIC, 0, isr={second, last})
    cluster.brokers[second].kill()
    cluster.wait_state(TOPIC, 0, leader=last, isr={last})
    wait_until(lambda: known_by(cluster.brokers[last]) == 1, "a controller that knows who is left")
    set_config(cluster, ResourceType.TOPIC, TOPIC, min_insync_replicas="1")
    more = Writer(cluster)
    try:
        more.wait_for_more(20)
    finally:
        more.stop()
    values = read(cluster, before + more.sent)
    assert values == [*range(before), *range(more.sent)], "each once, in the order sent"
    assert [writer.acknowledged[value] for value in values[:before]] == list(range(before))


def test_broker_killed_and_started_within_its_session_is_back_at_once_and_leads_under_no_old_epoch(
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "60000"}
    with running_cluster(tmp_path, settings=settings) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        leader = next(i for i in cluster.brokers if i != cluster.controller())
        create(cluster, leader)
        writer = Writer(cluster)
        try:
            writer.wait_for_more(50)
            broker = cluster.brokers[leader]
            path = f"/brokers/ids/{leader}"
            before = cluster.zk.get(path)[1].czxid
            broker.kill()
            started = time.monotonic()
            assert cluster.zk.exists(path), "the old session still has its time"
            broker.start()

            def again() -> bool:
                stat = cluster.zk.exists(path)
                return stat is not None and stat.czxid != before

            wait_until(again, lambda: broker.output)
            cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
            assert time.monotonic() - started < 30, "half of the old session's time-out"
            writer.wait_for_more(50)
        finally:
            writer.stop()
        assert read(cluster, writer.sent) == list(range(writer.sent))
        lives: dict[object, list[int]] = {}
        for event in broker.events():
            lives.setdefault(event["i"], [])
            # Clients that read with a group have __consumer_offsets made, whose partitions begin at epoch 0.
            if event["e"] == "become_leader" and event["p"] == f"{TOPIC}-0":
                lives[event["i"]].append(event["le"])  # type: ignore[arg-type]
        first, second = lives.values()
        assert first
        assert all(epoch > max(first) for epoch in second)


def test_leaders_are_locally_fenced_while_zookeeper_is_away_for_long_and_go_on_when_it_is_back(
    cluster: Cluster,
) -> None:
    create(cluster, 1)
    writer = Writer(cluster)
    try:
        writer.wait_for_more(50)
        leader = cluster.brokers[1]
        with PinnedClient(leader, TOPIC, -1) as acks_all, PinnedClient(leader, TOPIC, 1) as acks_1:
            for client in (acks_all, acks_1):
                client.wait_for(1, 0)
                assert client.since(0)[0] == ErrorCode.NONE
            cluster.zookeeper.kill()
            wait_until(lambda: "session deadline passed: True" in leader.output, lambda: leader.output)
            end, away_s = end_offset(leader), time.monotonic()
            assert len(read(cluster, end, skip=MARK)) > 0, "reads go on"
            # Two seconds of asking.
            for client in (acks_all, acks_1):
                assert set(client.wait_for(40, away_s)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
            assert end_offset(leader) == end, "nothing is committed"
        cluster.zookeeper.start()
        writer.wait_for_more(50)
    finally:
        writer.stop()
    assert read(cluster, writer.sent, skip=MARK) == list(range(writer.sent))
