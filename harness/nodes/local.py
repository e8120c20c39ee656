"""Local nodes: a network namespace each, on one bridge, inside the run's sandbox.

Decides: addresses, links, and how a command enters a node. Must not know: what runs there. Needs `harness.sandbox`:
the kernel removes namespaces, links, rules and daemons when the sandbox ends, so only folders are left to a crash.

Nodes share the sandbox's process view and file system; each has its own address, interfaces and firewall.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes.base import CommandFailed, Completed, Node
from harness.nodes.manifest import Manifest
from harness.nodes.payload import Payload
from harness.nodes.posix import CLEAN_PATH, PosixNode, failed, timed_out
from harness.nodes.topology import HARNESS_ADDRESS, PREFIX_LENGTH, Place
from harness.sandbox import inside_sandbox, outer_process

BRIDGE = "hw0"
NETNS_FOLDER = "/run/netns"


class LocalNode(PosixNode):
    """A network namespace on the bridge."""

    def __init__(self, place: Place, root: Path, payload: Payload) -> None:
        super().__init__(place.name, place.address, str(root))
        self._payload = payload
        # Some Pythons find their own library only so.
        kept = ("LD_LIBRARY_PATH",)
        self.daemon_environment = {key: os.environ[key] for key in kept if key in os.environ}

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        try:
            done = subprocess.run(
                ["nsenter", f"--net={NETNS_FOLDER}/{self.name}", "--", *argv],
                capture_output=True,
                input=None if input_text is None else input_text.encode(),
                stdin=subprocess.DEVNULL if input_text is None else None,
                env=_environment(),
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise timed_out(self.name, argv, timeout_s) from error
        completed = Completed(
            tuple(argv), done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if check and completed.returncode != 0:
            raise failed(self.name, completed)
        return completed

    def put(self, local: Path, remote: str) -> None:
        _copy(local, Path(remote))

    def get(self, remote: str, local: Path) -> None:
        _copy(Path(remote), local)

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def java(self) -> str:
        return str(self._payload.java().executable)

    @property
    def broker_path(self) -> str:
        return str(self._payload.broker_folder)

    @property
    def zookeeper_classpath(self) -> str:
        return ":".join(str(jar) for jar in self._payload.zookeeper_jars())

    @property
    def faketime_library(self) -> str | None:
        library = self._payload.faketime_library()
        return None if library is None else str(library)


class LocalNodeSet:
    """Nodes as network namespaces of this sandbox."""

    def __init__(self, places: Sequence[Place], run_dir: Path, source: Path) -> None:
        self._places = tuple(places)
        self._folder = run_dir / "nodes"
        self._payload = Payload(source, self._folder / "payload")
        self._locals = {place.name: LocalNode(place, self._folder / place.name, self._payload) for place in places}
        self.nodes: Mapping[str, Node] = self._locals
        self._manifest = Manifest("local", run_dir, [str(self._folder)], owner=outer_process())

    def open(self) -> None:
        if self._manifest.exists():
            return
        if not inside_sandbox():
            raise RuntimeError(
                "local nodes live in a sandbox: start the run through harness.sandbox.reexec_in_sandbox()"
            )
        self._manifest.write()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._payload.copy_broker()
        make_bridge()
        for place in self._places:
            make_namespace(place)
            Path(self._locals[place.name].root, "logs").mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        if not self._manifest.exists():
            return
        for node in self._locals.values():
            if Path(node.root).exists():
                node.kill_daemons()
        remove_links([place.name for place in self._places])
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manifest.remove()


def make_bridge() -> None:
    """The switch that the nodes hang on; the harness has an address on it."""
    _ip("link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    _ip("addr", "add", f"{HARNESS_ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def make_namespace(place: Place) -> None:
    """A network namespace with its address, linked to the bridge by a veth pair."""
    outside = f"hw-{place.name}"
    _ip("netns", "add", place.name)
    _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", place.name)
    _ip("link", "set", outside, "master", BRIDGE, "up")
    _ip("-n", place.name, "link", "set", "lo", "up")
    _ip("-n", place.name, "addr", "add", f"{place.address}/{PREFIX_LENGTH}", "dev", "eth0")
    _ip("-n", place.name, "link", "set", "eth0", "up")


def remove_links(names: Sequence[str]) -> None:
    """Take namespaces and bridge away again, as far as they exist."""
    for name in names:
        if Path(NETNS_FOLDER, name).exists():
            _ip("netns", "del", name)
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False, env=_environment())


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, env=_environment(), check=False)
    except FileNotFoundError as error:
        raise CommandFailed("the command `ip` is missing: apt-get install iproute2") from error
    if done.returncode != 0:
        raise CommandFailed(f"ip {' '.join(arguments)} exited {done.returncode}: {done.stderr.strip()}")


def _environment() -> dict[str, str]:
    """What commands of a node see: an ordinary user's PATH lacks sbin, where ip and iptables are."""
    kept = {key: os.environ[key] for key in ("HOME", "LD_LIBRARY_PATH") if key in os.environ}
    return {"PATH": CLEAN_PATH, "LANG": "C.UTF-8", **kept}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
