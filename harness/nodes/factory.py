"""`make_nodes`: the nodes of a run by their kind.

Decides: which class a kind means. Must not know: how a kind works, what runs on the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.nodes.base import NodeSet
from harness.nodes.topology import places

if TYPE_CHECKING:
    from harness.nodes.ssh_set import HostEntry

KINDS = ("local", "docker", "ssh")


def needs_sandbox(kind: str, hosts: Sequence[HostEntry] | None = None) -> bool:
    """True when the run must start itself again by `harness.sandbox.reexec_in_sandbox` before it makes its nodes."""
    return kind == "local" or (kind == "ssh" and not hosts)


def make_nodes(
    kind: str,
    brokers: int,
    zookeepers: int,
    *,
    run_dir: Path,
    source: Path,
    hosts: Sequence[HostEntry] | None = None,
    known_hosts: Path | None = None,
) -> NodeSet:
    """The nodes n1 … and zk1 …, not yet opened.

    run_dir: the run's own folder, exists. source: holds the package `broker`. hosts, known_hosts: as in the run file's
    [nodes], for kind ssh; without hosts the harness makes its own sshd nodes. ValueError names a value that is wrong.
    """
    wanted = places(brokers, zookeepers)
    if kind == "local":
        from harness.nodes.local import LocalNodeSet

        return LocalNodeSet(wanted, run_dir.resolve(), source.resolve())
    if kind == "ssh":
        from harness.nodes.ssh_set import OwnSshNodeSet, SshNodeSet, resolve_hosts

        if not hosts:
            return OwnSshNodeSet(wanted, run_dir.resolve(), source.resolve())
        resolved = resolve_hosts([place.name for place in wanted], hosts, known_hosts)
        return SshNodeSet(resolved, run_dir.resolve(), source.resolve())
    raise ValueError(f"nodes.kind = {kind!r}: must be one of {', '.join(KINDS)}")
