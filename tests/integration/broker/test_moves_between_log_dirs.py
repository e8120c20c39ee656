"""Replicas that move between their brokers' log dirs under load: nothing is lost, doubled or out of order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.tools import commands
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from broker.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.integration.broker.writing import Writer, create, read
from tests.support.brokers import Broker, Cluster, running_cluster, wait_until
from tests.support.raw_client import RawClient, framed

pytestmark = pytest.mark.guarantee("L3", "L6", "L8")

SETTINGS = {
    "zookeeper.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "500",
}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers with two log dirs each, `a` and `b`."""
    folder = tmp_path_factory.mktemp("moves")
    dirs = {i: {"log.dirs": f"{folder}/broker-{i}/a,{folder}/broker-{i}/b"} for i in (1, 2, 3)}
    with running_cluster(folder, settings=SETTINGS, overrides=dirs) as running:
        wait_until(lambda: running.controller() is not None, "a controller")
        yield running


def asked(broker: Broker, version: int, message: AlterReplicaLogDirsRequest | DescribeLogDirsRequest) -> memoryview:
    client = RawClient(int(broker.address.rpartition(":")[2]))
    try:
        client.send(framed(message.API, version, message.encode(version)))
        return memoryview(client.receive())[5:]
    finally:
        client.close()


def move(broker: Broker, topic: str, path: Path) -> int:
    """Ask for it; the broker's error."""
    wanted = [AlterReplicaLogDir(str(path), [AlterReplicaLogDirTopic(topic, [0])])]
    response = AlterReplicaLogDirsResponse.decode(2, asked(broker, 2, AlterReplicaLogDirsRequest(wanted)))
    return response.results[0].partitions[0].error_code


def told(broker: Broker, topic: str) -> dict[str, DescribeLogDirsPartition]:
    """What DescribeLogDirs says of the partition, by the last part of the dir's path."""
    message = DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])])
    response = DescribeLogDirsResponse.decode(4, asked(broker, 4, message))
    return {
        Path(one.log_dir).name: partition
        for one in response.results
        for described in one.topics
        for partition in described.partitions
    }


def home(broker: Broker, topic: str) -> Path:
    """The dir that has the replica."""
    (name,) = [name for name, one in told(broker, topic).items() if not one.is_future_key]
    return broker.folder / name


def other(path: Path) -> Path:
    return path.parent / ("b" if path.name == "a" else "a")


def settled(broker: Broker, topic: str, path: Path) -> None:
    """The replica is in this dir, and nothing of it in the other."""

    def there() -> bool:
        return (
            set(told(broker, topic)) == {path.name}
            and not list(broker.folder.glob(f"*/{topic}-0.*"))
            and not list(other(path).glob(f"{topic}-0"))
        )

    wait_until(there, lambda: f"{told(broker, topic)} {list(broker.folder.glob(f'*/{topic}-0*'))} {broker.output}")


