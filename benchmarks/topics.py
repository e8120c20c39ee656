"""Topics of a cluster under measurement: ready to be written to when made, gone from the disks when deleted.

Decides where replicas are and when a topic counts as there or as gone. Must not know what is measured with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.process import BenchmarkFailed, wait_for
from benchmarks.systems import BROKERS, REPLICATION_FACTOR, Cluster, is_full
from harness.clients.connection import ClientError, Connection
from harness.clients.requests import metadata

TIMEOUT_S = 120.0
TIMEOUT_PER_PARTITION_S = 0.03
"""Ten thousand get seven minutes."""
_ASK_TIMEOUT_NS = 10_000_000_000
_RETRY_S = 40.0
_ASKED_AT_ONCE = 500
_LOOK_S = 1.0
# The controller has changed or is about to: asked again, another one answers.
_PASSING = ("NOT_CONTROLLER", "_TRANSPORT", "_TIMED_OUT", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE")


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int,
    first: int = BROKERS[0],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Leaders go round the brokers from broker `first` on. Returns when every broker knows every leader.

    A broker learns of a topic from the request that follows the one that made it leader, so then all leaders lead.
    """
    start = BROKERS.index(first)
    assignment = [
        [BROKERS[(start + p + i) % len(BROKERS)] for i in range(REPLICATION_FACTOR)] for p in range(partitions)
    ]
    new = NewTopic(topic, num_partitions=partitions, replica_assignment=assignment, config=dict(settings or {}))
    wait_s = timeout_s(partitions)
    _ask(
        cluster,
        lambda admin: admin.create_topics([new], request_timeout=wait_s)[topic],
        "TOPIC_ALREADY_EXISTS",
        wait_s,
    )
    await_full(cluster, topic, partitions)
    await_known(cluster, topic, partitions)


def await_known(cluster: Cluster, topic: str, partitions: int) -> None:
    """Until every broker names a leader of every partition."""
    for broker_id in cluster.brokers:
        connection = Connection(cluster.address(broker_id), "highwater-bench")
        try:
            wait_for(
                f"{cluster.name}: broker {broker_id} knows {topic}",
                lambda connection=connection: _knows(connection, topic, partitions),  # type: ignore[misc]
                timeout_s(partitions),
            )
        finally:
            connection.close()


def timeout_s(partitions: int) -> float:
    """How long work on a topic of so many partitions may take."""
    return TIMEOUT_S + partitions * TIMEOUT_PER_PARTITION_S


def await_full(cluster: Cluster, topic: str, partitions: int) -> None:
    """Until every partition is led with a full ISR. Raises BenchmarkFailed.

    Asks for those only that were not full when last asked, for one at first and for more while they are: what is
    measured here has the same ZooKeeper and the same processors.
    """
    left = list(range(partitions))

    def full() -> bool:
        cluster.require_alive()
        size = 1
        while left:
            asked = left[-size:]
            states = cluster.zookeeper.states(topic, asked)
            lacking = [partition for partition, state in zip(asked, states, strict=True) if not is_full(state)]
            left[-size:] = lacking
            if lacking:
                return False
            size = min(2 * size, _ASKED_AT_ONCE)
        return True

    wait_for(f"{cluster.name}: {topic} with full ISRs", full, timeout_s(partitions))


def await_all_full(cluster: Cluster) -> None:
    """The same for every partition of every topic, internal ones too."""
    for topic in cluster.zookeeper.topics():
        await_full(cluster, topic, cluster.zookeeper.partition_count(topic))


def elect_preferred(cluster: Cluster) -> None:
    """Have every partition led by the first of its replicas. A controller does so by itself where brokers have come
    back, five seconds after it came into office or each five minutes: in the middle of what is measured.
    """
    _ask(
        cluster,
        lambda admin: admin.elect_leaders(ElectionType.PREFERRED),
        "ELECTION_NOT_NEEDED",
        TIMEOUT_S,
    )
    await_all_full(cluster)


def delete_topic(cluster: Cluster, topic: str, await_gone: bool = True) -> None:
    """Returns when its folders are gone from every broker, so that the work of deleting falls to no row.

    await_gone: False for small topics on brokers that have just started: Kafka removes no files in the 30 s after that.
    """
    cluster.require_alive()
    _ask(
        cluster,
        lambda admin: admin.delete_topics([topic], operation_timeout=30)[topic],
        "UNKNOWN_TOPIC_OR_PART",
        TIMEOUT_S,
    )
    if not await_gone:
        return

    def gone() -> bool:
        cluster.require_alive()
        return not any(list(broker.data.glob(f"{topic}-*")) for broker in cluster.brokers.values())

    wait_for(f"{cluster.name}: files of {topic} deleted", gone, TIMEOUT_S)


def _knows(connection: Connection, topic: str, partitions: int) -> bool:
    deadline_ns = time.monotonic_ns() + _ASK_TIMEOUT_NS
    try:
        connection.connect(deadline_ns)
        seen = metadata(connection, topic, deadline_ns)
    except ClientError:
        return False
    return len(seen.partitions) == partitions and all(p.leader >= 0 for p in seen.partitions.values())


class _Request(Protocol):
    def __call__(self, admin: AdminClient) -> _Future: ...


class _Future(Protocol):
    def result(self, timeout: float) -> object: ...


def _ask(cluster: Cluster, request: _Request, done_before: str, wait_s: float) -> None:
    """Ask the controller, whoever it is by then. Raises BenchmarkFailed with the error that stays.

    wait_s: for one answer. A request that is given up may have been carried out: asked again, it says so.
    """
    deadline = time.monotonic() + _RETRY_S + wait_s
    while True:
        # A new client each time: it learns afresh who controls.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        try:
            _answer(cluster, request(admin), wait_s + _RETRY_S)
            return
        except KafkaException as error:
            cause = error.args[0]
            if cause.name() == done_before:
                return
            if cause.name() not in _PASSING or time.monotonic() > deadline:
                raise BenchmarkFailed(f"{cluster.name}: {cause.name()}: {cause.str()}") from None
        time.sleep(0.2)


def _answer(cluster: Cluster, future: _Future, timeout_s: float) -> None:
    """Wait for it while the brokers live. Raises BenchmarkFailed, and what the request failed with."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            future.result(timeout=_LOOK_S)
        except TimeoutError:
            cluster.require_alive()
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{cluster.name}: no answer within {timeout_s:g} s") from None
        else:
            return
