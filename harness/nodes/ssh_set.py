"""The nodes of a run behind SSH: given hosts, or sshd nodes of the harness's own.

Decides: order of set-up and clean-up, and what the manifest says. Must not know: how a command travels (ssh), how
own nodes are made (sshd).
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from harness.nodes import disks, firewall
from harness.nodes.base import Node
from harness.nodes.manifest import Manifest
from harness.nodes.payload import Payload
from harness.nodes.sandbox import inside_sandbox, outer_process
from harness.nodes.ssh import HostRefused, SshHost, SshNode
from harness.nodes.sshd import OwnSshd
from harness.nodes.topology import Place

REMOTE_FOLDER = "/var/tmp/highwater"


class HostEntry(Protocol):
    """An entry of the run file's nodes.hosts."""

    @property
    def name(self) -> str:
        """The node that this host is: n1 … or zk1 …."""
        ...

    @property
    def host(self) -> str:
        """Name or address for SSH."""
        ...

    @property
    def user(self) -> str:
        """Root, or a user who may use sudo without a password."""
        ...

    @property
    def key(self) -> str | None:
        """Path of a private key; None for the agent's and the default ones."""
        ...

    @property
    def port(self) -> int:
        """SSH's port on that host."""
        ...


class SshNodeSet:
    """Machines that exist already: they get a folder, and keep nothing."""

    kind = "ssh"

    def __init__(self, hosts: Sequence[SshHost], run_dir: Path, source: Path) -> None:
        self._hosts = tuple(hosts)
        self._local_folder = run_dir / "nodes"
        self._payload = Payload(source, self._local_folder / "payload")
        self._manifest = Manifest(self.kind, run_dir, [str(self._local_folder)], owner=outer_process())
        self._ssh = {host.name: SshNode(host, f"{self._remote_folder()}/{host.name}") for host in hosts}
        self.nodes: Mapping[str, Node] = self._ssh

    def open(self) -> None:
        """Connect to every host and provision all of them at a time."""
        if self._manifest.exists():
            return
        details = [{**asdict(host), "root": self._ssh[host.name].root} for host in self._hosts]
        self._manifest.update({"hosts": details})
        self._payload.copy_broker()
        self._each(self._set_up)

    def close(self) -> None:
        """Kill daemons and remove the run's folder on every host."""
        if not self._manifest.exists():
            return
        self._each(clean)
        for node in self._ssh.values():
            node.disconnect()
        shutil.rmtree(self._local_folder, ignore_errors=True)
        self._manifest.remove()

    def _remote_folder(self) -> str:
        return f"{REMOTE_FOLDER}/{self._manifest.id}"

    def _set_up(self, node: SshNode) -> None:
        node.connect()
        node.run(["mkdir", "-p", f"{node.root}/logs"])
        node.provision.upload_broker(self._payload)

    def _each(self, action: Callable[[SshNode], None]) -> None:
        """Do it on all nodes at once; every node is tried before the first error is raised."""
        with ThreadPoolExecutor(max(1, len(self._ssh))) as pool:
            futures = [pool.submit(action, node) for node in self._ssh.values()]
        for future in futures:
            future.result()


class OwnSshNodeSet(SshNodeSet):
    """Nodes that the harness makes in its sandbox: a network namespace with an sshd each."""

    kind = "ssh-own"

    def __init__(self, places: Sequence[Place], run_dir: Path, source: Path) -> None:
        self._folder = run_dir / "nodes"
        self._sshd = OwnSshd(places, self._folder / "sshd")
        super().__init__(self._sshd.hosts, run_dir, source)

    def open(self) -> None:
        """Make namespaces with an sshd in each, then connect as to any host."""
        if self._manifest.exists():
            return
        if not inside_sandbox():
            raise RuntimeError(
                "ssh nodes without nodes.hosts live in a sandbox:"
                " start the run through harness.nodes.sandbox.reexec_in_sandbox()"
            )
        self._manifest.write()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._sshd.open()
        self._payload.copy_broker()
        self._each(self._set_up)

    def close(self) -> None:
        """Close the hosts, end the sshds, remove the namespaces."""
        if not self._manifest.exists():
            return
        for node in self._ssh.values():
            if Path(node.root).exists():
                node.kill_daemons()
            node.disconnect()
        self._sshd.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manifest.remove()

    def _remote_folder(self) -> str:
        return str(self._folder)


def clean(node: SshNode) -> None:
    """Remove all of a run from a node: daemons, firewall rules, disks, its folder. Used by `close` and by heal."""
    if node.exists(node.root):
        node.kill_daemons()
    if firewall.probe(node) is None:
        firewall.heal(node)
    disks.detach_below(node, node.root)
    # The run's folder goes with its last node; another node of the same machine may still use it.
    node.run(["rm", "-rf", node.root], timeout_s=120.0)
    run_folder = node.root.rpartition("/")[0]
    node.run(["sh", "-c", 'rmdir "$1" "$2" 2>/dev/null || true', "sh", run_folder, REMOTE_FOLDER])


def resolve_hosts(wanted: Sequence[str], entries: Sequence[HostEntry], known_hosts: Path | None) -> list[SshHost]:
    """The hosts of the wanted nodes; ValueError when one has no entry or two nodes share an address."""
    by_name = {entry.name: entry for entry in entries}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ValueError(f"nodes.hosts: no entry for {', '.join(missing)}")
    hosts = []
    for name in wanted:
        entry = by_name[name]
        try:
            address = socket.gethostbyname(entry.host)
        except OSError as error:
            raise HostRefused(f"nodes.hosts: {name}: cannot resolve {entry.host!r}: {error}") from error
        known = None if known_hosts is None else str(known_hosts)
        hosts.append(SshHost(name, entry.host, address, entry.user, entry.key, entry.port, known))
    by_address: dict[str, str] = {}
    for host in hosts:
        other = by_address.setdefault(host.address, host.name)
        if other != host.name:
            raise ValueError(f"nodes.hosts: {other} and {host.name} are both {host.address}; each node needs its own")
    return hosts
