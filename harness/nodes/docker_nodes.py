"""Docker nodes: a container each, on a private network with fixed addresses, through the Docker SDK.

Decides: how containers and their network are made, and how commands and files reach them. Must not know: which engine
is used (docker_engine), what is in the image (docker_image).
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import docker.errors
import docker.types

from harness.nodes import transfer
from harness.nodes.base import CommandFailed, Completed, Node
from harness.nodes.compiled import check_compiled_modules
from harness.nodes.docker_engine import EngineMissing, OwnEngine, can_start, connect
from harness.nodes.docker_exec import Commands, Ended
from harness.nodes.docker_image import NodeImage
from harness.nodes.manifest import Manifest
from harness.nodes.packages import require_imports
from harness.nodes.payload import Payload
from harness.nodes.posix import PosixNode, failed, timed_out
from harness.nodes.sandbox import outer_process
from harness.nodes.topology import PREFIX_LENGTH, Place, places

LABEL = "highwater.run"
ROOT = "/var/lib/highwater"
_NETWORKS = [f"10.77.{i}" for i in range(64)]
_PLAIN: Mapping[str, list[str]] = {"cap_add": ["NET_ADMIN", "SYS_PTRACE"]}
# Docker's profile of AppArmor forbids mounts to whoever may make them; 7 are the loop devices, 10:237 gives them out.
_MOUNTING: Mapping[str, list[str]] = {
    "cap_add": [*_PLAIN["cap_add"], "SYS_ADMIN"],
    "security_opt": ["apparmor=unconfined"],
    "device_cgroup_rules": ["b 7:* rwm", "c 10:237 rwm"],
}
# A shell as pid 1 reaps orphans while it waits for its own child.
_PID_1 = ["sh", "-c", "while :; do sleep 3600 & wait $!; done"]


class DockerNode(PosixNode):
    """A container."""

    def __init__(self, place: Place, image: NodeImage) -> None:
        super().__init__(place.name, place.address, ROOT)
        self._image = image
        self.container: Any = None
        self._commands = Commands(self._execute)

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        """Run a command in the container by the engine's exec."""
        command = ["timeout", "-k", "2", f"{timeout_s:g}", *argv]
        if input_text is not None:
            # The SDK cannot end a command's standard input; a file ends by itself.
            stdin = f"/tmp/stdin-{uuid.uuid4().hex}"
            with tempfile.NamedTemporaryFile() as handle:
                handle.write(input_text.encode())
                handle.flush()
                self.put(Path(handle.name), stdin)
            command = ["sh", "-c", 'exec < "$1"; rm "$1"; shift; exec "$@"', "sh", stdin, *command]
        began = time.monotonic()
        code, out, err = self._commands.run(command, f"node {self.name}: {shlex.join(argv)[:500]}")
        if code in (124, 137) and time.monotonic() - began >= timeout_s:
            raise timed_out(self.name, argv, timeout_s)
        done = Completed(tuple(argv), code, out.decode(errors="replace"), err.decode(errors="replace"))
        if check and done.returncode != 0:
            raise failed(self.name, done)
        return done

    def put(self, local: Path, remote: str) -> None:
        """Copy by an archive that the engine unpacks."""
        with tempfile.TemporaryFile() as archive:
            # The engine makes missing folders on the way.
            transfer.pack(local, remote, archive, whole_path=True)
            archive.seek(0)
            with _errors(self.name):
                self._existing().put_archive("/", archive)

    def get(self, remote: str, local: Path) -> None:
        """Copy by an archive that the engine packs."""
        with _errors(self.name):
            blocks, _ = self._existing().get_archive(remote.rstrip("/"), chunk_size=1 << 20)
            transfer.unpack(cast(IO[bytes], _Blocks(iter(blocks))), local)

    @property
    def python(self) -> str:
        """The image's own Python."""
        return "/usr/bin/python3"

    @property
    def java(self) -> str:
        """The Java that the image holds."""
        return self._image.java_path

    @property
    def broker_path(self) -> str:
        """The run's copy of the broker, and the image's packages."""
        return f"{self.root}/lib:{self._image.dependencies_path}"

    @property
    def zookeeper_classpath(self) -> str:
        """The jars that the image holds."""
        return self._image.zookeeper_classpath

    @property
    def faketime_library(self) -> str | None:
        """The library that the image holds, or None."""
        return self._image.faketime_path

    def _execute(self, command: Sequence[str]) -> Ended:
        with _errors(self.name):
            code, (out, err) = self._existing().exec_run(list(command), demux=True, user="root")
        return Ended(code, out or b"", err or b"")

    def _existing(self) -> Any:
        if self.container is None:
            raise CommandFailed(f"node {self.name}: its container is not there (not opened, or closed)")
        return self.container


