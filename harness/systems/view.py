"""The cluster as the nemesis sees it: nodes by name, roles as the cluster records them, daemons by the system."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from harness.nodes.base import Node
from harness.systems.coordination import PartitionState
from harness.systems.coordinators import TOPICS, partitions_of
from harness.systems.zookeeper import DAEMON as ZOOKEEPER


class Roles(Protocol):
    """Who leads and who controls, now; None where that is not known in time. `Coordination` reads it from ZooKeeper."""

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """Leader and ISR of a partition, by broker id."""
        ...

    def controller(self) -> int | None:
        """Id of the broker that is the controller."""
        ...

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 where it is not there, or that is not known in time."""
        ...


class SystemView:
    """Implements `nemesis.base.ClusterView` for any system whose broker id k runs on node `nk`.

    broker_daemon: name of the daemon on broker nodes. restart, expect_down, crashed, event_log: as the methods of the
    view. clock_files: node → libfaketime's control file, of the nodes whose broker runs under libfaketime.
    port: at which brokers take Kafka requests of the harness; None where they take none.
    """

    def __init__(
        self,
        brokers: Sequence[Node],
        zookeepers: Sequence[Node],
        roles: Roles,
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
        port: int | None = None,
    ) -> None:
        self.broker_nodes: Sequence[Node] = tuple(brokers)
        self.zookeeper_nodes: Sequence[Node] = tuple(zookeepers)
        self._by_name = {node.name: node for node in [*brokers, *zookeepers]}
        self._roles = roles
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
        self._port = port
        self.coordinated: Callable[[str], Collection[str]] = lambda kind: ()
        """Groups (`group`) or transactional ids (`transaction`) of the run, as the workload names them."""

    def node(self, name: str) -> Node:
        """The node of that name, broker or ZooKeeper. Raises KeyError."""
        return self._by_name[name]

    def leader(self, partition: int) -> str | None:
        """Name of the node that leads the partition, or None."""
        state = self._roles.partition(self._topic, partition)
        return None if state is None or state.leader is None else node_name(state.leader)

    def isr(self, partition: int) -> Sequence[str]:
        """Names of the nodes in the partition's ISR; empty where it is not known."""
        state = self._roles.partition(self._topic, partition)
        return () if state is None else tuple(node_name(broker) for broker in state.isr)

    def controller(self) -> str | None:
        """Name of the controller's node, or None."""
        broker = self._roles.controller()
        return None if broker is None else node_name(broker)

    def coordinating(self, kind: str) -> Sequence[int]:
        """Partitions of the internal topic whose leaders coordinate what the run uses of that kind; all where the
        workload names nothing, none where the topic is not there, or ZooKeeper does not say.
        """
        return partitions_of(self.coordinated(kind), self._roles.partition_count(TOPICS[kind]))

    def coordinator(self, kind: str, partition: int) -> str | None:
        """Name of the node that leads that partition of the kind's internal topic, or None."""
        state = self._roles.partition(TOPICS[kind], partition)
        return None if state is None or state.leader is None else node_name(state.leader)

    def partitions(self) -> int:
        """How many partitions the run's topic has."""
        return self._partitions

    def replication_factor(self) -> int:
        """Of the run's topic."""
        return self._replication_factor

    def copies_acknowledged(self) -> int:
        """How many replicas surely hold a record of the load once it is acknowledged."""
        return self._copies_acknowledged

    def expect_down(self, node: str) -> None:
        """The node's daemon is about to end on purpose: no crash until it is started again."""
        self._expect_down(node)

    def restart_broker(self, node: str) -> None:
        """Start the node's daemon and wait until it responds; does nothing when it is alive."""
        self._restart(node)

    def crashed(self) -> Sequence[tuple[str, str]]:
        """(node, log tail) of daemons that ended though nobody was to end them; each is reported once."""
        return self._crashed()

    def daemon(self, node: str) -> str:
        """Name of the daemon on that node."""
        return ZOOKEEPER if self._by_name[node] in self.zookeeper_nodes else self._broker_daemon

    def listener(self, node: str) -> tuple[str, int] | None:
        """Host and port of that node's broker; None where it takes no Kafka requests."""
        return None if self._port is None else (self._by_name[node].address, self._port)

    def event_log(self, node: str) -> str:
        """Path on the node of its broker's event log."""
        return self._event_log(node)

    def data_folder(self, node: str) -> str:
        """Path on the node of the folder with its broker's logs and checkpoints."""
        return f"{self._by_name[node].root}/data"

    def topic(self) -> str:
        """Name of the run's topic."""
        return self._topic

    def clock_file(self, node: str) -> str | None:
        """libfaketime's control file of that node's broker; None where clock faults are unavailable."""
        return self._clock_files.get(node)


def node_name(broker: int) -> str:
    """Name of the node on which a broker id runs."""
    return f"n{broker}"


def broker_id(node: str) -> int:
    """Broker id that runs on a node, by its name."""
    return int(node.removeprefix("n"))
