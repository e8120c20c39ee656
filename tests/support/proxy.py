"""A TCP proxy in front of a server, which tests use to lose an answer, a connection, or everything."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Proxy:
    """Forwards bytes both ways. Made for losing exactly one answer, or all."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.lose_after: Callable[[bytes], bool] | None = None
        """Asked about every client chunk: True forwards it, then cuts the connection before the answer."""
        self.refusing = False
        self.silent = False
        """Connections stay, and whatever comes over them vanishes, as when the server's host is gone."""
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._spawn(self._accept)

    def _spawn(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
                self._sockets += [client, server]
            self._spawn(self._to_server, client, server)
            self._spawn(self._to_client, client, server)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(65536):
                if self.silent:
                    continue
                lose = self.lose_after
                if lose is not None and lose(chunk):
                    self.lose_after = None
                    _shut(client)
                    server.sendall(chunk)
                    while server.recv(65536):
                        pass
                server.sendall(chunk)
        _shut(client)
        _shut(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(65536):
                if not self.silent:
                    client.sendall(chunk)
        _shut(client)
        _shut(server)

    @property
    def connections(self) -> int:
        """Made since the last cut."""
        with self._lock:
            return len(self._pairs)

    def cut(self) -> None:
        """Break all connections; new ones work unless `refusing`."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            _shut(client)
            _shut(server)

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for sock in self._sockets:
            sock.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
