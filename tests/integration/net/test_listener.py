"""A listener on loopback: its port, descriptors that it keeps free, and what it gives each connection."""

from __future__ import annotations

import socket

import pytest

from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from tests.integration.net.connections import Server, framed, read_frames, shut
from tests.integration.net.until import Until

pytestmark = pytest.mark.guarantee("bounded-queues")


def _buffers(connection: Connection) -> tuple[int, int]:
    """Linux says twice what was asked for: socket(7)."""
    sock = connection._socket
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def test_listener_gives_its_connections_the_configured_buffers(loop: EpollLoop, until: Until) -> None:
    plain = socket.create_server(("127.0.0.1", 0))
    peer = socket.create_connection(plain.getsockname())
    accepted, _ = plain.accept()
    systems = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    for options, expected in (
        ({"send_buffer_bytes": 50_000}, (100_000, None)),
        ({"receive_buffer_bytes": 30_000}, (systems, 60_000)),
    ):
        server = Server(loop, **options)
        server.connect()
        until(lambda server=server: len(server.listener.connections) == 1)  # type: ignore[misc]
        send, receive = _buffers(server.connection)
        assert send == expected[0]
        assert receive == (expected[1] or receive)
        shut(server)
    for sock in (accepted, peer, plain):
        sock.close()


def test_listener_taken_port_is_named(server: Server, loop: EpollLoop) -> None:
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.listener.port}: Address already in use$"):
        Listener(loop, "127.0.0.1", server.listener.port, lambda _c, _f, _s: None)


@pytest.mark.guarantee("many-connections")
def test_listener_keeps_descriptors_for_files_says_so_once_and_goes_on_when_there_are_some(
    loop: EpollLoop, until: Until, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker.net.listener.ACCEPT_PAUSE_MS", 5.0)
    server = Server(loop)
    first = server.connect()
    until(lambda: len(server.listener.connections) == 1)
    # Every number up to the limit is taken, for the lowest goes first; twenty of them are free again later.
    fillers = [socket.socket() for _ in range(20)]
    server.listener._descriptor_limit = limit = max(first.fileno(), fillers[-1].fileno()) + 1
    while fillers[-1].fileno() < limit:
        fillers.append(socket.socket())
    turned_away = [server.connect() for _ in range(3)]
    for client in turned_away:
        until(lambda client=client: _is_over(client))  # type: ignore[misc]
    assert len(server.listener.connections) == 1
    assert caplog.text.count("accepting nobody on port") == 1
    assert "kept for files" in caplog.text
    for filler in [*fillers, *turned_away]:
        filler.close()
    server.handler = lambda frame, slot: slot.fulfil([bytes(frame)])
    again = server.connect()
    again.send(framed(b"back"))
    first.send(framed(b"still"))
    assert read_frames(again, 1, until) == [b"back"]
    assert read_frames(first, 1, until) == [b"still"]
    shut(server)


def _is_over(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_listener_stop_accepting_keeps_the_connections(server: Server, until: Until) -> None:
    server.handler = lambda frame, slot: slot.fulfil([bytes(frame)])
    client = server.connect()
    until(lambda: len(server.listener.connections) == 1)
    server.listener.stop_accepting()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.listener.port), timeout=5)
    client.send(framed(b"still"))
    assert read_frames(client, 1, until) == [b"still"]


def test_each_connection_has_a_context_made_once_from_its_address(loop: EpollLoop, until: Until) -> None:
    made: list[str] = []
    server = Server(loop, context_of=lambda address: made.append(address) or f"context of {address}")  # type: ignore[func-returns-value]
    contexts: list[object] = []
    server.listener._on_frame = lambda connection, _, __: contexts.append(connection.context)
    names = []
    for _ in range(2):
        client = server.connect()
        names.append("{}:{}".format(*client.getsockname()))
        client.sendall(framed(b"one", b"two"))
    until(lambda: len(contexts) == 4)
    assert sorted(made) == sorted(names)
    assert sorted(map(str, contexts)) == sorted(f"context of {name}" for name in names * 2)
    shut(server)
