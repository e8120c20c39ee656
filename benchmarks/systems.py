"""The two systems under measurement, as clusters of three brokers on loopback.

Decides how each broker is started; the settings of both are the same text but for ids, ports and folders. Must not know
what is measured. Kafka gets the JVM options of its own start script.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka import java_for_kafka, kafka_classpath
from benchmarks.measure.os_usage import CpuTime, cpu_time, read_bytes, rss_bytes, total
from benchmarks.ports import free_port
from benchmarks.process import STOP_TIMEOUT_S, BenchmarkFailed, Daemon, wait_for
from benchmarks.zookeeper import PartitionState, ZooKeeper
from harness.clients.connection import Address
from harness.systems.responses import broker_responds

BROKERS = (1, 2, 3)
REPLICATION_FACTOR = 3
START_TIMEOUT_S = 90.0
MENDING_S = 30.0
"""How long after a void run a cluster may take until it serves again by itself."""
_TAIL_CHARACTERS = 400
ROOT = Path(__file__).resolve().parents[1]

SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": str(REPLICATION_FACTOR),
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.min.bytes": "1",
    "replica.fetch.max.bytes": "1048576",
    "replica.fetch.response.max.bytes": "10485760",
    "log.flush.interval.messages": "9223372036854775807",
    "log.segment.bytes": "1073741824",
    "log.retention.hours": "168",
    "log.segment.delete.delay.ms": "500",
    "zookeeper.session.timeout.ms": "18000",
    "controlled.shutdown.enable": "true",
}
"""What both systems run with: Kafka's defaults, said aloud where a row depends on them, but for NOT_DEFAULT."""

NOT_DEFAULT = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "min.insync.replicas",
    "log.segment.delete.delay.ms",
)
"""Topics are made by the rows, with three replicas and a min ISR of 2, and deleted topics leave the disk at once."""

