"""One ZooKeeper server for one system, and what it says about the system's partitions.

Decides the server's settings, the same for both systems. Must not know which system stores its state there: Kafka and
highwater use the same paths and the same JSON.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.ports import free_port
from benchmarks.process import Daemon, wait_for
from harness.systems.responses import zookeeper_responds
from harness.systems.zookeeper import LOG_CONFIG
from harness.tools.java import find_java_for_zookeeper, zookeeper_classpath

START_TIMEOUT_S = 60.0
_SETTINGS = """\
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=120000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no")


@dataclass(frozen=True, slots=True)
class PartitionState:
    """version: of the znode; it rises with every change of leader or ISR."""

    leader: int
    isr: tuple[int, ...]
    version: int


class ZooKeeper:
    """A server and a session to it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.port = free_port()
        (folder / "zoo.cfg").write_text(_SETTINGS.format(data=folder / "data", port=self.port))
        (folder / "log4j2.properties").write_text(LOG_CONFIG)
        java = find_java_for_zookeeper().executable
        log = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        argv = [str(java), *_OPTIONS, log, "-cp", zookeeper_classpath(), main, str(folder / "zoo.cfg")]
        self.daemon = Daemon("zookeeper", argv, folder, {})
        logging.getLogger("kazoo").setLevel(logging.ERROR)
        self._session = KazooClient(self.connect, timeout=60)

    @property
    def connect(self) -> str:
        """For zookeeper.connect."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it serves. Raises BenchmarkFailed."""
        self.daemon.start()
        wait_for("ZooKeeper's start", lambda: zookeeper_responds("127.0.0.1", self.port), START_TIMEOUT_S)
        self._session.start()

    def close(self) -> None:
        self._session.stop()
        self._session.close()
        self.daemon.kill()

    def live_brokers(self) -> set[int]:
        """Ids that are registered."""
        return {int(name) for name in self._children("/brokers/ids")}

    def controller(self) -> int | None:
        found = self._read("/controller")
        return None if found is None else int(json.loads(found[0])["brokerid"])

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """Leader and ISR as the controller or leader last wrote them; None when there is no state yet."""
        return _state(self._read(_state_path(topic, partition)))

    def states(self, topic: str, partitions: Sequence[int]) -> list[PartitionState | None]:
        """Of each of them; asked in one go, so that ten thousand take a second."""
        asked = [self._session.get_async(_state_path(topic, partition)) for partition in partitions]
        return [_state(self._answer(answer.get)) for answer in asked]

    def partitions(self, topic: str, count: int) -> list[PartitionState | None]:
        return self.states(topic, range(count))

    def partition_count(self, topic: str) -> int:
        """Partitions with a state, numbered from 0 on."""
        return len(self._children(f"/brokers/topics/{topic}/partitions"))

    def topics(self) -> Sequence[str]:
        return self._children("/brokers/topics")

    def _children(self, path: str) -> list[str]:
        try:
            return list(self._session.get_children(path))
        except NoNodeError:
            return []

    def _read(self, path: str) -> tuple[bytes, int] | None:
        return self._answer(lambda: self._session.get(path))

    def _answer(self, ask: Callable[[], tuple[bytes, Any]]) -> tuple[bytes, int] | None:
        try:
            data, stat = ask()
        except NoNodeError:
            return None
        return data, int(stat.version)


def _state_path(topic: str, partition: int) -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def _state(found: tuple[bytes, int] | None) -> PartitionState | None:
    if found is None:
        return None
    state = json.loads(found[0])
    return PartitionState(int(state["leader"]), tuple(sorted(state["isr"])), found[1])


def server_version() -> str:
    """Of the jar, 3.9.3 for one."""
    found = re.search(r"/zookeeper-(\d[\w.]*?)\.jar", zookeeper_classpath())
    return found[1] if found else "of unknown version"


def settings_text() -> str:
    """What of the server's settings matters to who measures with it."""
    wanted = ("tickTime", "minSessionTimeout", "maxSessionTimeout")
    lines = [line for line in _SETTINGS.splitlines() if line.partition("=")[0] in wanted]
    return ", ".join((*lines, "forceSync=no"))
