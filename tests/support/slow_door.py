"""A TCP door in front of a broker that can make the answers to one client slow, or narrow, and no one else's.

Give the broker the door's address as its advertised one. The client id in its first request says whose a connection is.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable

_PIECE_BYTES = 4096
_LOOK_S = 0.01


class SlowDoor:
    """target: the port behind it, asked for each connection. marked: what the slowed client's first request holds."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self.marked = b""
        self.delay_s = 0.0
        self.bytes_per_s = float("inf")
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    def heal(self) -> None:
        """What is under way goes on at once."""
        self.delay_s, self.bytes_per_s = 0.0, float("inf")

    def close(self) -> None:
        self._open = False
        _shut(self._listener)
        self._listener.close()
        for sock in list(self._sockets):
            _shut(sock)
        for thread in self._threads:
            thread.join(10)
        for sock in self._sockets:
            sock.close()

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while self._open:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target()))
            except OSError:
                if not self._open:
                    return
                client.close()
                continue
            self._sockets += [client, server]
            first: list[bytes] = []
            answers: queue.SimpleQueue[tuple[bytes, float]] = queue.SimpleQueue()
            self._spawn(self._requests, client, server, first)
            self._spawn(self._answers, server, answers)
            self._spawn(self._deliver, client, server, first, answers)

    def _requests(self, client: socket.socket, server: socket.socket, first: list[bytes]) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(65536):
                if not first:
                    first.append(chunk)
                server.sendall(chunk)
        _shut(client)
        _shut(server)

    def _answers(self, server: socket.socket, answers: queue.SimpleQueue[tuple[bytes, float]]) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(65536):
                answers.put((chunk, time.monotonic()))
        answers.put((b"", 0.0))

    def _deliver(
        self,
        client: socket.socket,
        server: socket.socket,
        first: list[bytes],
        answers: queue.SimpleQueue[tuple[bytes, float]],
    ) -> None:
        with contextlib.suppress(OSError):
            while (got := answers.get())[0]:
                chunk, came = got
                if not (self.marked and first and self.marked in first[0]):
                    client.sendall(chunk)
                    continue
                while self._open and time.monotonic() < came + self.delay_s:
                    time.sleep(_LOOK_S)
                for start in range(0, len(chunk), _PIECE_BYTES):
                    piece = chunk[start : start + _PIECE_BYTES]
                    time.sleep(len(piece) / self.bytes_per_s)
                    client.sendall(piece)
        _shut(client)
        _shut(server)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
