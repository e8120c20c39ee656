"""A Docker engine for a run: the one that responds, or one of our own inside the sandbox.

Decides: which engine, and how our own is started. Must not know: images, containers. Our own engine needs root and
lives in the sandbox: its network, mounts and processes end with the run, and it never touches the host's firewall.
Only its data folder stays, with the image in it; a folder is used by one run at a time (the kernel drops the lock when
its holder ends).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, Any

import docker
import docker.errors

from harness.nodes.posix import CLEAN_PATH
from harness.nodes.sandbox import inside_sandbox
from harness.tools.java import cache_folder

_UNIX = "unix://"
_DEFAULT_URL = "unix:///var/run/docker.sock"
_SOCKET = "/run/highwater-docker.sock"
ENGINE_URL = f"{_UNIX}{_SOCKET}"
"""Where an engine of our own listens, inside the sandbox."""
_START_TIMEOUT_S = 40.0
_DEATH_TIMEOUT_S = 10.0
"""How long a killed run may take to be gone: the kernel first ends all processes of its sandbox."""
_REQUEST_TIMEOUT_S = 700
"""Above the longest command that a node is to run."""
_SLOTS = 8


class EngineMissing(Exception):
    """No Docker engine responds and none can be started; the text says why and what would help."""


def connect() -> Any | None:
    """A client of the engine that DOCKER_HOST or the default socket leads to, or None when none responds."""
    url = os.environ.get("DOCKER_HOST") or _DEFAULT_URL
    if url.startswith(_UNIX) and not _listens(url.removeprefix(_UNIX)):
        return None
    client = None
    try:
        client = docker.from_env(timeout=_REQUEST_TIMEOUT_S)
        client.ping()
    except (docker.errors.DockerException, OSError):
        if client is not None:
            client.close()
        return None
    return client


def _listens(path: str) -> bool:
    """True when something accepts connections there. The SDK would leave a socket open when nothing does."""
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except OSError:
            return False
    return True


def can_start() -> str | None:
    """None when an engine of our own can be started here, else what is missing."""
    if os.geteuid() != 0:
        return "no Docker engine responds, and only root can start one: start it, or join the group docker"
    if _program() is None:
        return "no Docker engine responds, and there is no dockerd: sudo apt-get install docker.io"
    return None


class OwnEngine:
    """dockerd by hand, without an init, in this sandbox."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self.folder: Path | None = None
        self.client: Any = None

    def claim(self) -> Path:
        """Lock a data folder that no other run uses, and return it; idempotent."""
        if self.folder is not None:
            return self.folder
        for number in range(_SLOTS):
            folder = engines_folder() / f"engine-{number}"
            lock = lock_engine(folder)
            if lock is not None:
                self._lock, self.folder = lock, folder
                return folder
        raise EngineMissing(f"all {_SLOTS} engines under {engines_folder()} are in use by other runs")

    def start(self) -> Any:
        """Start dockerd and return a client; EngineMissing with the end of its log when it does not come up."""
        if not inside_sandbox():
            raise EngineMissing("an engine of our own lives in a sandbox: harness.nodes.factory.enter_sandbox()")
        program = _program()
        if program is None:
            raise EngineMissing("there is no dockerd: sudo apt-get install docker.io")
        folder = self.claim()
        log_file = folder / "dockerd.log"
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [program, *_options(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": CLEAN_PATH, "HOME": "/root"},
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(_SOCKET):
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = log_file.read_text(errors="replace")[-1500:]
                self.stop()
                raise EngineMissing(f"dockerd does not respond; {log_file} ends: {tail}")
            time.sleep(0.05)
        # It listens before it is ready, and lets the first request wait.
        self.client = docker.DockerClient(base_url=ENGINE_URL, timeout=_REQUEST_TIMEOUT_S)
        self.client.ping()
        return self.client

    def stop(self) -> None:
        """Stop dockerd and unlock the data folder; idempotent."""
        if self.client is not None:
            self.client.close()
            self.client = None
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self.folder is not None:
            remove_cgroups(self.folder)
            self.folder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def engines_folder() -> Path:
    """Where the data folders of our own engines lie."""
    return cache_folder() / "docker"


def lock_engine(folder: Path) -> IO[str] | None:
    """Hold the data folder until the returned file is closed, or None when another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def remove_data(folder: Path) -> bool:
    """Remove what a dead run left in an engine's data folder (its image too); False when a live run holds it."""
    if not folder.exists():
        return True
    deadline = time.monotonic() + _DEATH_TIMEOUT_S
    while (lock := lock_engine(folder)) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    with lock:
        shutil.rmtree(folder / "data")
        remove_cgroups(folder)
    return True


def remove_cgroups(folder: Path) -> None:
    """Remove the engine's empty control groups, which no namespace takes along."""
    for top in Path("/sys/fs/cgroup").glob(f"**/{cgroup_name(folder)}"):
        for path, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                # Its processes are still on their way out.
                time.sleep(0.2)
                if Path(path).exists():
                    os.rmdir(path)


def cgroup_name(folder: Path) -> str:
    """The control group that the containers of the engine in that folder are under."""
    # Other users' engines are numbered alike.
    return f"highwater-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


def _options(folder: Path) -> list[str]:
    # No NAT and no default bridge: containers talk to one another and to the sandbox only.
    switches = ["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--userland-proxy=false", "--bridge=none"]
    return [
        f"--data-root={folder / 'data'}",
        "--exec-root=/run/highwater-docker",
        "--pidfile=/run/highwater-docker.pid",
        f"--host={ENGINE_URL}",
        f"--cgroup-parent=/{cgroup_name(folder)}",
        *switches,
    ]


def _program() -> str | None:
    return shutil.which("dockerd", path=CLEAN_PATH)
