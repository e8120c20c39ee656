"""The toy system: `server` as a daemon on n1."""

from __future__ import annotations

import importlib.util
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import DaemonSpec, Node
from harness.nodes.packages import put_packages
from harness.plan.plan import Plan
from harness.systems.coordination import PartitionState
from harness.systems.view import SystemView
from harness.systems.waiting import await_daemon

DAEMON = "toy"
PORT = 7000
WEEK_MS = "604800000"


def package(name: str) -> Path:
    """The folder of an installed package."""
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


class OnlyBroker:
    """The one broker leads and controls."""

    def partition(self, topic: str, partition: int) -> PartitionState:
        return PartitionState(1, 5, (1,), 1, 0)

    def controller(self) -> int:
        return 1

    def partition_count(self, topic: str) -> int:
        return 0


class ToySystem:
    """Implements `harness.systems.base.System`."""

    def __init__(self, nodes: Mapping[str, Node], plan: Plan) -> None:
        self._nodes = nodes
        self._node = nodes["n1"]
        self._plan = plan
        self._python_path = ""

    def setup(self) -> None:
        # The toy broker's own package, and the one whose codecs it uses.
        self._python_path = put_packages(self._node, [package("toy_lab"), package("broker")])
        self.start_broker(self._node.name)

    def bootstrap(self) -> Sequence[tuple[str, str, int]]:
        return [(self._node.name, self._node.address, PORT)]

    def view(self) -> SystemView:
        return SystemView(
            [self._node],
            [],
            OnlyBroker(),
            self._plan.topic.name,
            self._plan.topic.partitions,
            replication_factor=1,
            copies_acknowledged=1,
            broker_daemon=DAEMON,
            restart=self.start_broker,
            expect_down=lambda _name: None,
            crashed=self.crashed,
            event_log=lambda _name: "/nonexistent",
            clock_files={},
        )

    def start_broker(self, name: str) -> None:
        node = self._node
        if node.pid(DAEMON) is None:
            lost = self._plan.system.settings.get("lost.offset", "-1")
            retention_s = int(self._plan.topic.config.get("retention.ms", WEEK_MS)) / 1000
            place = (node.address, str(PORT), self._plan.topic.name)
            argv = (node.python, "-m", "toy_lab.server", *place, lost, str(retention_s))
            node.start(DaemonSpec(DAEMON, argv, {"PYTHONPATH": self._python_path}, node.root))
        await_daemon(node, DAEMON, self._responds, 20.0)

    def _responds(self) -> bool:
        try:
            socket.create_connection((self._node.address, PORT), timeout=1.0).close()
        except OSError:
            return False
        return True

    def stop_broker(self, name: str) -> str | None:
        self._node.signal(DAEMON, signal.SIGTERM)
        return None if self._node.wait_gone(DAEMON, 10.0) else "did not end"

    def crashed(self) -> Sequence[tuple[str, str]]:
        return []

    def collect(self, evidence: Path) -> Sequence[tuple[str, str | None]]:
        self._node.get(f"{self._node.root}/logs", evidence / self._node.name / "logs")
        # Of nodes without a daemon there is nothing to copy.
        return [(name, None) for name in self._nodes]

    def collect_logs(self, evidence: Path) -> Sequence[tuple[str, str]]:
        return []

    def teardown(self) -> None:
        if self._node.pid(DAEMON) is not None:
            self._node.signal(DAEMON, signal.SIGKILL)


class Toy:
    """Implements `harness.systems.base.SystemKind`."""

    event_log = False
    checkers = ()

    def check(self, plan: Plan) -> None: ...

    def source(self, plan: Plan) -> Path:
        return package("toy_lab")

    def describe(self, plan: Plan) -> Mapping[str, object]:
        return {"toy": True}

    def open(self, nodes: Mapping[str, Node], plan: Plan) -> ToySystem:
        return ToySystem(nodes, plan)
