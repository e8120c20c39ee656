"""A log dir that is full, or whose disk fails, under a leader: its replicas hand over, nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support.brokers import running_cluster, wait_until
from tests.support.disks import PowerlessDisk, mount_small, unmount

pytestmark = [pytest.mark.sandbox, pytest.mark.guarantee("L8")]

SETTINGS = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
MEMORY = Path("/dev/shm")
SMALL = 6 << 20
VALUE_BYTES = 20_000
POLICIES = ["interval", "group-commit"]
SEGMENT = f"data/{TOPIC}-0/{0:020d}.log"


@pytest.mark.parametrize("policy", POLICIES)
def test_leader_whose_log_dir_is_full_hands_over_and_loses_nothing(tmp_path: Path, policy: str) -> None:
    small = MEMORY / "small"
    mount_small(small, SMALL)
    dirs = {1: {"log.dirs": f"{small}/data,{tmp_path}/sound"}}
    try:
        with running_cluster(tmp_path, settings={**SETTINGS, "flush.policy": policy}, overrides=dirs) as cluster:
            wait_until(lambda: cluster.controller() is not None, "a controller")
            create(cluster, 1)
            broker = cluster.brokers[1]
            # The dir with fewer partitions gets the next one: of two equal ones, the first named.
            assert (small / "data" / f"{TOPIC}-0").exists()
            # Batches of 100 kB, several in flight: some are appended and not committed when the disk is full.
            writer = Writer(cluster, value_bytes=VALUE_BYTES)
            try:
                writer.wait_for_more(SMALL // VALUE_BYTES // 2)
                cluster.wait_state(TOPIC, 0, isr={2, 3})
                wait_until(lambda: "No space left on device" in broker.output, "the full disk in the broker's log")
                writer.wait_for_more(50)
                assert broker.process is not None
                assert broker.process.poll() is None, "the other dir is sound"
            finally:
                writer.stop()
            assert read(cluster, writer.sent) == list(range(writer.sent))
    finally:
        unmount(small)


@pytest.mark.parametrize(
    ("victim", "policy"), [(1, "group-commit"), *(pytest.param(3, p, marks=pytest.mark.nightly) for p in POLICIES)]
)
def test_broker_whose_disk_fails_ends_and_the_others_go_on(tmp_path: Path, victim: int, policy: str) -> None:
    """Broker 1 leads, 3 follows."""
    disk = PowerlessDisk(MEMORY / "images", MEMORY / "disk")
    dirs = {victim: {"log.dirs": str(disk.path / "data")}}
    try:
        with running_cluster(tmp_path, settings={**SETTINGS, "flush.policy": policy}, overrides=dirs) as cluster:
            wait_until(lambda: cluster.controller() is not None, "a controller")
            create(cluster, 1)
            broker = cluster.brokers[victim]
            writer = Writer(cluster)
            try:
                writer.wait_for_more(50)
                disk.break_down()
                assert broker.process is not None
                assert broker.process.wait(30) == 1
                broker.process = None
                assert "stopping: every log dir is offline" in broker.output
                cluster.wait_state(TOPIC, 0, isr={1, 2, 3} - {victim})
                writer.wait_for_more(50)
                disk.restore_power()
                broker.start()
                cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
                writer.wait_for_more(20)
            finally:
                writer.stop()
            assert read(cluster, writer.sent) == list(range(writer.sent))
            segments = [next(b.folder.glob(SEGMENT), disk.path / SEGMENT) for b in cluster.brokers.values()]
            wait_until(lambda: len({segment.read_bytes() for segment in segments}) == 1, "equal bytes on all")
    finally:
        disk.close()
