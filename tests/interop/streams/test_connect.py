"""Kafka Connect's file connectors: a source with exactly-once support that is killed, and a sink."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from tests.interop.streams.conftest import made
from tests.support.brokers import Cluster, wait_until
from tests.support.group_members import fresh
from tests.support.kafka_jars import VERSION, maven_jars
from tests.support.reading import read_values, stable_end

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(500), pytest.mark.guarantee("transactions", "K1")]
STEP_S = 150
BATCH = 500
"""Lines a transaction. What it has read and not sent, less than this, the source sends only once there is more."""
LINES = 200 * BATCH
MORE = BATCH - 1
_ARTIFACTS = ("connect-runtime", "connect-file", "connect-json")


class Worker:
    """The only worker of a distributed Connect cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        name = fresh("connect")
        self.port = free_port()
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": name,
            "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support": "enabled",
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "consumer.isolation.level": "read_committed",
            **{f"{topic}.storage.topic": f"{name}-{topic}" for topic in ("config", "offset", "status")},
            **{f"{topic}.storage.replication.factor": "3" for topic in ("config", "offset", "status")},
            **{f"{topic}.storage.partitions": "3" for topic in ("offset", "status")},
        }
        self._config = folder / "worker.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._log = folder / "worker.log"

    @contextmanager
    def running(self) -> Iterator[None]:
        """It is killed afterwards."""
        artifacts = (f"org.apache.kafka:{artifact}:{VERSION}" for artifact in _ARTIFACTS)
        jars = maven_jars(f"kafka-connect-{VERSION}", *artifacts)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", main, str(self._config)]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(lambda: self.ask("GET", "/connectors") is not None, "the worker serves", STEP_S)
            yield
        finally:
            process.kill()
            process.wait()

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> object:
        """None where it does not answer so far."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read())
        except (OSError, urllib.error.HTTPError):
            return None

    def connect(self, name: str, **settings: str) -> None:
        config = {"name": name, "tasks.max": "1", **{key.replace("_", "."): value for key, value in settings.items()}}
        wait_until(
            lambda: self.ask("PUT", f"/connectors/{name}/config", config) is not None, f"{name} is there", STEP_S
        )


def write(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in range(first, last))


def test_file_source_that_is_killed_sends_each_line_once_and_the_sink_gets_all(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = made(cluster, "lines", 1)
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    write(source, 0, LINES)
    worker = Worker(cluster, tmp_path)
    with worker.running():
        worker.connect(
            "source",
            connector_class="org.apache.kafka.connect.file.FileStreamSourceConnector",
            file=str(source),
            topic=topic,
            batch_size=str(BATCH),
            exactly_once_support="required",
        )
        wait_until(lambda: stable_end(cluster, topic, 0) > BATCH, "some lines are sent", STEP_S)
    # What it left open is decided once another worker, or the transaction's time-out, ends it.
    assert stable_end(cluster, topic, 0) < LINES, "it was killed with something left to do"
    write(source, LINES, LINES + MORE)
    every = [str(number) for number in range(LINES + MORE)]
    with worker.running():
        worker.connect(
            "sink",
            connector_class="org.apache.kafka.connect.file.FileStreamSinkConnector",
            file=str(sink),
            topics=topic,
        )
        wait_until(
            lambda: sink.exists() and sink.read_text().endswith(f"{every[-1]}\n"), "the sink has the last line", STEP_S
        )
    assert read_values(cluster, topic) == every
    assert set(sink.read_text().split()) == set(every)
