"""A log dir that fails under a replica: nothing that was acknowledged is lost, and nothing is acknowledged wrongly."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.broker.writing import TOPIC, Writer, create, read
from tests.support.brokers import Broker, Cluster, running_cluster, wait_until

pytestmark = pytest.mark.guarantee("R7", "L6", "L8")

SETTINGS = {"zookeeper.session.timeout.ms": "1500", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2"}
FILLING = b"x" * 20_000


@contextmanager
def _cluster(folder: Path, overrides: Mapping[int, Mapping[str, str]] | None = None) -> Iterator[Cluster]:
    with running_cluster(folder, settings=SETTINGS, overrides=overrides) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


@pytest.fixture(scope="module")
def two_dirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers with two log dirs each, `a` and `b`."""
    folder = tmp_path_factory.mktemp("two-dirs")
    dirs = {i: {"log.dirs": f"{folder}/broker-{i}/a,{folder}/broker-{i}/b"} for i in (1, 2, 3)}
    with _cluster(folder, dirs) as running:
        yield running


def _fill(cluster: Cluster, topic: str = TOPIC) -> int:
    """Make the segment by far the largest file of its broker; returns how many records that took."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(100):
        producer.produce(topic, FILLING, partition=0)
    assert producer.flush(60) == 0
    return 100


def _segment(broker: Broker, topic: str = TOPIC) -> Path:
    """In whichever dir it is."""
    (found,) = broker.folder.glob(f"*/{topic}-0/{0:020d}.log")
    return found


def _forbid_growth(broker: Broker, file: Path) -> None:
    """From now on every write behind this file's end fails (EFBIG), as one on a full or broken disk does."""
    assert broker.process is not None
    size = file.stat().st_size
    resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (size, size))


def test_leader_whose_only_log_dir_fails_ends_and_another_leads(tmp_path: Path) -> None:
    with _cluster(tmp_path) as cluster:
        leader = next(i for i in cluster.brokers if i != cluster.controller())
        create(cluster, leader)
        filled = _fill(cluster)
        broker = cluster.brokers[leader]
        writer = Writer(cluster)
        try:
            writer.wait_for_more(20)
            _forbid_growth(broker, _segment(broker))
            assert broker.process is not None
            assert broker.process.wait(30) == 1
            broker.process = None
            assert "stopping: every log dir is offline" in broker.output
            writer.wait_for_more(50)
        finally:
            writer.stop()
        assert read(cluster, filled, skip=FILLING) == list(range(writer.sent))


def test_leader_with_another_sound_log_dir_hands_over_what_the_failed_one_held(two_dirs: Cluster) -> None:
    cluster, topic = two_dirs, "led"
    leader = next(i for i in cluster.brokers if i != cluster.controller())
    create(cluster, leader, topic)
    filled = _fill(cluster, topic)
    broker = cluster.brokers[leader]
    writer = Writer(cluster, topic)
    try:
        writer.wait_for_more(20)
        _forbid_growth(broker, _segment(broker, topic))
        cluster.wait_state(topic, 0, isr={1, 2, 3} - {leader})
        writer.wait_for_more(50)
        assert broker.process is not None
        assert broker.process.poll() is None, "the other dir is sound"
        assert leader in cluster.live()
    finally:
        writer.stop()
    # With a sound disk it comes back, and its unwritten tail with nothing in it that others lack.
    broker.kill()
    broker.start()
    cluster.wait_state(topic, 0, isr={1, 2, 3})
    assert read(cluster, filled + writer.sent, skip=FILLING, topic=topic) == list(range(writer.sent))


def test_follower_whose_log_dir_fails_leaves_the_isr_and_catches_up_after_a_restart(two_dirs: Cluster) -> None:
    cluster, topic = two_dirs, "followed"
    follower = next(i for i in cluster.brokers if i != cluster.controller())
    leader = next(i for i in cluster.brokers if i != follower)
    create(cluster, leader, topic)
    filled = _fill(cluster, topic)
    broker, others = cluster.brokers[follower], {1, 2, 3} - {follower}
    before = cluster.state(topic, 0)
    writer = Writer(cluster, topic)
    try:
        writer.wait_for_more(20)
        _forbid_growth(broker, _segment(broker, topic))
        cluster.wait_state(topic, 0, leader=leader, isr=others)
        after = cluster.state(topic, 0)
        writer.wait_for_more(50)
        assert f"{topic}-0: replica goes offline" in broker.output
        assert broker.process is not None
        assert broker.process.poll() is None, "the other dir is sound"
        behind = _segment(broker, topic).stat().st_size
        assert _segment(cluster.brokers[leader], topic).stat().st_size > behind, "acks=all went on without it"
        broker.kill()
        broker.start()
        cluster.wait_state(topic, 0, leader=leader, isr={1, 2, 3})
        writer.wait_for_more(20)
    finally:
        writer.stop()
    assert before is not None
    assert after is not None
    # A leader that takes out who lags leaves the epoch as it is.
    assert after["leader_epoch"] != before["leader_epoch"], "the controller took it out, its lag was not waited for"
    assert read(cluster, filled + writer.sent, skip=FILLING, topic=topic) == list(range(writer.sent))
    whole = _segment(cluster.brokers[leader], topic).read_bytes()
    for i in cluster.brokers:
        wait_until(lambda i=i: _segment(cluster.brokers[i], topic).read_bytes() == whole, f"equal bytes on {i}")  # type: ignore[misc]


def test_broker_starts_without_its_first_log_dir(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("no folder")
    with _cluster(tmp_path, {2: {"log.dirs": f"{broken},{tmp_path}/broker-2/b"}}) as cluster:
        create(cluster, 2, "sound")
        writer = Writer(cluster, "sound")
        try:
            writer.wait_for_more(20)
        finally:
            writer.stop()
        assert f"log dir {broken} goes offline" in cluster.brokers[2].output


def test_leader_whose_old_segment_is_damaged_hands_over_and_is_restored(tmp_path: Path) -> None:
    settings = {i: {"log.segment.bytes": "100000", "controlled.shutdown.retry.backoff.ms": "500"} for i in (1, 2, 3)}
    with _cluster(tmp_path, settings) as cluster:
        create(cluster, 1)
        filled = _fill(cluster)
        first = cluster.brokers[1]
        assert first.stop() == 0
        with _segment(first).open("r+b") as file:
            file.seek(5000)
            file.write(b"y")
        first.start()
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        # Whoever leads hands over to the first in the assignment, which has the damage and does not know it.
        second = cluster.brokers[_leader(cluster)]
        assert second.stop() == 0
        cluster.wait_state(TOPIC, 0, leader=1)
        second.start()
        cluster.wait_state(TOPIC, 0, leader=1, isr={1, 2, 3})
        assert read(cluster, filled, skip=FILLING) == []
        assert "replica goes offline" in first.output
        assert _leader(cluster) != 1
        cluster.wait_state(TOPIC, 0, isr={1, 2, 3})
        assert _segment(first).read_bytes() == _segment(second).read_bytes()


def _leader(cluster: Cluster) -> int:
    state = cluster.state(TOPIC, 0)
    assert state is not None
    assert isinstance(state["leader"], int)
    return state["leader"]
