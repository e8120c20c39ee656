"""A listener whose loop the test turns, its clients on loopback, and the frames that they send and read."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.slot import Slot
from tests.integration.net.until import Until


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


class Server:
    """A listener that keeps every frame and slot; `handler`, when set, answers at once."""

    def __init__(self, loop: EpollLoop, **options: object) -> None:
        self.loop = loop
        self.frames: list[bytes] = []
        self.slots: list[Slot] = []
        self.closed: list[Connection] = []
        self.handler: Callable[[memoryview, Slot], None] | None = None
        self.listener = Listener(loop, "127.0.0.1", 0, self.on_frame, self.closed.append, **options)  # type: ignore[arg-type]
        self.clients: list[socket.socket] = []

    def on_frame(self, _: Connection, frame: memoryview, slot: Slot) -> None:
        self.frames.append(bytes(frame))
        self.slots.append(slot)
        if self.handler is not None:
            self.handler(frame, slot)

    def connect(self, receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.listener.port))
        client.setblocking(False)
        self.clients.append(client)
        return client

    @property
    def connection(self) -> Connection:
        (only,) = self.listener.connections
        return only


def shut(server: Server) -> None:
    server.listener.close()
    for client in server.clients:
        client.close()


def collect(client: socket.socket, into: bytearray) -> bool:
    """Read what is there; True at the stream's end."""
    while True:
        try:
            data = client.recv(1 << 20)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        if not data:
            return True
        into += data


def read_frames(client: socket.socket, count: int, until: Until) -> list[bytes]:
    got = bytearray()

    def complete() -> bool:
        collect(client, got)
        return len(split(got)) >= count

    until(complete)
    return split(got)


def split(data: bytes | bytearray) -> list[bytes]:
    frames, at = [], 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from(">i", data, at)
        if len(data) - at - 4 < size:
            break
        frames.append(bytes(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return frames
