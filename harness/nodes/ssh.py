"""One machine behind SSH (paramiko): connection, commands, files, and what it lacks to run a broker.

Decides: how host keys and users are checked, and how a command or a file travels. Must not know: how many nodes
there are. Invariants: an unknown or changed host key is refused; commands run as root (`sudo -n` for another user).
"""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import paramiko

from harness.nodes import transfer
from harness.nodes.base import CommandFailed, Completed
from harness.nodes.posix import CLEAN_PATH, PosixNode, failed, timed_out
from harness.nodes.provision import Provision

_CONNECT_TIMEOUT_S = 20.0
_SESSIONS_PER_CONNECTION = 8
"""sshd's MaxSessions is 10 unless its configuration says otherwise."""


@dataclass(frozen=True, slots=True)
class SshHost:
    """How to reach a node. address: its IP as other nodes see it; key: a private key file, or None for the agent's."""

    name: str
    host: str
    address: str
    user: str = "root"
    key: str | None = None
    port: int = 22
    known_hosts: str | None = None


class HostRefused(Exception):
    """A host cannot be reached, is not known, or does not know us; the text names the remedy."""


class SshNode(PosixNode):
    """A machine behind sshd."""

    def __init__(self, host: SshHost, root: str) -> None:
        super().__init__(host.name, host.address, root)
        self.host = host
        self._client: paramiko.SSHClient | None = None
        self._lock = threading.Lock()
        self._sessions = threading.BoundedSemaphore(_SESSIONS_PER_CONNECTION)
        self.provision = Provision(self)

    def connect(self) -> None:
        """Connect and check that commands run as root; HostRefused otherwise."""
        self._connection()
        done = self.run(["id", "-u"], check=False)
        if done.stdout.strip() != "0":
            raise HostRefused(
                f"node {self.name}: {self.host.user}@{self.host.host} is not root and cannot become root by `sudo -n`:"
                f" {done.stderr.strip()}. Use root, or allow it: {self.host.user} ALL=(ALL) NOPASSWD: ALL"
            )

    def disconnect(self) -> None:
        """Close the SSH connection; the next command makes another."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        input_text: str | None = None,
    ) -> Completed:
        """Run a command over SSH as root: `sudo -n` for another user."""
        given = None if input_text is None else input_text.encode()
        with self._sessions:
            channel = self._execute(argv, timeout_s)
            try:
                stdout, stderr, code = _converse(channel, given, timeout_s)
            except TimeoutError as error:
                raise timed_out(self.name, argv, timeout_s) from error
            except (paramiko.SSHException, OSError, EOFError) as error:
                raise CommandFailed(f"node {self.name}: {shlex.join(argv)[:300]}: connection lost: {error}") from error
            finally:
                channel.close()
        done = Completed(tuple(argv), code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
        if check and code != 0:
            raise failed(self.name, done)
        return done

    def put(self, local: Path, remote: str) -> None:
        """Copy by a tar stream over SSH."""
        argv = transfer.extract_command(remote)
        with self._sessions:
            channel = self._execute(argv, 600.0)
            try:
                channel.settimeout(120.0)
                transfer.pack(local, remote, cast(IO[bytes], _Stream(channel)))
                channel.shutdown_write()
                _, stderr, code = _converse(channel, None, 600.0)
            finally:
                channel.close()
        if code != 0:
            raise failed(self.name, Completed(tuple(argv), code, "", stderr.decode(errors="replace")))

    def get(self, remote: str, local: Path) -> None:
        """Copy by a tar stream over SSH."""
        self.run(["test", "-e", remote])
        argv = transfer.archive_command(remote)
        with self._sessions:
            channel = self._execute(argv, 600.0)
            try:
                channel.settimeout(120.0)
                transfer.unpack(cast(IO[bytes], _Stream(channel)), local)
                code = channel.recv_exit_status()
                stderr = channel.recv_stderr(4000) if channel.recv_stderr_ready() else b""
            finally:
                channel.close()
        # 1: a file changed while it was read, as a log does.
        if code not in (0, 1):
            raise failed(self.name, Completed(tuple(argv), code, "", stderr.decode(errors="replace")))

    @property
    def python(self) -> str:
        """A Python of the host that is new enough, found once."""
        return self.provision.python()

    @property
    def java(self) -> str:
        """The host's own Java, or one that was uploaded."""
        return self.provision.java()

    @property
    def broker_path(self) -> str:
        """The uploaded broker, and the packages that it imports."""
        return self.provision.broker_path

    @property
    def zookeeper_classpath(self) -> str:
        """The uploaded jars."""
        return self.provision.zookeeper_classpath()

    @property
    def faketime_library(self) -> str | None:
        """The uploaded library, or None where it does not run on the host."""
        return self.provision.faketime_library()

    def _execute(self, argv: Sequence[str], timeout_s: float) -> paramiko.Channel:
        # `timeout` ends what would go on alone when we give up on it.
        line = shlex.join(["env", f"PATH={CLEAN_PATH}", "timeout", "-k", "2", f"{timeout_s + 2:g}", *argv])
        try:
            channel = self._connection().open_session(timeout=_CONNECT_TIMEOUT_S)
            channel.exec_command(line if self.host.user == "root" else f"sudo -n {line}")
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise CommandFailed(f"node {self.name}: {shlex.join(argv)[:300]}: no session: {error}") from error
        return channel

    def _connection(self) -> paramiko.Transport:
        with self._lock:
            transport = None if self._client is None else self._client.get_transport()
            if transport is None or not transport.is_active():
                self._client = _connect(self.host)
                transport = self._client.get_transport()
                assert transport is not None
                transport.set_keepalive(10)
            return transport


