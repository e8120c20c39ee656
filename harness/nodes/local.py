"""Local nodes: a network namespace each, on one bridge, inside the run's sandbox.

Decides: addresses, links, and how a command enters a node. Must not know: what runs there. Needs
`harness.nodes.sandbox`: the kernel removes namespaces, links, rules and daemons when the sandbox ends, so only
folders are left to a crash.

Nodes share the sandbox's process view and file system; each has its own address, interfaces and firewall.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.nodes import netns
from harness.nodes.base import Completed, Node
from harness.nodes.compiled import check_compiled_modules
from harness.nodes.manifest import Manifest
from harness.nodes.payload import Payload
from harness.nodes.posix import PosixNode, failed, timed_out
from harness.nodes.sandbox import inside_sandbox, outer_process
from harness.nodes.topology import Place


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
        """Run a command in the node's network namespace."""
        try:
            done = subprocess.run(
                [*netns.enter(self.name), *argv],
                capture_output=True,
                input=None if input_text is None else input_text.encode(),
                stdin=subprocess.DEVNULL if input_text is None else None,
                env=netns.environment(),
                # As on any other machine; in the harness's folder `python -m broker…` would find the harness's broker.
                cwd="/",
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
        """Copy within this machine's file system."""
        _copy(local, Path(remote))

    def get(self, remote: str, local: Path) -> None:
        """Copy within this machine's file system."""
        _copy(Path(remote), local)

    @property
    def python(self) -> str:
        """The Python that the harness runs on."""
        return sys.executable

    @property
    def java(self) -> str:
        """The Java on this machine that runs ZooKeeper."""
        return str(self._payload.java().executable)

    @property
    def broker_path(self) -> str:
        """The run's own copy of the `broker` package, if the system's source has one."""
        return str(self._payload.broker_folder)

    @property
    def zookeeper_classpath(self) -> str:
        """ZooKeeper's jars on this machine, by colons."""
        return ":".join(str(jar) for jar in self._payload.zookeeper_jars())

    @property
    def faketime_library(self) -> str | None:
        """The library of the package libfaketime, or None."""
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
        """Make bridge and namespaces. Raises RuntimeError outside of a sandbox."""
        if self._manifest.exists():
            return
        if not inside_sandbox():
            raise RuntimeError(
                "local nodes live in a sandbox: start the run through harness.nodes.sandbox.reexec_in_sandbox()"
            )
        self._manifest.write()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._payload.copy_broker()
        netns.make_bridge()
        for place in self._places:
            netns.make_namespace(place)
            Path(self._locals[place.name].root, "logs").mkdir(parents=True, exist_ok=True)
        node = next(iter(self._locals.values()))
        for package in self._payload.packages():
            check_compiled_modules(node, node.python, package)

    def close(self) -> None:
        """Kill what still runs in the namespaces, and remove them."""
        if not self._manifest.exists():
            return
        for node in self._locals.values():
            if Path(node.root).exists():
                node.kill_daemons()
        netns.remove([place.name for place in self._places])
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manifest.remove()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
