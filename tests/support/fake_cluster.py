"""A cluster in memory: nodes whose processes, clocks and links are values, and a history that is a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import CommandFailed, Completed, DaemonSpec


class FakeNode:
    """A node with one daemon whose /proc state is a letter."""

    python = "python"
    java = "java"
    broker_path = "/broker"
    zookeeper_classpath = "zk.jar"
    faketime_library: str | None = "/libfaketime.so"

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address, self.root = name, address, f"/{name}"
        self.state: str | None = "S"
        self.signals: list[int] = []
        self.files: dict[str, str] = {}
        self.broken = False
        self.last_event = '{"e":"stop"}'

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        if self.broken:
            raise CommandFailed(f"node {self.name}: unreachable")
        if argv[0] == "tail":
            return Completed(tuple(argv), 0, self.last_event, "")
        return Completed(tuple(argv), 0, f"1 (a name) with) {self.state} 0", "")

    def start(self, spec: DaemonSpec) -> None:
        self.state = "S"

    def pid(self, name: str) -> int | None:
        return None if self.state is None else 100

    def signal(self, name: str, signal_number: int) -> None:
        if self.broken:
            raise CommandFailed(f"node {self.name}: unreachable")
        self.signals.append(signal_number)
        self.state = {9: None, 15: None, 19: "T", 18: "S"}[signal_number]

    def wait_gone(self, name: str, timeout_s: float) -> bool:
        return self.state is None

    def put(self, local: Path, remote: str) -> None: ...

    def get(self, remote: str, local: Path) -> None: ...

    def write_text(self, remote: str, text: str) -> None:
        self.files[remote] = text

    def read_text(self, remote: str) -> str:
        return self.files[remote]

    def exists(self, remote: str) -> bool:
        return remote in self.files


class FakeView:
    """Three brokers and a ZooKeeper; n2 leads partition 0, n1 is the controller, n3 coordinates groups."""

    def __init__(self) -> None:
        self.brokers = [FakeNode(f"n{i}", f"10.0.0.{i}") for i in (1, 2, 3)]
        self.zookeepers = [FakeNode("zk1", "10.0.0.9")]
        self.leaders: dict[int, str | None] = {0: "n2", 1: None}
        self.isrs: dict[int, Sequence[str]] = {0: ("n2", "n1", "n3"), 1: ()}
        self.controller_name: str | None = "n1"
        self.coordinators: dict[str, dict[int, str | None]] = {"group": {3: None, 7: "n3"}, "transaction": {}}
        self.expected_down: set[str] = set()
        self.crashes: list[tuple[str, str]] = []
        self.replicas, self.copies = 3, 2

    @property
    def broker_nodes(self) -> Sequence[FakeNode]:
        return self.brokers

    @property
    def zookeeper_nodes(self) -> Sequence[FakeNode]:
        return self.zookeepers

    def node(self, name: str) -> FakeNode:
        return next(node for node in [*self.brokers, *self.zookeepers] if node.name == name)

    def leader(self, partition: int) -> str | None:
        return self.leaders.get(partition)

    def isr(self, partition: int) -> Sequence[str]:
        return self.isrs.get(partition, ())

    def controller(self) -> str | None:
        return self.controller_name

    def coordinating(self, kind: str) -> Sequence[int]:
        return list(self.coordinators[kind])

    def coordinator(self, kind: str, partition: int) -> str | None:
        return self.coordinators[kind][partition]

    def partitions(self) -> int:
        return len(self.leaders)

    def replication_factor(self) -> int:
        return self.replicas

    def copies_acknowledged(self) -> int:
        return self.copies

    def expect_down(self, node: str) -> None:
        self.expected_down.add(node)

    def restart_broker(self, node: str) -> None:
        if self.node(node).state is None:
            self.node(node).state = "S"
        self.expected_down.discard(node)

    def crashed(self) -> Sequence[tuple[str, str]]:
        crashes, self.crashes = self.crashes, []
        return crashes

    def daemon(self, node: str) -> str:
        return "zookeeper" if node.startswith("zk") else "broker"

    def listener(self, node: str) -> tuple[str, int] | None:
        return self.node(node).address, 9092

    def event_log(self, node: str) -> str:
        return f"/{node}/events.jsonl"

    def data_folder(self, node: str) -> str:
        return f"/{node}/data"

    def topic(self) -> str:
        return "hw"

    def clock_file(self, node: str) -> str | None:
        return f"/{node}/faketime"


class Lines:
    """A recorder that keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def nemesis(
        self,
        f: str,
        *,
        fault: str,
        fault_id: int,
        targets: list[str],
        params: Mapping[str, object],
        observed: bool,
        observation: str,
        error: str | None = None,
        began_ns: int | None = None,
        file: str | None = None,
        family: str | None = None,
        effects: Sequence[str] = (),
    ) -> None:
        self.lines.append(
            {
                "f": f,
                "fault": fault,
                "fault_id": fault_id,
                "targets": targets,
                "params": dict(params),
                "observed": observed,
                "observation": observation,
                "error": error,
                "family": family,
                "effects": list(effects),
                **({} if file is None else {"file": file}),
            }
        )

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None:
        self.lines.append({"f": f, "error": error, **fields})

    def brief(self) -> list[tuple[object, object, object]]:
        return [(line["f"], line.get("fault"), line.get("targets")) for line in self.lines]


class Time:
    """A clock that stands still but for what is waited, and an event that is set when `end_s` has come."""

    def __init__(self, end_s: float = float("inf")) -> None:
        self.now_s = 0.0
        self.end_s = end_s

    def __call__(self) -> float:
        return self.now_s

    def is_set(self) -> bool:
        return self.now_s >= self.end_s

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "nobody may wait for ever"
        self.now_s = min(self.end_s, self.now_s + timeout)
        return self.is_set()
