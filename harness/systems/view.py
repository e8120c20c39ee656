"""The cluster as the nemesis sees it: nodes by name, roles by ZooKeeper, processes by the system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.nodes.base import Node
from harness.systems.coordination import Coordination
from harness.systems.zookeeper import DAEMON as ZOOKEEPER


class SystemView:
    """Implements `nemesis.base.ClusterView` for any system whose broker id k runs on node `nk`."""

    def __init__(
        self,
        brokers: Sequence[Node],
        zookeepers: Sequence[Node],
        coordination: Coordination,
        topic: str,
        partitions: int,
        *,
        replication_factor: int,
        copies_acknowledged: int,
        broker_daemon: str,
        restart: Callable[[str], None],
        expect_down: Callable[[str], None],
        crashed: Callable[[], Sequence[tuple[str, str]]],
        event_log: Callable[[str], str],
        clock_files: Mapping[str, str],
    ) -> None:
        self.broker_nodes: Sequence[Node] = tuple(brokers)
        self.zookeeper_nodes: Sequence[Node] = tuple(zookeepers)
        self._by_name = {node.name: node for node in [*brokers, *zookeepers]}
        self._coordination = coordination
        self._topic = topic
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._copies_acknowledged = copies_acknowledged
        self._broker_daemon = broker_daemon
        self._restart = restart
        self._expect_down = expect_down
        self._crashed = crashed
        self._event_log = event_log
        self._clock_files = clock_files

    def node(self, name: str) -> Node:
        return self._by_name[name]

    def leader(self, partition: int) -> str | None:
        state = self._coordination.partition(self._topic, partition)
        return None if state is None or state.leader is None else node_name(state.leader)

    def isr(self, partition: int) -> Sequence[str]:
        state = self._coordination.partition(self._topic, partition)
        return () if state is None else tuple(node_name(broker) for broker in state.isr)

    def controller(self) -> str | None:
        broker = self._coordination.controller()
        return None if broker is None else node_name(broker)

    def partitions(self) -> int:
        return self._partitions

    def replication_factor(self) -> int:
        return self._replication_factor

    def copies_acknowledged(self) -> int:
        return self._copies_acknowledged

    def expect_down(self, node: str) -> None:
        self._expect_down(node)

    def restart_broker(self, node: str) -> None:
        self._restart(node)

    def crashed(self) -> Sequence[tuple[str, str]]:
        return self._crashed()

    def daemon(self, node: str) -> str:
        return ZOOKEEPER if self._by_name[node] in self.zookeeper_nodes else self._broker_daemon

    def event_log(self, node: str) -> str:
        return self._event_log(node)

    def data_folder(self, node: str) -> str:
        return f"{self._by_name[node].root}/data"

    def topic(self) -> str:
        return self._topic

    def clock_file(self, node: str) -> str | None:
        return self._clock_files.get(node)


def node_name(broker: int) -> str:
    """Name of the node on which a broker id runs."""
    return f"n{broker}"


def broker_id(node: str) -> int:
    """Broker id that runs on a node, by its name."""
    return int(node.removeprefix("n"))
