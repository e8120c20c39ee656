"""Connections from inside a run's sandbox to servers outside of it: a ZooKeeper ensemble of somebody else's.

Decides how a connected socket gets into the sandbox. A *gatekeeper* process stays in the network of the caller and
connects to the configured addresses, and nowhere else; each connected socket is handed through a socket pair that the
sandbox inherits. A `Forwarder` inside listens where nodes can reach it. Must not know what the connections carry.
Executed by its file name as the gatekeeper: standard library only. The gatekeeper ends when nobody holds the other end
of its socket pair, so it outlives no run, however that ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

ENVIRONMENT = "HIGHWATER_OUTSIDE_FD"
CONNECT_TIMEOUT_S = 3.0
_BUFFER = 65536

Address = tuple[str, int]


def open_gate(servers: Sequence[Address]) -> None:
    """Start the gatekeeper; call before the sandbox is entered, whose processes find it by `gate`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = [sys.executable, "-I", "-S", os.path.abspath(__file__), str(theirs.fileno())]
        argv += [f"{host}:{port}" for host, port in servers]
        subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)
    os.environ[ENVIRONMENT] = str(ours.detach())
    os.set_inheritable(int(os.environ[ENVIRONMENT]), True)


class Gate:
    """Requests connections of the gatekeeper. Safe to use from many threads."""

    def __init__(self, servers: Sequence[Address]) -> None:
        """servers: where to connect when there is no gatekeeper, because this process is not in a sandbox."""
        held = os.environ.get(ENVIRONMENT)
        self._pair = None if held is None else socket.socket(fileno=os.dup(int(held)))
        self._servers = list(servers)
        self._lock = threading.Lock()

    def connect(self) -> socket.socket:
        """A connected socket. Raises ConnectionError with the error of each server."""
        if self._pair is None:
            return connect_any(self._servers)
        with self._lock:
            self._pair.send(b"connect")
            error, handles, _, _ = socket.recv_fds(self._pair, 4096, 1)
        if handles:
            return socket.socket(fileno=handles[0])
        raise ConnectionError(error.decode() or "the gatekeeper of the sandbox is gone")


class Forwarder:
    """Listens on an address that nodes reach, and carries every connection outside."""

    def __init__(self, listen: Address, gate: Gate) -> None:
        self._gate = gate
        self._listener = socket.create_server(listen)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="outside", daemon=True).start()

    def close(self) -> None:
        """No new connections; what is open ends with its peers."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(inner,), name="outside", daemon=True).start()

    def _carry(self, inner: socket.socket) -> None:
        try:
            outer = self._gate.connect()
        except OSError:
            inner.close()
            return
        back = threading.Thread(target=_pump, args=(outer, inner), name="outside", daemon=True)
        back.start()
        _pump(inner, outer)
        back.join()
        inner.close()
        outer.close()


def connect_any(servers: Sequence[Address]) -> socket.socket:
    """The first address that accepts. Raises ConnectionError with the error of each."""
    errors: list[str] = []
    for host, port in servers:
        try:
            found = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        except OSError as error:
            errors.append(f"{host}:{port}: {error}")
        else:
            found.settimeout(None)
            return found
    raise ConnectionError("; ".join(errors))


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_BUFFER):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


def _keep_gate(pair: socket.socket, servers: Sequence[Address]) -> None:
    while pair.recv(64):
        try:
            found = connect_any(servers)
        except ConnectionError as error:
            pair.send(str(error).encode()[:4096])
            continue
        socket.send_fds(pair, [b"connected"], [found.fileno()])
        found.close()


if __name__ == "__main__":
    _named = [one.rpartition(":") for one in sys.argv[2:]]
    _keep_gate(socket.socket(fileno=int(sys.argv[1])), [(host, int(port)) for host, _, port in _named])
