"""Two brokers for hostile traffic, and what has to hold of them whatever was sent.

One, the controller, leads everything that clients use; the other gets what brokers send each other. What a broker
believes of its cluster is whatever such requests say, as in Kafka without ACLs, so only the first has a bystander.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from broker.core.coordination import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.net.complaints import INTERVAL_MS, KINDS_MAX
from broker.wire.api import ApiKey
from tests.support.brokers import Cluster, running_cluster
from tests.support.bystander import Bystander, wait_served
from tests.support.fuzz_values import NAMES
from tests.support.processes import descriptors, resident_kib
from tests.support.wait import eventually
from tests.support.whole_round import whole_round

CLUSTERS_OWN: Final = frozenset(
    {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}
)
"""They tell a broker what its cluster is."""
GOOD: Final = "good"
"""The bystander's topic, and group."""
_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.session.timeout.ms": "10000",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_PARTITIONS: Final = 2
_DESCRIPTORS_GROWTH_MAX: Final = 64
_CLOSED: Final = re.compile("closing connection from")
_WRONG: Final = re.compile("Traceback|CRITICAL|could not be handled|Error: ")


class Fuzzed:
    """target: the broker whose clients must not notice; other: the one that brokers' requests go to."""

    def __init__(self, cluster: Cluster, target: int) -> None:
        self.cluster = cluster
        self.target = cluster.brokers[target]
        (self.other,) = (broker for broker in cluster.brokers.values() if broker is not self.target)
        self.bystander = Bystander(self.target.port, GOOD, GOOD)
        self._began = time.monotonic()
        self._descriptors = descriptors(self._pid)
        self._resident_kib = resident_kib(self._pid)

    @property
    def _pid(self) -> int:
        assert self.target.process is not None
        return self.target.process.pid

    @property
    def grown_mib(self) -> float:
        """Memory of the target beyond what it had at the beginning."""
        return (resident_kib(self._pid) - self._resident_kib) / 1024

    def check(self, grown_mib_max: float) -> None:
        """Everything that has to hold at any time."""
        for broker in self.cluster.brokers.values():
            assert broker.process is not None
            assert broker.process.poll() is None, f"broker {broker.broker_id} ended: {broker.output[-3000:]}"
            self._check_log(broker.output)
        assert not self.bystander.failures, self.bystander.failures
        assert self.grown_mib <= grown_mib_max, f"memory grew by {self.grown_mib:.0f} MiB, {grown_mib_max} are allowed"

    def check_end(self) -> None:
        """Once all connections of the traffic are closed."""
        assert descriptors(self._pid) <= self._descriptors + _DESCRIPTORS_GROWTH_MAX, "descriptors stay open"

    def serve_again(self) -> None:
        """Start both brokers again, with all that the frames have left in their logs and in ZooKeeper, and have a real
        client served: what it needs may be anywhere by then, and topics that were deleted through the other broker,
        which takes the frames for the cluster's, are made anew.
        """
        for broker in self.cluster.brokers.values():
            broker.kill()
        for broker in self.cluster.brokers.values():
            broker.start()
        refused: list[str] = []

        def served() -> bool:
            gone = [name for name in (GOOD, OFFSETS_TOPIC) if self.cluster.state(name, 0) is None]
            try:
                if gone:
                    # One whose deletion is under way is there for a while.
                    _make(self.cluster, self.target.broker_id, gone)
                whole_round(self.cluster.bootstrap, GOOD, GOOD)
            except KafkaException as error:
                refused.append(str(error))
                return False
            return True

        try:
            eventually(served, "a round of a client after a new start", timeout_s=120)
        except AssertionError as error:
            states = {
                f"{name}-{partition}": self.cluster.state(name, partition)
                for name in (GOOD, OFFSETS_TOPIC)
                for partition in range(_PARTITIONS)
            }
            outputs = [
                f"broker {broker.broker_id}: {broker.output[-2000:]}" for broker in self.cluster.brokers.values()
            ]
            raise AssertionError("\n".join([str(error), *refused[-3:], str(states), *outputs])) from error

    def _check_log(self, output: str) -> None:
        wrong = _WRONG.search(output)
        assert wrong is None, output[max(0, wrong.start() - 500) : wrong.start() + 3000]
        lines = output.splitlines()
        assert all(character.isprintable() for line in lines for character in line), "control characters in the log"
        intervals = (time.monotonic() - self._began) * 1000 // INTERVAL_MS + 2
        closed = sum(_CLOSED.search(line) is not None for line in lines)
        assert closed <= (KINDS_MAX + 1) * intervals, f"{closed} lines of closed connections in {intervals} intervals"


def _make(cluster: Cluster, leader: int, names: Sequence[str]) -> None:
    """Topics of which that broker leads all partitions. Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topics = [NewTopic(name, _PARTITIONS, replica_assignment=[[leader]] * _PARTITIONS) for name in names]
    for created in admin.create_topics(topics).values():
        created.result()


@contextmanager
def fuzzed_cluster(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Fuzzed]:
    """settings: of both brokers, beside those of these tests."""
    with running_cluster(folder, brokers=2, settings={**_SETTINGS, **(settings or {})}) as cluster:
        target = cluster.controller()
        assert target is not None
        topics = [GOOD, *NAMES[:3], OFFSETS_TOPIC, TRANSACTION_TOPIC]
        _make(cluster, target, topics)
        for name in topics:
            cluster.wait_told(name)
        wait_served(cluster.brokers[target].port, GOOD, GOOD)
        yield Fuzzed(cluster, target)


def watched(check: Callable[[], None], every_s: float) -> Callable[[], None]:
    """A function to call often that calls the check now and then."""
    last = time.monotonic()

    def look() -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            check()

    return look
