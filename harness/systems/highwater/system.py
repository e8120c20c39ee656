"""highwater's brokers over ZooKeeper, on the nodes of a run.

Decides how a broker is set up, started and judged ready. Must not know workloads, faults or checkers. Invariant: a
broker that ends without an earlier `expect_down` is a crash, reported once by `crashed`.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.nodes import disks
from harness.nodes.base import CommandFailed, DaemonSpec, Node
from harness.plan.plan import Plan
from harness.systems.coordination import Coordination
from harness.systems.external_zookeeper import ExternalZooKeeper
from harness.systems.highwater.configuration import PORT, data_folder, event_log_path, server_properties
from harness.systems.highwater.evidence import collect_broker, collected, logs_after
from harness.systems.responses import broker_responds
from harness.systems.view import SystemView, broker_id
from harness.systems.waiting import SystemFailed, await_daemon, await_true, log_tail
from harness.systems.zookeeper import DAEMON as ZOOKEEPER
from harness.systems.zookeeper import ZooKeeperEnsemble
from harness.tools.faketime import faketime_environment

DAEMON = "broker"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 30.0
RIGHT_CLOCK = "+0 x1\n"

# libfaketime names its shared memory after its pid and leaves it behind when it is killed. A wrapper with the same pid
# clears what an earlier process of that pid left; `_forget_shared_memory` removes this process's own.
_UNDER_FAKETIME = 'rm -f "/dev/shm/faketime_shm_$$" "/dev/shm/sem.faketime_sem_$$"; exec env "$@"'


class HighwaterSystem:
    """The system under test of one run; implements `harness.systems.base.System`."""

    def __init__(self, nodes: Mapping[str, Node], plan: Plan, *, external: ExternalZooKeeper | None = None) -> None:
        """nodes: n1 … and zk1 …, open. external: an ensemble of somebody else's instead of zk1 …, closed here."""
        self.plan = plan
        self.brokers: tuple[Node, ...] = tuple(nodes[f"n{i + 1}"] for i in range(plan.nodes.brokers))
        own = [] if external else [nodes[f"zk{i + 1}"] for i in range(plan.nodes.zookeepers)]
        self.zookeeper = ZooKeeperEnsemble(own)
        self._external = external
        self._connect = external.connect if external else self.zookeeper.connect
        self._coordination = Coordination(self._connect, plan.nodes.zookeeper)
        self._lock = threading.Lock()
        # A broker that was never started is meant to be down as well.
        self._meant_down: set[str] = {node.name for node in self.brokers}
        self._reported: set[str] = set()
        self._crashes: list[tuple[str, str]] = []
        self._clock_files: dict[str, str] = {}
        self._up = False

    def setup(self) -> None:
        """Start ZooKeeper, then the brokers; return when all are registered and one controls. Raises SystemFailed."""
        limit_s = self.plan.limits.setup_s
        self.zookeeper.start(limit_s)
        self._coordination.start()
        for node in self.brokers:
            node.run(["mkdir", "-p", data_folder(node)])
            if self.plan.cuts_power and disks.missing(node) is None:
                disks.attach(node, data_folder(node))
            node.write_text(f"{node.root}/server.properties", server_properties(self.plan, node, self._connect))
            if self.plan.skews_clocks and node.faketime_library is not None:
                self._clock_files[node.name] = f"{node.root}/faketime"
                node.write_text(self._clock_files[node.name], RIGHT_CLOCK)
        self._up = True
        order = [f"n{number}" for number in self.plan.system.start_order]
        for name in order:
            self.start_broker(name, limit_s)
            if name == order[0]:
                self._await_controller(broker_id(name))
        with ThreadPoolExecutor(max_workers=len(self.brokers)) as pool:
            rest = [node.name for node in self.brokers if node.name not in order]
            list(pool.map(lambda name: self.start_broker(name, limit_s), rest))
        ids = frozenset(broker_id(node.name) for node in self.brokers)
        await_true(
            f"registration of brokers {sorted(ids)} in ZooKeeper",
            lambda: self._coordination.registered() == ids,
            START_TIMEOUT_S,
        )
        self._await_controller(None)

    def bootstrap(self) -> list[tuple[str, str, int]]:
        """(node, host, port) of every broker."""
        return [(node.name, node.address, PORT) for node in self.brokers]

    def view(self) -> SystemView:
        """What the nemesis may know."""
        return SystemView(
            self.brokers,
            self.zookeeper.nodes,
            self._coordination,
            self.plan.topic.name,
            self.plan.topic.partitions,
            replication_factor=self.plan.topic.replication_factor,
            copies_acknowledged=self.plan.copies_acknowledged,
            broker_daemon=DAEMON,
            restart=self.restart,
            expect_down=self.expect_down,
            crashed=self.crashed,
            event_log=lambda name: event_log_path(self._node(name)),
            clock_files=self._clock_files,
            port=PORT,
        )

    @property
    def coordination(self) -> Coordination:
        """Reads of ZooKeeper by a client of the harness."""
        return self._coordination

    def start_broker(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a node's broker and wait until it responds; does nothing when it is alive. Raises SystemFailed."""
        node = self._node(name)
        self._note_crash(node, DAEMON)
        if node.pid(DAEMON) is None:
            node.start(self._daemon(node))
        try:
            await_daemon(node, DAEMON, lambda: broker_responds(node.address, PORT), timeout_s)
        finally:
            self._forget_shared_memory(node)
            with self._lock:
                self._meant_down.discard(name)
                self._reported.discard(name)

    def stop_broker(self, name: str) -> str | None:
        """SIGTERM, and SIGKILL when that takes too long; returns the problem in that case."""
        node = self._node(name)
        self._note_crash(node, DAEMON)
        self.expect_down(name)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if node.pid(DAEMON) is None:
                return None
            node.signal(DAEMON, number)
            if node.wait_gone(DAEMON, STOP_TIMEOUT_S):
                if number == signal.SIGTERM:
                    return None
                return f"did not end within {STOP_TIMEOUT_S:g} s of SIGTERM and was killed"
        raise SystemFailed(f"node {name}: the broker survives SIGKILL")

    def restart(self, name: str) -> None:
        """Start whatever runs on this node, broker or ZooKeeper server, if it is down."""
        if name in {node.name for node in self.zookeeper.nodes}:
            self.zookeeper.start_server(self._node(name))
            with self._lock:
                self._meant_down.discard(name)
                self._reported.discard(name)
        else:
            self.start_broker(name)

    def expect_down(self, name: str) -> None:
        """From now until it is started again, this node's process may end."""
        with self._lock:
            self._meant_down.add(name)

    def crashed(self) -> list[tuple[str, str]]:
        """(node, end of its log) of every process that ended though nobody was to end it, each reported once."""
        if not self._up:
            return []
        for node, daemon in self._daemons():
            self._note_crash(node, daemon)
        with self._lock:
            found, self._crashes = self._crashes, []
        return found

    def collect(self, evidence: Path) -> list[tuple[str, str | None]]:
        """Copy every node's evidence to evidence/<node>; per node None, or what could not be copied."""
        with ThreadPoolExecutor(max_workers=len(self.brokers) + len(self.zookeeper.nodes)) as pool:
            brokers = pool.map(lambda node: collected(node, evidence, collect_broker), self.brokers)
            zookeepers = pool.map(lambda node: collected(node, evidence, self.zookeeper.collect), self.zookeeper.nodes)
            return [*brokers, *zookeepers]

    def collect_logs(self, evidence: Path) -> list[tuple[str, str]]:
        """Copy every broker's own logs to evidence/<node>/logs-after; (node, why) of those that could not be."""
        with ThreadPoolExecutor(max_workers=len(self.brokers)) as pool:
            return [failed for failed in pool.map(lambda node: logs_after(node, evidence), self.brokers) if failed]

    def teardown(self) -> None:
        """End every process of the system, whatever state it is in; idempotent."""
        self._up = False
        try:
            for node in self.brokers:
                if node.pid(DAEMON) is not None:
                    self._forget_shared_memory(node)
                    node.signal(DAEMON, signal.SIGKILL)
                    node.wait_gone(DAEMON, 5.0)
                if self.plan.cuts_power:
                    # A node that is out of reach now is not there either; the run's folders go on a best effort.
                    with contextlib.suppress(CommandFailed):
                        disks.detach(node, data_folder(node))
            self._coordination.stop()
            self.zookeeper.kill()
        finally:
            if self._external is not None:
                external, self._external = self._external, None
                external.close()

    def _note_crash(self, node: Node, daemon: str) -> None:
        """Keep for `crashed` that a daemon ended by itself, before somebody stops it or starts it again."""
        with self._lock:
            if not self._up or node.name in self._meant_down or node.name in self._reported:
                return
        if node.pid(daemon) is not None:
            return
        with self._lock:
            # Checked again: meanwhile a fault may have called `expect_down` and ended the process.
            if node.name in self._meant_down:
                return
            self._reported.add(node.name)
        tail = log_tail(node, daemon)
        with self._lock:
            self._crashes.append((node.name, tail))

    def _node(self, name: str) -> Node:
        return next(node for node, _ in self._daemons() if node.name == name)

    def _daemons(self) -> Sequence[tuple[Node, str]]:
        return [*((node, DAEMON) for node in self.brokers), *((node, ZOOKEEPER) for node in self.zookeeper.nodes)]

    def _daemon(self, node: Node) -> DaemonSpec:
        argv: tuple[str, ...] = (node.python, "-m", "broker.cli", "--config", f"{node.root}/server.properties")
        env = {"PYTHONPATH": node.broker_path, "PYTHONUNBUFFERED": "1"}
        if node.name in self._clock_files and node.faketime_library is not None:
            # Only the broker itself may run under the library, not the shell that starts it.
            fake = faketime_environment(node.faketime_library, self._clock_files[node.name])
            settings = [f"{key}={value}" for key, value in fake.items()]
            argv = ("sh", "-c", _UNDER_FAKETIME, "sh", *settings, *argv)
        return DaemonSpec(DAEMON, argv, env, node.root)

    def _forget_shared_memory(self, node: Node) -> None:
        if node.name not in self._clock_files:
            return
        pid = node.pid(DAEMON)
        if pid is not None:
            node.run(["rm", "-f", f"/dev/shm/faketime_shm_{pid}", f"/dev/shm/sem.faketime_sem_{pid}"])

    def _await_controller(self, wanted: int | None) -> None:
        def found() -> bool:
            controller = self._coordination.controller()
            return controller is not None and wanted in (None, controller)

        await_true(f"controller {'of any id' if wanted is None else wanted}", found, START_TIMEOUT_S)
