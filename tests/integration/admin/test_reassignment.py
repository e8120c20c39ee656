"""Reassignments on real brokers: a new broker under load, throttles, cancelling, dead controllers, znodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType

from tests.integration.admin.asking import (
    GAP_MAX_S,
    SETTINGS,
    Reassigner,
    add_broker,
    assignment,
    create_topic,
    fill,
    log_bytes,
    log_folder,
    longest_gap_s,
    set_config,
)
from tests.integration.broker.writing import Writer, read
from tests.support.brokers import Cluster, running_cluster, wait_until

pytestmark = pytest.mark.guarantee("C6")

# A rate holds on average over the windows: whoever had little to move before may move more at once.
WITH_SHORT_WINDOWS = {**SETTINGS, "replication.quota.window.num": "3"}
RATE = 100_000
RECORDS, SIZE = 150, 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    with running_cluster(folder, settings=WITH_SHORT_WINDOWS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


@pytest.fixture
def four(cluster: Cluster, folder: Path) -> Cluster:
    """With a fourth broker that came later."""
    if 4 not in cluster.brokers:
        add_broker(cluster, folder, 4, WITH_SHORT_WINDOWS)
    return cluster


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Reassigner:
    return Reassigner(cluster)


def throttle(cluster: Cluster, rate: int | None, topic: str, sides: Sequence[str] = ("leader", "follower")) -> None:
    """All replicas of the topic, on these sides of their replication. rate: bytes per second; None: no more."""
    text = None if rate is None else str(rate)
    rates = {f"{side}_replication_throttled_rate": text for side in sides}
    for broker in cluster.brokers:
        set_config(cluster, ResourceType.BROKER, str(broker), **rates)
    listed = None if rate is None else "*"
    set_config(
        cluster, ResourceType.TOPIC, topic, **{f"{side}_replication_throttled_replicas": listed for side in sides}
    )


@contextmanager
def throttled(cluster: Cluster, rate: int, topic: str, sides: Sequence[str] = ("leader", "follower")) -> Iterator[None]:
    throttle(cluster, rate, topic, sides)
    try:
        yield
    finally:
        throttle(cluster, None, topic, sides)


def test_new_broker_takes_replicas_and_topics_while_producers_lose_nothing(
    cluster: Cluster, folder: Path, admin: Reassigner, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(cluster, "moved", [[1, 2, 3]])
    create_topic(cluster, "doomed", [[1, 2, 3], [2, 3, 1]])
    writer = Writer(cluster, "moved")
    writer.wait_for_more(200)
    add_broker(cluster, folder, 4, WITH_SHORT_WINDOWS)
    writer.wait_for_more(200)
    admin.begin("moved", {0: [4, 2, 3]})
    writer.wait_for_more(200)
    cluster.wait_state("moved", 0, leader=4, isr={2, 3, 4})
    wait_until(lambda: not log_folder(cluster, 1, "moved").exists(), "the old replica's log is deleted")
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.delete_topics(["doomed"])["doomed"].result(30)
    writer.wait_for_more(200)
    client.create_topics([NewTopic("on-all", 4, 4)])["on-all"].result(20)
    for partition in range(4):
        cluster.wait_state("on-all", partition, isr={1, 2, 3, 4})
    admin.begin("moved", {0: [1, 4, 2]})
    cluster.wait_state("moved", 0, leader=4, isr={1, 2, 4})
    writer.wait_for_more(200)
    writer.stop()
    assert read(cluster, writer.sent, topic="moved") == sorted(writer.acknowledged)
    gap_s = longest_gap_s(cluster, "moved-0")
    with capsys.disabled():
        print(f"\nnew broker and two moves: {len(writer.acknowledged)} acknowledged, at most {gap_s:.2f} s between two")
    assert gap_s < GAP_MAX_S, "no downtime"
    wait_until(lambda: assignment(cluster, "moved")["removing_replicas"] == {}, "the end of the deletions")
    assert not log_folder(cluster, 3, "moved").exists()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttle_of_one_side_keeps_its_rate_beside_a_producer_that_notices_nothing(
    four: Cluster, admin: Reassigner, side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, topic, rate = four, f"{side}-side", 6 * RATE
    create_topic(cluster, topic, [[1, 2, 3]])
    fill(cluster, topic, RECORDS, SIZE)
    with throttled(cluster, rate, topic, [side]):
        writer = Writer(cluster, topic)
        try:
            writer.wait_for_more(50)
            began, began_s = time.monotonic(), time.time()
            admin.begin(topic, {0: [4, 2, 3]})
            wait_until(lambda: log_bytes(cluster, 4, topic) >= RECORDS * SIZE, "all that was there on the new replica")
            took_s = time.monotonic() - began
            moved = log_bytes(cluster, 4, topic)
            cluster.wait_state(topic, 0, leader=4, isr={2, 3, 4})
            writer.wait_for_more(50)
        finally:
            writer.stop()
    gap_s = longest_gap_s(cluster, f"{topic}-0", began_s)
    with capsys.disabled():
        print(f"\nthrottle of {rate} bytes/s as {side}: {moved / took_s:.0f} bytes/s, {gap_s:.2f} s between two acks")
    assert moved / took_s < 1.3 * rate, f"{moved} bytes in {took_s:.1f} s at {rate} bytes/s"
    assert gap_s < GAP_MAX_S, "no downtime"


def test_throttled_reassignment_keeps_its_rate_outlives_controllers_and_ends_when_let(
    four: Cluster, admin: Reassigner, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = four
    create_topic(cluster, "slow", [[1, 2, 3]])
    fill(cluster, "slow", RECORDS, SIZE)
    throttle(cluster, RATE, "slow")
    began = time.monotonic()
    admin.begin("slow", {0: [4, 2, 3]})
    assert admin.under_way() == {("slow", 0): ([4, 2, 3, 1], [4], [1])}
    assert assignment(cluster, "slow")["adding_replicas"] == {"0": [4]}
    controller = cluster.controller()
    assert controller is not None
    wait_until(lambda: log_bytes(cluster, 4, "slow") > 2 * RATE, "some bytes on the new replica")
    cluster.brokers[controller].kill()
    wait_until(lambda: cluster.controller() not in (None, controller), "another controller")
    assert ("slow", 0) in admin.under_way()
    wait_until(lambda: log_bytes(cluster, 4, "slow") > 5 * RATE, "more bytes on the new replica")
    moved, took_s = log_bytes(cluster, 4, "slow"), time.monotonic() - began
    with capsys.disabled():
        print(f"\nthrottle of {RATE} bytes/s: {moved} bytes in {took_s:.1f} s, {moved / took_s:.0f} bytes/s")
    # A fetch goes out while the rate is not exceeded yet, and brings up to replica.fetch.max.bytes.
    assert moved / took_s < 1.5 * RATE, f"{moved} bytes in {took_s:.1f} s at {RATE} bytes/s"
    assert moved < RECORDS * SIZE, "it was done before anything was seen"
    cluster.brokers[controller].start()
    wait_until(lambda: cluster.live() == set(cluster.brokers), "the killed broker is back")
    cluster.wait_known()  # librdkafka waits in vain for a broker that its first metadata did not name
    throttle_off_s = time.monotonic()
    throttle(cluster, None, "slow")
    admin.wait_done()
    assert time.monotonic() - throttle_off_s < 20
    cluster.wait_state("slow", 0, isr={2, 3, 4})
    wait_until(lambda: not log_folder(cluster, 1, "slow").exists(), "the old replica's log is deleted", 60)


def test_throttle_holds_no_in_sync_replica_back(four: Cluster) -> None:
    create_topic(four, "in-sync", [[1, 2, 3]])
    path = "/brokers/topics/in-sync/partitions/0/state"
    with throttled(four, 1000, "in-sync"):
        version, began = four.zk.get(path)[1].version, time.monotonic()
        fill(four, "in-sync", RECORDS, SIZE)
        assert time.monotonic() - began < 30, f"at this rate it would take {RECORDS * SIZE // 1000} s"
        assert four.zk.get(path)[1].version == version, "nobody left the ISR"


def test_cancelled_reassignment_leaves_the_old_replicas_and_no_log_of_the_new(four: Cluster, admin: Reassigner) -> None:
    cluster = four
    create_topic(cluster, "kept", [[1, 2, 3]])
    fill(cluster, "kept", RECORDS, SIZE)
    throttle(cluster, 1000, "kept")
    admin.begin("kept", {0: [4, 2, 3]})
    wait_until(lambda: log_folder(cluster, 4, "kept").exists(), "the new replica's log")
    admin.begin("kept", {0: None})
    assert admin.under_way() == {}
    wait_until(lambda: not log_folder(cluster, 4, "kept").exists(), "the new replica's log is deleted")
    cluster.wait_state("kept", 0, leader=1, isr={1, 2, 3})
    wait_until(lambda: assignment(cluster, "kept")["removing_replicas"] == {}, "the end of the deletion")
    assert sorted(assignment(cluster, "kept")["partitions"]["0"]) == [1, 2, 3]
    throttle(cluster, None, "kept")


def test_znodes_of_older_tools_reassign_and_elect(four: Cluster, admin: Reassigner) -> None:
    cluster = four
    create_topic(cluster, "old", [[1, 2, 3], [2, 3, 1]])
    targets = [
        {"topic": "old", "partition": 0, "replicas": [3, 4, 2]},
        {"topic": "no", "partition": 0, "replicas": [1]},
    ]
    cluster.zk.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": targets}).encode())
    cluster.wait_state("old", 0, leader=3, isr={2, 3, 4})
    wait_until(lambda: not cluster.zk.exists("/admin/reassign_partitions"), "the request is done")
    admin.begin("old", {1: [3, 1]})
    cluster.wait_state("old", 1, leader=3, isr={1, 3})
    admin.begin("old", {1: [2, 3, 1]})
    cluster.wait_state("old", 1, leader=3, isr={1, 2, 3})
    admin.wait_done()
    wanted = {"version": 1, "partitions": [{"topic": "old", "partition": 1}]}
    cluster.zk.create("/admin/preferred_replica_election", json.dumps(wanted).encode())
    cluster.wait_state("old", 1, leader=2, isr={1, 2, 3})
    wait_until(lambda: not cluster.zk.exists("/admin/preferred_replica_election"), "the request is done")
    elections = [event for broker in cluster.brokers.values() for event in broker.events() if event["e"] == "election"]
    assert [event["leader"] for event in elections if event["p"] == "old-1" and event["reason"] == "preferred"] == [2]
