"""Nodes: machines of a run, whatever they are made of. One protocol; `local`, `docker` and `ssh` implement it.

A node is a Linux machine with an address that the other nodes and the harness reach. What a fault does to a node,
it does through this protocol only, so every fault works on every kind. Paths are paths on the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of a command: stdout and stderr decoded as UTF-8 with replacement."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class CommandFailed(Exception):
    """A command on a node exited non-zero or did not end in time; the text names node, argv, code and stderr."""


@dataclass(frozen=True, slots=True)
class DaemonSpec:
    """A long-running process of a node. stdout and stderr are appended to `<node.root>/logs/<name>.log`."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None


class Node(Protocol):
    """One machine. All calls block; calls on different nodes may run in parallel threads."""

    name: str
    address: str
    root: str
    """Folder on the node that belongs to this run; removed at the end."""

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        """Run a command as root of the node, in the node's network and process view. No shell."""
        ...

    def start(self, spec: DaemonSpec) -> None:
        """Start a daemon that outlives this call; refuses when one of that name is alive."""
        ...

    def pid(self, name: str) -> int | None:
        """The daemon's pid as seen from `run`, or None when it is not running."""
        ...

    def signal(self, name: str, signal_number: int) -> None:
        """Signal a daemon's main process (by pid, with its start time checked, never by name pattern)."""
        ...

    def wait_gone(self, name: str, timeout_s: float) -> bool:
        """True once the daemon is gone."""
        ...

    def put(self, local: Path, remote: str) -> None:
        """Copy a file or a folder to the node."""
        ...

    def get(self, remote: str, local: Path) -> None:
        """Copy a file or a folder from the node."""
        ...

    def write_text(self, remote: str, text: str) -> None:
        """Replace a file's content in one step, folders on the way included."""
        ...

    def read_text(self, remote: str) -> str:
        """A file's content, as UTF-8. Raises CommandFailed when it is not there."""
        ...

    def exists(self, remote: str) -> bool:
        """Whether there is a file or folder of that path."""
        ...

    @property
    def python(self) -> str:
        """A Python 3.11+ on the node that can run the broker (its dependencies are there)."""
        ...

    @property
    def java(self) -> str:
        """A Java on the node that can run ZooKeeper."""
        ...

    @property
    def broker_path(self) -> str:
        """For PYTHONPATH on the node: the `broker` package of the system's source, if it has one, and its
        dependencies.
        """
        ...

    @property
    def zookeeper_classpath(self) -> str:
        """The jars of a ZooKeeper server on the node, by colons."""
        ...

    @property
    def faketime_library(self) -> str | None:
        """Path of a libfaketime that leaves the monotonic clock alone, or None."""
        ...


class NodeSet(Protocol):
    """The nodes of a run. `open` makes them, `close` leaves nothing behind; both are idempotent.

    Before anything is made, what `highwater heal` would have to remove is written to a manifest.
    """

    nodes: Mapping[str, Node]

    def open(self) -> None:
        """Make the nodes and put the broker's code on them. Raises CommandFailed, RuntimeError."""
        ...

    def close(self) -> None:
        """End what still runs on the nodes and remove them."""
        ...