def throttle(cluster: Cluster, broker: Broker, rate: int | None) -> None:
    """Returns once the broker has taken it up."""
    change = ["--add-config", f"{RATE}={rate}"] if rate is not None else ["--delete-config", RATE]
    words = ["--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "brokers"]
    number = broker.folder.name.removeprefix("broker-")

    def taken() -> list[str]:
        return [line for line in broker.output.splitlines() if "of this one:" in line]

    before = len(taken())
    assert commands.run("configs", [*words, "--entity-name", number, *change]) == 0
    wait_until(lambda: len(taken()) > before, "the throttle is taken up")


class Reader:
    """Consumes all of the partition in the background."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.values: list[int] = []
        self._until = 1 << 62
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        deadline = time.monotonic() + 120
        while len(self.values) < self._until and time.monotonic() < deadline:
            for message in self._consumer.consume(500, timeout=0.1):
                assert message.error() is None, message.error()
                self.values.append(int(message.value() or b""))
        self._consumer.close()

    def stop(self, count: int) -> None:
        """Once it has as many."""
        self._until = count
        self._thread.join()


def filled(cluster: Cluster, topic: str, leader: int) -> int:
    """Create the topic, with 20 MB in it; how many records that took."""
    create(cluster, leader, topic)
    writer = Writer(cluster, topic, value_bytes=100_000)
    writer.wait_for_more(200)
    writer.stop()
    return writer.sent


def values(cluster: Cluster, topic: str, first: int, second: int) -> None:
    """All that two writers sent is there, once and in order."""
    assert read(cluster, first + second, topic=topic) == [*range(first), *range(second)]


@pytest.mark.parametrize(
    ("role", "policy"), [("leader", "interval"), ("follower", "interval"), ("leader", "group-commit")]
)
def test_replica_moves_under_a_producer_and_back(cluster: Cluster, role: str, policy: str) -> None:
    topic, leader = f"moved-{role}-{policy}", 1 if role == "leader" else 2
    first = filled(cluster, topic, leader)
    broker = cluster.brokers[1]
    before = home(broker, topic)
    words = ["--bootstrap-server", cluster.bootstrap, "--alter", "--topic", topic]
    assert commands.run("configs", [*words, "--add-config", f"flush.policy={policy}"]) == 0
    writer, reader = Writer(cluster, topic, value_bytes=1000), Reader(cluster, topic)
    try:
        for path in (other(before), before, other(before)):
            writer.wait_for_more(100)
            assert move(broker, topic, path) == 0
            settled(broker, topic, path)
            writer.wait_for_more(100)
    finally:
        writer.stop()
        reader.stop(first + writer.sent)
    assert reader.values == [*range(first), *range(writer.sent)]
    cluster.wait_state(topic, 0, leader=leader, isr={1, 2, 3})
    values(cluster, topic, first, writer.sent)
    broker.kill()
    cluster.wait_state(topic, 0, isr={2, 3})
    broker.start()
    cluster.wait_state(topic, 0, isr={1, 2, 3})
    assert home(broker, topic) == other(before)
    values(cluster, topic, first, writer.sent)


def test_throttled_move_is_told_of_redirected_and_cancelled(cluster: Cluster) -> None:
    topic, broker = "cancelled", cluster.brokers[1]
    first = filled(cluster, topic, 1)
    before = home(broker, topic)
    throttle(cluster, broker, 1_000_000)
    try:
        begun = time.monotonic()
        assert move(broker, topic, other(before)) == 0
        wait_until(lambda: told(broker, topic)[other(before).name].partition_size > 0, "a part of it is copied")
        copy = told(broker, topic)[other(before).name]
        assert copy.is_future_key
        assert copy.offset_lag > 0
        assert copy.partition_size < 20_000_000
        wait_until(lambda: told(broker, topic)[other(before).name].partition_size > 3_000_000, "more of it is copied")
        size = told(broker, topic)[other(before).name].partition_size
        assert size < (time.monotonic() - begun + 2) * 1_000_000
        assert move(broker, topic, other(before)) == 0, "it goes on"
        assert move(broker, topic, before) == 0, "it is cancelled"
        settled(broker, topic, before)
    finally:
        throttle(cluster, broker, None)
    assert read(cluster, first, topic=topic) == list(range(first))
    assert move(broker, topic, Path("/nowhere")) == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(broker, "no-such", before) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_broker_that_is_killed_goes_on_with_the_move(cluster: Cluster) -> None:
    topic, broker = "killed", cluster.brokers[1]
    first = filled(cluster, topic, 1)
    before = home(broker, topic)
    throttle(cluster, broker, 2_000_000)
    writer = Writer(cluster, topic, value_bytes=1000)
    try:
        assert move(broker, topic, other(before)) == 0
        wait_until(lambda: told(broker, topic)[other(before).name].partition_size > 2_000_000, "a part of it is copied")
        writer.wait_for_more(50)
        broker.kill()
        cluster.wait_state(topic, 0, isr={2, 3})
        writer.wait_for_more(50)
        broker.start()
        cluster.wait_state(topic, 0, isr={1, 2, 3})
        assert told(broker, topic)[other(before).name].is_future_key, "it goes on where it was"
        throttle(cluster, broker, None)
        settled(broker, topic, other(before))
        cluster.wait_state(topic, 0, isr={1, 2, 3})
        writer.wait_for_more(50)
    finally:
        writer.stop()
    values(cluster, topic, first, writer.sent)


def test_topic_is_deleted_while_its_replica_moves(cluster: Cluster) -> None:
    topic, broker = "deleted", cluster.brokers[1]
    filled(cluster, topic, 1)
    before = home(broker, topic)
    throttle(cluster, broker, 1_000_000)
    try:
        assert move(broker, topic, other(before)) == 0
        wait_until(lambda: told(broker, topic)[other(before).name].partition_size > 0, "a part of it is copied")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.delete_topics([topic])[topic].result(20)
        wait_until(lambda: not list(broker.folder.glob(f"*/{topic}-0*")), "both copies are gone")
    finally:
        throttle(cluster, broker, None)


def test_reassignment_tool_moves_replicas_between_log_dirs(cluster: Cluster, tmp_path: Path) -> None:
    topic = "tool"
    first = filled(cluster, topic, 1)
    dirs = [other(home(cluster.brokers[i], topic)) for i in (1, 2, 3)]
    file = tmp_path / "plan.json"
    plan = {"topic": topic, "partition": 0, "replicas": [1, 2, 3], "log_dirs": [str(path) for path in dirs]}
    file.write_text(json.dumps({"version": 1, "partitions": [plan]}))
    words = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file)]
    assert commands.run("reassign", [*words, "--execute"]) == 0
    for i, path in enumerate(dirs, 1):
        settled(cluster.brokers[i], topic, path)
    assert commands.run("reassign", [*words, "--verify"]) == 0
    assert read(cluster, first, topic=topic) == list(range(first))
