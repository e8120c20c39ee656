"""The nodes of a run by their kind: `enter_sandbox` first, then `make_nodes`.

Decides: which class a kind means. Must not know: how a kind works, what runs on the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.nodes.base import NodeSet
from harness.nodes.sandbox import inside_sandbox, reexec_in_sandbox
from harness.nodes.topology import places

if TYPE_CHECKING:
    from harness.nodes.ssh_set import HostEntry

KINDS = ("local", "docker", "ssh")


def needs_sandbox(kind: str, hosts: Sequence[HostEntry] = ()) -> bool:
    """True when such nodes live in the run's sandbox: the kernel removes them however the run ends."""
    match kind:
        case "local":
            return True
        case "ssh":
            return not hosts
        case "docker":
            from harness.nodes.docker_engine import connect

            client = connect()
            if client is not None:
                client.close()
            return client is None
        case _:
            raise ValueError(f"nodes.kind = {kind!r}: must be one of {', '.join(KINDS)}")


def enter_sandbox(
    kind: str, hosts: Sequence[HostEntry] = (), argv: Sequence[str] | None = None, *, hold_interrupt: bool = False
) -> None:
    """Start this process again inside a sandbox when its nodes need one; returns when they do not, or when inside.

    Call it first thing in a run. What needs the network outside (the image of docker nodes) is fetched before.
    argv: the command; by default this process's own. hold_interrupt: as of `sandbox.reexec_in_sandbox`.
    """
    if inside_sandbox() or not needs_sandbox(kind, hosts):
        return
    if kind == "docker":
        from harness.nodes.docker_engine import EngineMissing, can_start
        from harness.nodes.docker_image import NodeImage

        why_not = can_start()
        if why_not is not None:
            raise EngineMissing(why_not)
        NodeImage().build_rootfs()
    reexec_in_sandbox(argv, hold_interrupt=hold_interrupt)


def make_nodes(
    kind: str,
    brokers: int,
    zookeepers: int,
    *,
    run_dir: Path,
    source: Path,
    hosts: Sequence[HostEntry] = (),
    known_hosts: Path | None = None,
    mounts: bool = False,
) -> NodeSet:
    """The nodes n1 … and zk1 …, not yet opened.

    run_dir: the run's own folder, exists. source: a package `broker` in it, if there is one, is copied to every node.
    hosts, known_hosts: as in the run file's [nodes], for kind ssh; without hosts the harness makes its own sshd nodes.
    mounts: whether nodes are to mount disk images (`disks`), which containers may not otherwise. ValueError names a
    value that is wrong.
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
    if kind == "docker":
        from harness.nodes.docker_nodes import DockerNodeSet

        return DockerNodeSet(brokers, zookeepers, run_dir.resolve(), source.resolve(), mounts=mounts)
    raise ValueError(f"nodes.kind = {kind!r}: must be one of {', '.join(KINDS)}")
