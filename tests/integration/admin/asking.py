"""Administration of a running cluster for these tests, by confluent-kafka and by bare requests."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from broker.wire.errors import ErrorCode
from broker.wire.headers import encode_request_header
from broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlterableConfig,
    IncrementallyAlteredResource,
)
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from broker.wire.schema import Message
from tests.support.brokers import SOURCE, Broker, Cluster, wait_until

_Answer = TypeVar("_Answer", bound=Message)

SETTINGS = {
    "zookeeper.session.timeout.ms": "1500",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
    "file.delete.delay.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "replica.fetch.max.bytes": "65536",
}


def create_topic(cluster: Cluster, name: str, assignment: Sequence[Sequence[int]], **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    replicas = [list(one) for one in assignment]
    topic = NewTopic(name, num_partitions=len(replicas), replica_assignment=replicas, config=settings)
    admin.create_topics([topic])[name].result(20)
    for partition, brokers in enumerate(replicas):
        cluster.wait_state(name, partition, leader=brokers[0], isr=set(brokers))


def fill(cluster: Cluster, topic: str, count: int, size: int = 10_000) -> None:
    """Records with acks=all in partition 0."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.size": 20_000})
    for _ in range(count):
        producer.produce(topic, b"x" * size, partition=0)
    assert producer.flush(60) == 0


def set_config(cluster: Cluster, kind: ResourceType, name: str, **config: str | None) -> None:
    """None takes an override away."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in config.items()
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(20)


def set_for_all_brokers(cluster: Cluster, name: str, value: str | None) -> None:
    """A default of all brokers, for which confluent-kafka has no name; any broker takes it."""
    edit = IncrementallyAlterableConfig(name, 1 if value is None else 0, value)
    request = IncrementalAlterConfigsRequest([IncrementallyAlteredResource(4, "", [edit])])
    broker = next(broker for broker in cluster.brokers.values() if broker.process is not None)
    answer = IncrementalAlterConfigsResponse.decode(1, exchange(broker, request, version=1))
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE], answer


class Reassigner:
    """Asks every live broker in turn until the controller is among them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _ask(self, request: Message, response: type[_Answer]) -> _Answer:
        answers: list[_Answer] = []

        def asked() -> bool:
            for broker in self._cluster.brokers.values():
                if broker.process is not None:
                    with contextlib.suppress(OSError):
                        answer = response.decode(0, exchange(broker, request))
                        if answer.error_code == ErrorCode.NONE:  # type: ignore[attr-defined]
                            answers.append(answer)
                            return True
            return False

        wait_until(asked, "an answer of the controller")
        return answers[0]

    def begin(self, topic: str, targets: Mapping[int, Sequence[int] | None]) -> None:
        partitions = [ReassignablePartition(p, None if t is None else list(t)) for p, t in targets.items()]
        request = AlterPartitionReassignmentsRequest(10_000, [ReassignableTopic(topic, partitions)])
        answer = self._ask(request, AlterPartitionReassignmentsResponse)
        results = {part.partition_index: part for one in answer.responses for part in one.partitions}
        assert all(results[partition].error_code == ErrorCode.NONE for partition in targets), results

    def under_way(self) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
        """(replicas, adding, removing) by partition."""
        answer = self._ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
        return {
            (topic.name, part.partition_index): (part.replicas, part.adding_replicas, part.removing_replicas)
            for topic in answer.topics
            for part in topic.partitions
        }

    def wait_done(self, timeout_s: float = 60) -> None:
        wait_until(lambda: not self.under_way(), lambda: f"no reassignment: {self.under_way()}", timeout_s)


def exchange(broker: Broker, request: Message, version: int = 0) -> bytes:
    """One request in a flexible version, and the answer's body."""
    header = encode_request_header(request.API, version, 1, "test")
    with socket.create_connection(("127.0.0.1", broker.port), 10) as connection:
        frame = header + request.encode(version)
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", _read(connection, 4))
        return _read(connection, size)[5:]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("closed by the broker")
        data += more
    return data


def add_broker(cluster: Cluster, folder: Path, broker_id: int, settings: Mapping[str, str] = SETTINGS) -> Broker:
    """Start a further broker; it ends with the cluster."""
    command = [sys.executable, "-m", "broker.cli"]
    broker = Broker(folder / f"broker-{broker_id}", broker_id, cluster.zookeeper.connect, settings, command, SOURCE)
    cluster.brokers[broker_id] = broker  # type: ignore[index]
    broker.start()
    wait_until(lambda: broker_id in cluster.live(), lambda: f"broker {broker_id}: {broker.output[-2000:]}")
    cluster.wait_known()
    return broker


GAP_MAX_S = float(SETTINGS["zookeeper.session.timeout.ms"]) / 1000
"""What waited for a session, or twice as long for a lag, had a longer gap."""


def longest_gap_s(cluster: Cluster, partition: str, since_s: float = 0, until_s: float = math.inf) -> float:
    """Between two acknowledgements, whoever led. since_s, until_s: by the wall clock."""
    events = [event for broker in cluster.brokers.values() for event in broker.events()]
    acks = sorted(int(str(event["w"])) / 1e9 for event in events if event["e"] == "ack" and event["p"] == partition)
    return max(later - earlier for earlier, later in pairwise(at for at in acks if since_s <= at <= until_s))


def assignment(cluster: Cluster, topic: str) -> dict[str, Any]:
    """The topic's znode."""
    loaded: dict[str, Any] = json.loads(cluster.zk.get(f"/brokers/topics/{topic}")[0])
    return loaded


def log_folder(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> Path:
    return cluster.brokers[broker].folder / "data" / f"{topic}-{partition}"


def log_bytes(cluster: Cluster, broker: int, topic: str) -> int:
    """Of its segments, as they are met: a cleaner may put others in their place meanwhile."""
    found = 0
    for file in log_folder(cluster, broker, topic).glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            found += file.stat().st_size
    return found
