"""Sequence g (KIP-966): the last ISR member loses its unsynced tail; whoever still has the records must lead.

A power failure is what it leaves: files cut to the recovery point, checkpoints that were never synced gone. The other
two leave by a pause, or by kill -9, where Apache Kafka loses every record even with eligible leader replicas. The same
where its disk comes back from a backup of an earlier, orderly stop.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.broker.writing import TOPIC, create, read
from tests.support.brokers import Broker, Cluster, running_cluster, wait_until
from tests.support.watermarks import watermarks

pytestmark = pytest.mark.guarantee("R12")

SETTINGS = {
    "zookeeper.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "controlled.shutdown.enable": "false",
}
PER_STAGE = 5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        create(running, 1)
        yield running


def write(cluster: Cluster, first: int) -> list[bool]:
    """Stage's records, one request each, acks=all, no retries; which of them were acknowledged."""
    outcomes: list[bool] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "linger.ms": 0})
    for value in range(first, first + PER_STAGE):
        producer.produce(TOPIC, b"%d" % value, partition=0, on_delivery=lambda error, _: outcomes.append(error is None))
        assert producer.flush(20) == 0
    return outcomes


def cut_to_recovery_point(broker: Broker) -> None:
    """What a power failure leaves of a log that was never flushed."""
    folder = broker.folder / "data"
    partition = folder / f"{TOPIC}-0"
    for segment in partition.glob("*.log"):
        os.truncate(segment, 0)
    for path in [*partition.glob("*index"), partition / "leader-epoch-checkpoint"]:
        path.unlink(missing_ok=True)
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (folder / name).unlink(missing_ok=True)


def lose_the_host(broker: Broker) -> None:
    """The same, by another kernel: what remembers the end of the log says nothing any more."""
    cut_to_recovery_point(broker)
    (broker.folder / "data" / "highwater-run-mark").unlink()


def test_older_copy_of_the_last_isr_members_disk_does_not_win_over_who_has_everything(cluster: Cluster) -> None:
    assert write(cluster, 0) == [True] * PER_STAGE
    one = cluster.brokers[1]
    one.stop()
    cluster.wait_state(TOPIC, 0, isr={2, 3})
    shutil.copytree(one.folder / "data", one.folder / "backup")
    one.start()
    cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    assert write(cluster, PER_STAGE) == [True] * PER_STAGE
    for broker_id, isr in ((3, {1, 2}), (2, {1}), (1, {1})):
        cluster.brokers[broker_id].stop()
        cluster.wait_state(TOPIC, 0, isr=isr)
    shutil.rmtree(one.folder / "data")
    shutil.copytree(one.folder / "backup", one.folder / "data")
    for broker_id in (1, 3, 2):
        come_back(cluster, broker_id, "stop")
    cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    assert set(range(2 * PER_STAGE)) <= set(read(cluster, 2 * PER_STAGE))
    elected = [event for broker in cluster.brokers.values() for event in broker.events() if event["e"] == "election"]
    assert [event["leader"] for event in elected if event["reason"] == "eligible"] == [2]
    assert "an older copy?" in one.output


def leave(cluster: Cluster, broker_id: int, how: str, isr: set[int]) -> None:
    broker = cluster.brokers[broker_id]
    if how == "kill":
        broker.kill()
    else:
        broker.pause()
    cluster.wait_state(TOPIC, 0, leader=1, isr=isr)


def come_back(cluster: Cluster, broker_id: int, how: str) -> None:
    broker = cluster.brokers[broker_id]
    if how == "pause":
        broker.resume()
    else:
        broker.start()
    wait_until(lambda: broker_id in cluster.live(), lambda: broker.output)