def _connect(host: SshHost) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    where = f"node {host.name} ({host.user}@{host.host}:{host.port})"
    try:
        if host.known_hosts is None:
            client.load_system_host_keys()
        else:
            client.load_host_keys(str(Path(host.known_hosts).expanduser()))
    except OSError as error:
        raise HostRefused(f"nodes.known_hosts = {host.known_hosts}: {error}") from error
    client.set_missing_host_key_policy(_Refuse(host))
    try:
        client.connect(
            host.host,
            port=host.port,
            username=host.user,
            key_filename=None if host.key is None else str(Path(host.key).expanduser()),
            allow_agent=host.key is None,
            look_for_keys=host.key is None,
            timeout=_CONNECT_TIMEOUT_S,
            banner_timeout=_CONNECT_TIMEOUT_S,
            auth_timeout=_CONNECT_TIMEOUT_S,
        )
    except paramiko.BadHostKeyException as error:
        raise HostRefused(
            f"{where}: its host key is not the one in {_known_hosts_file(host)}. If the machine was set up anew:"
            f" ssh-keygen -R '{_known_name(host)}' -f {_known_hosts_file(host)}, then add the new key"
        ) from error
    except paramiko.AuthenticationException as error:
        raise HostRefused(f"{where}: refuses the key {host.key or 'of the agent and ~/.ssh'}: {error}") from error
    except (paramiko.SSHException, OSError) as error:
        raise HostRefused(f"{where}: {error}") from error
    return client


class _Refuse:
    """paramiko's policy for hosts that known_hosts does not name."""

    def __init__(self, host: SshHost) -> None:
        self._host = host

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        host = self._host
        raise HostRefused(
            f"node {host.name}: {hostname} is not in {_known_hosts_file(host)}; it shows {key.get_name()}"
            f" {key.fingerprint}. When that is right:"
            f" ssh-keyscan -p {host.port} {host.host} >> {_known_hosts_file(host)}"
        )


def _known_hosts_file(host: SshHost) -> str:
    return host.known_hosts or "~/.ssh/known_hosts"


def _known_name(host: SshHost) -> str:
    return host.host if host.port == 22 else f"[{host.host}]:{host.port}"


def _converse(channel: paramiko.Channel, given: bytes | None, timeout_s: float) -> tuple[bytes, bytes, int]:
    """Feed stdin, drain both outputs to their end, and return them with the exit code; TimeoutError."""
    channel.settimeout(timeout_s)
    outputs: dict[str, bytes] = {}
    errors: list[BaseException] = []

    def drain(name: str, receive: Any) -> None:
        blocks = []
        try:
            while block := receive(1 << 16):
                blocks.append(block)
        except BaseException as error:
            errors.append(error)
        outputs[name] = b"".join(blocks)

    reader = threading.Thread(target=drain, args=("stderr", channel.recv_stderr), daemon=True)
    writer = threading.Thread(target=_feed, args=(channel, given, errors), daemon=True)
    reader.start()
    writer.start()
    drain("stdout", channel.recv)
    reader.join(timeout_s)
    writer.join(timeout_s)
    for error in errors:
        raise TimeoutError(str(error)) if isinstance(error, socket.timeout) else error
    if not channel.status_event.wait(timeout_s):
        raise TimeoutError("no exit status")
    return outputs["stdout"], outputs["stderr"], channel.recv_exit_status()


def _feed(channel: paramiko.Channel, given: bytes | None, errors: list[BaseException]) -> None:
    try:
        if given:
            channel.sendall(given)
        channel.shutdown_write()
    except OSError as error:
        # A command that ended without reading its input closed the channel.
        if not channel.exit_status_ready() and not channel.closed:
            errors.append(error)


class _Stream:
    """A channel as tarfile's stream. paramiko's own file objects write once more when they are collected."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def write(self, data: bytes) -> int:
        self._channel.sendall(data)
        return len(data)

    def read(self, size: int) -> bytes:
        received: bytes = self._channel.recv(size)
        return received