_HEAP = ("-Xmx1G", "-Xms1G")
_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
_JMX = (
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
_LOG4J = """\
log4j.rootLogger=INFO, kafkaAppender
log4j.appender.kafkaAppender=org.apache.log4j.DailyRollingFileAppender
log4j.appender.kafkaAppender.DatePattern='.'yyyy-MM-dd-HH
log4j.appender.kafkaAppender.File=${kafka.logs.dir}/server.log
log4j.appender.kafkaAppender.layout=org.apache.log4j.PatternLayout
log4j.appender.kafkaAppender.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A system. argv: its broker's command, in which {folder} and {config} stand for a broker's own.

    on_disk: settings of a topic whose records are on the disk of every ISR member before acks=all acknowledges them.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    on_disk: Mapping[str, str]

    def command(self, folder: Path, config: Path) -> list[str]:
        return [part.replace("{folder}", str(folder)).replace("{config}", str(config)) for part in self.argv]


def highwater(source: Path = ROOT) -> Kind:
    """The broker package in that folder, run by the Python that runs the benchmark."""
    argv = (sys.executable, "-m", "broker.cli", "--config", "{config}")
    environment = {"PYTHONPATH": str(source), "PYTHONUNBUFFERED": "1"}
    return Kind("highwater", argv, environment, {"flush.policy": "group-commit"})


def kafka(home: Path | None) -> Kind:
    """Apache Kafka from an installation folder, or from Maven Central."""
    gc_log = "-Xlog:gc*:file={folder}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M"
    logs = ("-Dkafka.logs.dir={folder}", "-Dlog4j.configuration=file:{folder}/log4j.properties")
    java = str(java_for_kafka().executable)
    argv = (java, *_HEAP, *_JVM, gc_log, *_JMX, *logs, "-cp", kafka_classpath(home), "kafka.Kafka", "{config}")
    return Kind("kafka", argv, {}, {"flush.messages": "1"})


class Broker:
    """One broker; id, port and data stay the same over restarts."""

    def __init__(self, kind: Kind, folder: Path, broker_id: int, zookeeper: str, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self.broker_id = broker_id
        self.port = free_port()
        self.data = folder / "data"
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        values = {
            "broker.id": str(broker_id),
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": str(self.data),
            "zookeeper.connect": zookeeper,
            **settings,
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        (folder / "log4j.properties").write_text(_LOG4J)
        self.daemon = Daemon("broker", kind.command(folder, config), folder, kind.environment)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answers(self) -> bool:
        return broker_responds("127.0.0.1", self.port)


class Cluster:
    """Three brokers of one kind and their ZooKeeper."""

    def __init__(self, kind: Kind, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.folder = folder
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        self.brokers: Mapping[int, Broker] = {
            broker_id: Broker(
                kind,
                folder / f"broker-{broker_id}",
                broker_id,
                self.zookeeper.connect,
                {**SETTINGS, **(settings or {})},
            )
            for broker_id in BROKERS
        }

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> float:
        """Start ZooKeeper, then the brokers; returns seconds from the brokers' start until all are serving."""
        self.zookeeper.start()
        return self.start_brokers()

    def start_brokers(self) -> float:
        """Seconds from the first process's start until every broker is registered and answers."""
        begun = time.monotonic()
        for broker in self.brokers.values():
            broker.daemon.start()
        self.await_serving(BROKERS)
        return time.monotonic() - begun

    def await_serving(self, among: tuple[int, ...], timeout_s: float = START_TIMEOUT_S) -> None:
        """Until these brokers are registered and answer, and there is a controller. Raises BenchmarkFailed."""

        def serving() -> bool:
            self.require_alive(among)
            return (
                set(among) <= self.zookeeper.live_brokers()
                and self.zookeeper.controller() is not None
                and all(self.brokers[broker_id].answers() for broker_id in among)
            )

        wait_for(f"{self.name}: brokers {among} serving", serving, timeout_s, pause_s=0.005)

    def stop_brokers(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """SIGTERM to all at once, then wait; returns who had not ended by then and was killed."""
        for broker in self.brokers.values():
            if broker.daemon.alive:
                broker.daemon.signal(signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        return [
            broker_id
            for broker_id, broker in self.brokers.items()
            if not broker.daemon.wait(max(deadline - time.monotonic(), 0.1))
        ]

    def close(self) -> None:
        """End everything; idempotent."""
        for broker in self.brokers.values():
            broker.daemon.kill()
        self.zookeeper.close()

    def cpu_time(self) -> CpuTime:
        """Of the three brokers so far. Raises BenchmarkFailed when one is not there."""
        return total(cpu_time(pid) for pid in self._pids())

    def read_bytes(self) -> int:
        """What the three brokers have fetched from disks so far."""
        return sum(read_bytes(pid) for pid in self._pids())

    def rss_bytes(self) -> list[int]:
        """Resident memory of each broker."""
        return [rss_bytes(pid) for pid in self._pids()]

    def require_alive(self, among: Sequence[int] = BROKERS) -> None:
        """Raises BenchmarkFailed when one of these brokers has ended: what waits for it need not wait on."""
        for broker_id in among:
            daemon = self.brokers[broker_id].daemon
            if not daemon.alive:
                said = " | ".join(daemon.tail(_TAIL_CHARACTERS).splitlines())
                raise BenchmarkFailed(f"{self.name}: broker {broker_id} ended; its last words: {said}")

    def _pids(self) -> list[int]:
        self.require_alive()
        return [broker.daemon.pid for broker in self.brokers.values()]

    def why_broken(self) -> str | None:
        """None when ZooKeeper and all brokers live, are registered and answer, else what is wrong."""
        try:
            if not self.zookeeper.daemon.alive:
                return f"{self.name}: ZooKeeper ended"
            self.await_serving(BROKERS, MENDING_S)
        except BenchmarkFailed as error:
            return str(error)
        return None

    def address(self, broker_id: int) -> Address:
        return Address("127.0.0.1", self.brokers[broker_id].port)


def is_full(state: PartitionState | None) -> bool:
    """Whether the partition is led and every replica is in the ISR."""
    return state is not None and state.leader >= 0 and len(state.isr) == REPLICATION_FACTOR
