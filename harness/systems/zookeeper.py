"""A real ZooKeeper on its nodes: one server, or an ensemble.

Decides its settings: a short tick, so that brokers may have session time-outs from 1 to 120 s, and no fsync, because
runs end processes and never the machine. Must not know what is stored in it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from harness.nodes.base import DaemonSpec, Node
from harness.systems.responses import zookeeper_responds
from harness.systems.waiting import await_daemon

DAEMON = "zookeeper"
CLIENT_PORT = 2181
PEER_PORTS = (2888, 3888)
TICK_MS = 500
START_TIMEOUT_S = 60.0

LOG_CONFIG = """\
status=error
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
"""


def configuration(nodes: Sequence[Node], index: int) -> str:
    """zoo.cfg of the index-th node."""
    node = nodes[index]
    lines = [
        f"tickTime={TICK_MS}",
        "initLimit=20",
        "syncLimit=10",
        "minSessionTimeout=1000",
        "maxSessionTimeout=120000",
        f"dataDir={_data(node)}",
        f"clientPort={CLIENT_PORT}",
        f"clientPortAddress={node.address}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,ruok",
    ]
    if len(nodes) > 1:
        peer, election = PEER_PORTS
        lines += [f"server.{i + 1}={member.address}:{peer}:{election}" for i, member in enumerate(nodes)]
    return "\n".join(lines) + "\n"


class ZooKeeperEnsemble:
    """The servers of a run; `start` returns when each serves."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    @property
    def connect(self) -> str:
        """For zookeeper.connect."""
        return ",".join(f"{node.address}:{CLIENT_PORT}" for node in self.nodes)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Write the settings and start every server. Raises SystemFailed with the log's end."""
        for index, node in enumerate(self.nodes):
            node.run(["mkdir", "-p", _data(node)])
            node.write_text(f"{node.root}/zoo.cfg", configuration(self.nodes, index))
            node.write_text(f"{node.root}/log4j2.properties", LOG_CONFIG)
            if len(self.nodes) > 1:
                node.write_text(f"{_data(node)}/myid", f"{index + 1}\n")
            self.start_server(node, wait=False)
        for node in self.nodes:
            self._await(node, timeout_s)

    def start_server(self, node: Node, wait: bool = True) -> None:
        """Start one server, as after a kill; does nothing when it is alive."""
        if node.pid(DAEMON) is None:
            node.start(DaemonSpec(DAEMON, _argv(node)))
        if wait:
            self._await(node, START_TIMEOUT_S)

    def kill(self) -> None:
        """End every server at once, paused ones too."""
        for node in self.nodes:
            if node.pid(DAEMON) is not None:
                node.signal(DAEMON, signal.SIGKILL)
                node.wait_gone(DAEMON, 5.0)

    def collect(self, node: Node, folder: Path) -> None:
        """Copy the server's transaction logs and snapshots to folder/zookeeper/version-2, and its logs."""
        node.get(f"{_data(node)}/version-2", folder / "zookeeper" / "version-2")
        node.get(f"{node.root}/logs", folder / "logs")

    def _await(self, node: Node, timeout_s: float) -> None:
        await_daemon(node, DAEMON, lambda: zookeeper_responds(node.address, CLIENT_PORT), timeout_s)


def _data(node: Node) -> str:
    return f"{node.root}/zookeeper"


def _argv(node: Node) -> tuple[str, ...]:
    return (
        node.java,
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        # Its file is named by a process id, of which each sandbox has its own, in a folder that all of them share.
        "-XX:-UsePerfData",
        "-Dzookeeper.forceSync=no",
        # In KiB: a transaction log is evidence, and it is filled up with zeros to this size.
        "-Dzookeeper.preAllocSize=4096",
        f"-Dlog4j2.configurationFile={node.root}/log4j2.properties",
        "-cp",
        node.zookeeper_classpath,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        f"{node.root}/zoo.cfg",
    )