@pytest.mark.parametrize("power_failure", [cut_to_recovery_point, lose_the_host])
@pytest.mark.parametrize("returning", [(1, 3, 2), (2, 1, 3), (3, 2, 1)])
@pytest.mark.parametrize("how", ["kill", pytest.param("pause", marks=pytest.mark.nightly)])
def test_last_isr_member_that_lost_its_tail_does_not_win_over_one_that_has_it(
    cluster: Cluster, how: str, returning: tuple[int, ...], power_failure: Callable[[Broker], None]
) -> None:
    assert write(cluster, 0) == [True] * PER_STAGE
    leave(cluster, 3, how, {1, 2})
    assert write(cluster, PER_STAGE) == [True] * PER_STAGE
    leave(cluster, 2, how, {1})
    assert write(cluster, 2 * PER_STAGE) == [False] * PER_STAGE, "below min ISR"
    cluster.brokers[1].kill()
    power_failure(cluster.brokers[1])
    for broker_id in returning:
        come_back(cluster, broker_id, "kill" if broker_id == 1 else how)
        if broker_id != 2 and 2 not in returning[: returning.index(broker_id)]:
            state = cluster.state(TOPIC, 0)
            assert state is not None
            assert state["isr"] == [1], "the ISR never becomes empty, and who is eligible is still away"
    cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    assert set(range(2 * PER_STAGE)) <= set(read(cluster, 2 * PER_STAGE))
    elected = [event for broker in cluster.brokers.values() for event in broker.events() if event["e"] == "election"]
    assert [event["leader"] for event in elected if event["reason"] == "eligible"] == [2]
    assert not [event for event in elected if event["reason"] in ("unclean", "longest-log")]


def test_emptied_logs_do_not_lose_to_a_stale_one_that_would_give_their_offsets_out_again(cluster: Cluster) -> None:
    """DeleteRecords up to the watermark, then both that are in sync lose their host; the third was long away."""
    assert write(cluster, 0) == [True] * PER_STAGE
    cluster.brokers[3].stop()
    cluster.wait_state(TOPIC, 0, isr={1, 2})
    assert write(cluster, PER_STAGE) == [True] * PER_STAGE
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    everything = TopicPartition(TOPIC, 0, OFFSET_END)
    assert next(iter(admin.delete_records([everything]).values())).result(20).low_watermark == 2 * PER_STAGE
    starts = [cluster.brokers[broker_id].folder / "data" / "log-start-offset-checkpoint" for broker_id in (1, 2)]
    line = f"{TOPIC} 0 {2 * PER_STAGE}\n"
    wait_until(lambda: all(path.exists() and line in path.read_text() for path in starts), "the start on both disks")
    for broker_id in (1, 2):
        cluster.brokers[broker_id].kill()
    for broker_id in (1, 2):
        (cluster.brokers[broker_id].folder / "data" / "highwater-run-mark").unlink()
    for broker_id in (3, 1, 2):
        come_back(cluster, broker_id, "kill")
    cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
    elected = [event for broker in cluster.brokers.values() for event in broker.events() if event["e"] == "election"]
    assert [event["leader"] in (1, 2) for event in elected if event["reason"] == "longest-log"] == [True]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    try:
        low, high = watermarks(consumer, TOPIC)
    finally:
        consumer.close()
    assert (low, high) == (2 * PER_STAGE, 2 * PER_STAGE)


def rewrite_leader_epoch(cluster: Cluster, leader_epoch: int) -> None:
    """While no broker runs."""
    state = cluster.state(TOPIC, 0)
    assert state is not None
    state["leader_epoch"] = leader_epoch
    cluster.zk.set(f"/brokers/topics/{TOPIC}/partitions/0/state", json.dumps(state).encode())


def test_logs_that_are_ahead_of_a_zookeeper_from_a_backup_are_led_under_a_newer_epoch(cluster: Cluster) -> None:
    """Nobody could follow a leader under an epoch that is older than the logs'."""
    brokers = cluster.brokers
    for leader_epoch in (1000, 5):
        for broker_id in (3, 2, 1):
            brokers[broker_id].stop()
        wait_until(lambda: not cluster.live(), "their sessions' ends")
        rewrite_leader_epoch(cluster, leader_epoch)
        for broker_id in brokers:
            brokers[broker_id].start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        assert write(cluster, leader_epoch) == [True] * PER_STAGE
    assert 1000 < int(str((cluster.state(TOPIC, 0) or {})["leader_epoch"])) < 1020
    assert len(set(read(cluster, 2 * PER_STAGE))) == 2 * PER_STAGE
