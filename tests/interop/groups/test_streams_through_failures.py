"""Six clients read a stream, each with a group of its own, while brokers are killed in turn, and restart in turn.

Each death is that of a leader and of coordinators. Whatever an acknowledged producer sent is read by every group, and
every group's offsets come to the end of the log. kafka-python, which leaves sockets of lost connections behind until
its process ends, is seen through the kill of a coordinator in test_coordinator.py.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pytest
from confluent_kafka import Consumer

from tests.interop.groups.test_members import ALL, committed
from tests.support.brokers import Cluster, wait_until
from tests.support.franz_go import franz as franz
from tests.support.group_members import Member, Sender, fresh
from tests.support.kafka_jars import newest_classpath as newest_classpath
from tests.support.kafka_tools import Tools
from tests.support.watermarks import watermarks
from tests.support.zookeeper import _die_with_parent

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.guarantee("K1", "group-rules"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
STEP_S = 120


class Reader(Protocol):
    """What reads with a group until it is left."""

    @property
    def values(self) -> set[bytes]: ...

    def leave(self) -> None: ...


class Process:
    """A program whose lines are taken as they come. values: what `value_of` makes of them."""

    def __init__(self, command: Sequence[str], value_of: Callable[[bytes], bytes | None], said: bytes = b"") -> None:
        """said: on its stdin, which stays open."""
        self.values: set[bytes] = set()
        self._value_of = value_of
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(said)
        self._process.stdin.flush()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            value = self._value_of(line.strip())
            if value is not None:
                self.values.add(value)

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(STEP_S)
        self._thread.join(STEP_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def sent_value(line: bytes) -> bytes | None:
    """Of a line of the verifiable producer: what was acknowledged."""
    return _field(line, "producer_send_success")


def read_value(line: bytes) -> bytes | None:
    """Of a line of the verifiable consumer."""
    return _field(line, "record_data")


def _field(line: bytes, name: str) -> bytes | None:
    found = json.loads(line) if line.startswith(b"{") else {}
    return str(found["value"]).encode() if found.get("name") == name else None


def plain(line: bytes) -> bytes | None:
    return None if line.startswith(b"failed:") else line


@pytest.fixture
def java(cluster: Cluster, classpath: str, newest_classpath: str) -> dict[str, Tools]:
    return {"java-3.9": Tools(classpath, cluster), "java-4": Tools(newest_classpath, cluster)}


@pytest.fixture
def readers(cluster: Cluster, topic: str, kcat: str, franz: str, java: dict[str, Tools]) -> Iterator[dict[str, Reader]]:
    """By name, which is the name of the group too."""
    at = ("--bootstrap-server", cluster.bootstrap, "--topic", topic)
    found: dict[str, Reader] = {}
    try:
        for library in ("confluent-kafka", "aiokafka"):
            group = fresh(library)
            found[group] = Member(library, cluster.bootstrap, group, topic)
        group = fresh("kcat")
        words = [kcat, "-E", "-u", "-q", "-b", cluster.bootstrap, "-X", "auto.offset.reset=earliest"]
        found[group] = Process([*words, "-G", group, topic], plain)
        group = fresh("franz-go")
        found[group] = Process([franz, cluster.bootstrap, "unused"], plain, f"follow {topic} {group}\n".encode())
        for version, tools in java.items():
            group = fresh(version)
            options = ("--group-id", group, "--reset-policy", "earliest", "--verbose")
            found[group] = Process(tools.command(VERIFIABLE_CONSUMER, *at, *options), read_value)
        yield found
    finally:
        for reader in found.values():
            reader.leave()


@pytest.fixture
def producers(cluster: Cluster, topic: str, java: dict[str, Tools]) -> Iterator[list[Process]]:
    """The verifiable producers of both versions, which go on until they are left."""
    at = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--throughput", "50")
    made: list[Process] = []
    try:
        for number, tools in enumerate(java.values(), start=1):
            command = tools.command(VERIFIABLE_PRODUCER, *at, "--acks", "-1", "--value-prefix", str(number))
            made.append(Process(command, sent_value))
        yield made
    finally:
        for each in made:
            each.leave()


def go_on(readers: dict[str, Reader], producers: list[Process]) -> None:
    """Everybody sends or reads more."""
    everybody: dict[str, Reader] = {**readers, **{f"producer {n}": each for n, each in enumerate(producers)}}
    before = {name: len(each.values) for name, each in everybody.items()}
    wait_until(
        lambda: all(len(each.values) > before[name] + 20 for name, each in everybody.items()),
        lambda: f"everybody goes on: {[(name, before[name], len(each.values)) for name, each in everybody.items()]}",
        STEP_S,
    )


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    try:
        return {one: watermarks(consumer, topic, one)[1] for one in ALL}
    finally:
        consumer.close()


def test_every_group_reads_all_through_kills_and_a_rolling_restart(
    cluster: Cluster, topic: str, readers: dict[str, Reader], producers: list[Process]
) -> None:
    sender = Sender(cluster.bootstrap, topic, len(ALL))
    try:
        go_on(readers, producers)
        for stop in (True, False):
            for broker in cluster.brokers.values():
                broker.stop() if stop else broker.kill()
                go_on(readers, producers)
                broker.start()
                cluster.wait_known()
                for partition in ALL:
                    cluster.wait_state(topic, partition, isr=set(cluster.brokers))
                go_on(readers, producers)
    finally:
        sent = sender.stop()
    for producer in producers:
        producer.leave()
        sent |= producer.values
    for group, reader in readers.items():
        await_group(cluster, topic, group, reader, sent)


def await_group(cluster: Cluster, topic: str, group: str, reader: Reader, sent: set[bytes]) -> None:
    wait_until(lambda: sent <= reader.values, lambda: f"{group} reads {len(sent - reader.values)} more", STEP_S)
    log = ends(cluster, topic)
    wait_until(
        lambda: committed(cluster, group, topic) == log,
        lambda: f"{group} commits {log}: {committed(cluster, group, topic)}",
        STEP_S,
    )
