"""A view of nodes on which no system runs: enough to probe which faults these nodes can do."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nodes.base import Node
from nemesis.base import BROKER

_PORT = 9092


class BareView:
    """Implements `ClusterView` for nodes without leaders, controller or processes."""

    def __init__(self, brokers: Sequence[Node], zookeepers: Sequence[Node] = ()) -> None:
        """brokers: at least one. zookeepers: none where no ZooKeeper is the run's own."""
        self.broker_nodes: Sequence[Node] = tuple(brokers)
        self.zookeeper_nodes: Sequence[Node] = tuple(zookeepers)

    def node(self, name: str) -> Node:
        return next(node for node in [*self.broker_nodes, *self.zookeeper_nodes] if node.name == name)

    def leader(self, partition: int) -> str | None:
        return None

    def isr(self, partition: int) -> Sequence[str]:
        return ()

    def controller(self) -> str | None:
        return None

    def coordinating(self, kind: str) -> Sequence[int]:
        return ()

    def coordinator(self, kind: str, partition: int) -> str | None:
        return None

    def partitions(self) -> int:
        return 0

    def replication_factor(self) -> int:
        """As a run of these nodes can have it."""
        return len(self.broker_nodes)

    def copies_acknowledged(self) -> int:
        return len(self.broker_nodes)

    def expect_down(self, node: str) -> None: ...

    def restart_broker(self, node: str) -> None: ...

    def crashed(self) -> Sequence[tuple[str, str]]:
        return ()

    def daemon(self, node: str) -> str:
        return "zookeeper" if any(node == one.name for one in self.zookeeper_nodes) else BROKER

    def listener(self, node: str) -> tuple[str, int] | None:
        """As a system's brokers have it; nobody listens here."""
        return self.node(node).address, _PORT

    def event_log(self, node: str) -> str:
        return f"{self.node(node).root}/events.jsonl"

    def data_folder(self, node: str) -> str:
        return f"{self.node(node).root}/data"

    def topic(self) -> str:
        return "hw"

    def clock_file(self, node: str) -> str | None:
        one = self.node(node)
        return None if one.faketime_library is None else f"{one.root}/faketime"
