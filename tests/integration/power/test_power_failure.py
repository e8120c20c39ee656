"""Brokers whose data lies on ext4 images lose power: kill -9 of the process, and the page cache is gone.

What is acknowledged under group commit survives the power failure of all nodes at once; under the default policy, of
one node. That the apparatus loses what was not synced is a test of its own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.log.files.checkpoints import RECOVERY_POINTS, read_offsets
from broker.model.ids import TopicPartition
from tests.integration.broker.writing import Writer, create, read
from tests.support.brokers import Cluster, running_cluster, wait_until
from tests.support.disks import PowerlessDisk

pytestmark = [pytest.mark.sandbox, pytest.mark.guarantee("L7")]

TIMING = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
GROUP_COMMIT = {**TIMING, "flush.policy": "group-commit"}
MEMORY = Path("/dev/shm")
ROUNDS = 3


class PoweredCluster:
    """A cluster and the disk of each of its brokers."""

    def __init__(self, cluster: Cluster, disks: Mapping[int, PowerlessDisk]) -> None:
        self.cluster = cluster
        self.disks = disks

    def fail(self, *nodes: int) -> None:
        """The power of these nodes fails at one moment, and comes back."""
        brokers = [self.cluster.brokers[i] for i in nodes]
        for broker in brokers:
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
        for i in nodes:
            self.disks[i].break_down()
        for broker in brokers:
            broker.kill()
        for i in nodes:
            self.disks[i].restore_power()

    def start(self, *nodes: int) -> None:
        for i in nodes:
            self.cluster.brokers[i].start()
        self.cluster.wait_state("t", 0, isr=set(self.cluster.brokers))


@contextmanager
def _powered(folder: Path, settings: Mapping[str, str], brokers: int = 3) -> Iterator[PoweredCluster]:
    disks = {i: PowerlessDisk(MEMORY / "images", MEMORY / f"disk-{i}") for i in range(1, brokers + 1)}
    try:
        dirs = {i: {"log.dirs": str(disk.path / "data")} for i, disk in disks.items()}
        with running_cluster(folder, brokers, settings=settings, overrides=dirs) as cluster:
            wait_until(lambda: cluster.controller() is not None, "a controller")
            create(cluster, 1)
            yield PoweredCluster(cluster, disks)
    finally:
        for disk in disks.values():
            disk.close()


def _leader_epoch(cluster: Cluster) -> int:
    state = cluster.state("t", 0)
    assert state is not None
    return int(str(state["leader_epoch"]))


def test_disk_without_power_keeps_what_was_synced_and_nothing_else(tmp_path: Path) -> None:
    disk = PowerlessDisk(MEMORY / "images", MEMORY / "disk")
    program = (
        "import os, sys, signal\n"
        "fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "os.write(fd, b'synced'); os.fdatasync(fd); folder = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)\n"
        "os.fsync(folder); os.write(fd, b'-not synced')\n"
        "open(sys.argv[1] + '.never', 'w').write('x')\n"
        "print('written', flush=True); signal.pause()\n"
    )
    file = disk.path / "file"
    with subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        assert file.read_bytes() == b"synced-not synced"
        disk.break_down()
        process.kill()
    disk.restore_power()
    assert file.read_bytes() == b"synced"
    assert not file.with_suffix(".never").exists()
    disk.close()


def test_group_commit_loses_no_acknowledged_record_when_all_nodes_lose_power_at_once(tmp_path: Path) -> None:
    with _powered(tmp_path, GROUP_COMMIT) as powered:
        writer = Writer(powered.cluster)
        try:
            for _ in range(ROUNDS):
                writer.wait_for_more(100)
                powered.fail(1, 2, 3)
                powered.start(1, 2, 3)
            writer.wait_for_more(100)
        finally:
            writer.stop()
        assert read(powered.cluster, 1) == list(range(writer.sent))


@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_default_policy_loses_no_acknowledged_record_when_one_node_loses_power(tmp_path: Path, victim: str) -> None:
    with _powered(tmp_path, TIMING) as powered:
        cluster = powered.cluster
        writer = Writer(cluster)
        try:
            for _ in range(ROUNDS):
                writer.wait_for_more(100)
                state = cluster.state("t", 0)
                assert state is not None
                leader = int(str(state["leader"]))
                node = leader if victim == "leader" else next(i for i in cluster.brokers if i != leader)
                powered.fail(node)
                writer.wait_for_more(50)
                powered.start(node)
            writer.wait_for_more(100)
        finally:
            writer.stop()
        assert read(cluster, 1) == list(range(writer.sent))


def test_flush_interval_keeps_what_is_older_than_it_when_the_only_node_loses_power(tmp_path: Path) -> None:
    settings = {
        **TIMING,
        "min.insync.replicas": "1",
        "log.flush.interval.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": "100",
    }
    with _powered(tmp_path, settings, brokers=1) as powered:
        writer = Writer(powered.cluster)
        writer.wait_for_more(10)
        writer.stop()
        points = powered.disks[1].path / "data" / RECOVERY_POINTS
        wait_until(lambda: read_offsets(str(points)).get(TopicPartition("t", 0)) == writer.sent, "a flush by the clock")
        powered.fail(1)
        powered.start(1)
        powered.cluster.wait_told("t")
        assert read(powered.cluster, writer.sent) == list(range(writer.sent))


def test_default_policy_is_seen_to_lose_when_all_nodes_lose_power_at_once(tmp_path: Path) -> None:
    with _powered(tmp_path, TIMING) as powered:
        writer = Writer(powered.cluster)
        writer.wait_for_more(100)
        acknowledged = len(writer.acknowledged)
        writer.abandon()
        before = _leader_epoch(powered.cluster)
        powered.fail(1, 2, 3)
        powered.start(1, 2, 3)
        wait_until(lambda: _leader_epoch(powered.cluster) > before, "an election after the power failure", 60)
        powered.cluster.wait_state("t", 0, isr={1, 2, 3})
        assert len(read(powered.cluster, 0)) < acknowledged