class DockerNodeSet:
    """Nodes as containers of the engine that responds, or of one that the harness starts in its sandbox."""

    def __init__(self, brokers: int, zookeepers: int, run_dir: Path, source: Path, *, mounts: bool = False) -> None:
        """mounts: whether a node may mount disk images, for which its container gets more rights over the machine."""
        self._counts = (brokers, zookeepers)
        self._rights = _MOUNTING if mounts else _PLAIN
        self._folder = run_dir / "nodes"
        self._payload = Payload(source, self._folder / "payload")
        self._image = NodeImage()
        self._manifest = Manifest("docker", run_dir, [str(self._folder)], owner=outer_process())
        self._engine: OwnEngine | None = None
        self._client: Any = None
        self._network: Any = None
        self._containers = {place.name: DockerNode(place, self._image) for place in places(brokers, zookeepers)}
        self.nodes: Mapping[str, Node] = self._containers

    def open(self) -> None:
        """Start network and containers, all at once, and copy the broker's code to each."""
        if self._manifest.exists():
            return
        client = connect()
        if client is None:
            why_not = can_start()
            if why_not is not None:
                raise EngineMissing(why_not)
            self._engine = OwnEngine()
            self._manifest.update({"engine_folder": str(self._engine.claim())})
            client = self._engine.start()
            # The folder's former user may have died; nobody else uses this engine.
            remove_labelled(client, LABEL)
        else:
            self._manifest.update({"label": f"{LABEL}={self._manifest.id}"})
        self._client = client
        self._image.ensure(client)
        self._payload.copy_broker()
        self._make_network()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._set_up, self._containers.values()))

    def close(self) -> None:
        """Remove containers, network and, where the harness started one, the engine."""
        if not self._manifest.exists():
            return
        if self._client is not None:
            remove_labelled(self._client, f"{LABEL}={self._manifest.id}")
            self._client.close()
            self._client = None
        for node in self._containers.values():
            node.container = None
        if self._engine is not None:
            self._engine.stop()
            self._engine = None
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manifest.remove()

    def _make_network(self) -> None:
        """A bridge of the run's own, in the first of our address ranges that nothing else uses."""
        for prefix in _NETWORKS:
            pool = docker.types.IPAMPool(subnet=f"{prefix}.0/{PREFIX_LENGTH}", gateway=f"{prefix}.254")
            try:
                self._network = self._client.networks.create(
                    self._manifest.id,
                    driver="bridge",
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                    labels={LABEL: self._manifest.id},
                    options={"com.docker.network.bridge.enable_ip_masquerade": "false"},
                )
            except docker.errors.APIError as error:
                if "overlap" in str(error).lower():
                    continue
                raise CommandFailed(f"the engine makes no network: {error}") from error
            for place in places(*self._counts, network=prefix):
                self._containers[place.name].address = place.address
            return
        raise CommandFailed(f"no free network among {_NETWORKS[0]}.0/{PREFIX_LENGTH} … {_NETWORKS[-1]}.0")

    def _set_up(self, node: DockerNode) -> None:
        endpoint = self._client.api.create_endpoint_config(ipv4_address=node.address)
        host = self._client.api.create_host_config(network_mode=self._network.name, **self._rights)
        with _errors(node.name):
            made = self._client.api.create_container(
                self._image.tag,
                _PID_1,
                name=f"{self._manifest.id}-{node.name}",
                hostname=node.name,
                labels={LABEL: self._manifest.id},
                host_config=host,
                networking_config=self._client.api.create_networking_config({self._network.name: endpoint}),
            )
            container = self._client.containers.get(made["Id"])
            container.start()
        node.container = container
        node.run(["mkdir", "-p", f"{ROOT}/logs"])
        for package in self._payload.packages():
            check_compiled_modules(node, node.python, package)
            node.put(package, f"{ROOT}/lib/{package.name}")
        require_imports(node, node.python, node.broker_path, self._payload.importable())


def remove_labelled(client: Any, label: str) -> list[str]:
    """Remove containers, then networks, with a label; returns their names."""
    removed = []
    for container in client.containers.list(all=True, filters={"label": label}):
        container.remove(force=True, v=True)
        removed.append(f"container {container.name}")
    for network in client.networks.list(filters={"label": label}):
        network.remove()
        removed.append(f"network {network.name}")
    return removed


@contextmanager
def _errors(node: str) -> Iterator[None]:
    try:
        yield
    except (docker.errors.DockerException, OSError) as error:
        raise CommandFailed(f"node {node}: the Docker engine reports: {error}") from error


class _Blocks:
    """An iterator of byte blocks as tarfile's stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def read(self, size: int) -> bytes:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._rest = block
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
