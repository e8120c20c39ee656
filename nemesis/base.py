"""The nemesis's contract: what a fault is, and what it may know of the cluster it hurts.

A fault changes something outside the broker and the harness, reports what it saw of its own effect from outside, and
takes the change back. It knows nodes and the view below, nothing of clients or checkers. A `Family` is what a plug-in
brings: one file, one line of registration (`nemesis.catalogue`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Protocol

from harness.nodes.base import Node
from nemesis.kinds import FaultKind

BROKER = "broker"
"""Name of the daemon that is the broker, on every broker node."""

NOTHING_WANTED: Mapping[str, object] = {}


class Unavailable(Exception):
    """This fault cannot be done here and now; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen from outside: `seen` is the evidence that the effect (or its end) is there; `text` says how.

    file: the one that was damaged, as a path below the broker's data folder.
    """

    seen: bool
    text: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault as drawn from the seed, before it is applied. params are JSON values."""

    fault: str
    targets: tuple[str, ...]
    params: Mapping[str, object] = field(default_factory=dict)


class ClusterView(Protocol):
    """What targets are chosen from. Reads may be stale or fail (None); a fault then picks by the seed among all."""

    @property
    def broker_nodes(self) -> Sequence[Node]:
        """The nodes of the run's brokers, n1 first."""
        ...

    @property
    def zookeeper_nodes(self) -> Sequence[Node]:
        """The nodes of the run's own ZooKeeper servers; none where the ensemble is somebody else's."""
        ...

    def node(self, name: str) -> Node:
        """The node of that name, broker's or ZooKeeper's."""
        ...

    def leader(self, partition: int) -> str | None:
        """Name of the node that leads the partition of the run's topic, now, as ZooKeeper says."""
        ...

    def isr(self, partition: int) -> Sequence[str]:
        """Names of the nodes in the ISR of the partition of the run's topic; empty where it is not known."""
        ...

    def controller(self) -> str | None:
        """Name of the node whose broker is the controller, now, as ZooKeeper says."""
        ...

    def coordinating(self, kind: str) -> Sequence[int]:
        """Partitions whose leaders coordinate the run's groups (`group`) or transactional ids (`transaction`); empty
        where that is not known.
        """
        ...

    def coordinator(self, kind: str, partition: int) -> str | None:
        """Name of the node that coordinates by that partition, now, as ZooKeeper says."""
        ...

    def partitions(self) -> int:
        """How many partitions the run's topic has; they are numbered from 0."""
        ...

    def replication_factor(self) -> int:
        """Of the run's topic."""
        ...

    def copies_acknowledged(self) -> int:
        """How many replicas surely hold a record of the load once it is acknowledged."""
        ...

    def expect_down(self, node: str) -> None:
        """The daemon of that node is about to be killed or stopped on purpose, until `restart_broker`."""
        ...

    def restart_broker(self, node: str) -> None:
        """Start the broker process of a node that was killed or stopped, with the clock settings in force there.

        Returns once it responds; does nothing when it is alive. Raises TimeoutError when it does not respond.
        """
        ...

    def crashed(self) -> Sequence[tuple[str, str]]:
        """(node, log tail) of daemons that ended though nobody was to end them, since the last call."""
        ...

    def daemon(self, node: str) -> str:
        """Name of the system's daemon on that node (`broker`, `zookeeper`)."""
        ...

    def listener(self, node: str) -> tuple[str, int] | None:
        """Host and port at which that node's broker takes Kafka requests of the harness; None where it takes none."""
        ...

    def event_log(self, node: str) -> str:
        """Path on the node of its broker's event log."""
        ...

    def data_folder(self, node: str) -> str:
        """Path on the node of the folder in which its broker keeps logs and checkpoints."""
        ...

    def topic(self) -> str:
        """Name of the run's topic."""
        ...

    def clock_file(self, node: str) -> str | None:
        """libfaketime's control file for that node's broker; None when clock faults are unavailable."""
        ...


class Fault(Protocol):
    """One kind of fault in one run. Instances keep what they need to take the effect back; `stop` is idempotent."""

    @property
    def kind(self) -> FaultKind:
        """The fault's description, without carrying it out."""
        ...

    def probe(self, view: ClusterView) -> str | None:
        """None when every node of the run can do it, else what is missing and how to get it."""
        ...

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        """Choose targets and parameters. target: one of the run file's selectors; wanted: parameters already fixed.

        Raises Unavailable when the fault drawn would have no effect in this run.
        """
        ...

    def claims(self, injection: Injection) -> frozenset[str]:
        """What this injection needs for itself while it is active; two active ones never share a claim.

        By convention `process:<node>`, `clock:<node>`, `network`, `files`.
        """
        ...

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        """Apply the fault, and return what was seen of its effect. An error is recorded, and `stop` is called all the
        same.
        """
        ...

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Take the fault back, and return what was seen of its end."""
        ...


class Heal(Enum):
    """When a family's faults are taken back at the end of a run: a broker starts only when it reaches ZooKeeper, and
    shows its clock only when it runs.
    """

    FIRST = 0
    BETWEEN = 1
    LAST = 2


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds of faults that hurt the same thing in the same way.

    make: fresh instances of all its kinds, for one run; they may share state. sweep: takes back whatever of this
    family is in force on any node, whoever caused it; None where stopping the faults and starting the daemons is all.
    """

    name: str
    make: Callable[[], Iterable[Fault]]
    sweep: Callable[[ClusterView], None] | None = None
    heal: Heal = Heal.BETWEEN
