"""Peers and links by name, where name servers are silent: the loop goes on, they time out, and nothing comes back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.core.controller.suspicion import LinkEvent
from broker.model.backoff import Backoff
from broker.net.connection import Connection
from broker.net.link import Link
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.resolver import Resolver
from broker.net.slot import Slot
from broker.wire.api import ApiKey
from broker.wire.headers import decode_request_header, encode_response_header
from tests.integration.net.until import Until

pytestmark = [pytest.mark.patches, pytest.mark.guarantee("bounded-queues")]

NAME = "b2.example"
HUNG_S = 60.0
QUICK_S = HUNG_S / 2


class NameServers:
    """Answer for NAME when they are told to, all at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer = threading.Event()
        self.fails = False
        self.asked = 0
        self.done = 0
        self._plain = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)

    def _getaddrinfo(self, host: str, port: int | None, *args: Any, **kwargs: Any) -> list[Any]:
        if host != NAME:
            return self._plain(host, port, *args, **kwargs)
        self.asked += 1
        try:
            if not self.answer.wait(HUNG_S) or self.fails:
                raise socket.gaierror(socket.EAI_AGAIN, "no server answers")
            return self._plain("127.0.0.1", port, *args, **kwargs)
        finally:
            self.done += 1


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServers]:
    made = NameServers(monkeypatch)
    yield made
    made.answer.set()


@pytest.fixture
def resolver(loop: EpollLoop) -> Iterator[Resolver]:
    made = Resolver(loop)
    yield made
    made.close()


class Server:
    """Answers each request with its body, in upper case."""

    def __init__(self, loop: EpollLoop) -> None:
        self.connections: set[Connection] = set()
        self.answered = 0
        self.listener = Listener(loop, "127.0.0.1", 0, self.on_frame)

    def on_frame(self, connection: Connection, frame: memoryview, slot: Slot) -> None:
        header = decode_request_header(frame)
        self.connections.add(connection)
        self.answered += 1
        body = bytes(frame[header.body_start :]).upper()
        slot.fulfil([encode_response_header(ApiKey.FETCH, 12, header.correlation_id), body])


@pytest.fixture
def server(loop: EpollLoop) -> Iterator[Server]:
    made = Server(loop)
    yield made
    made.listener.close()


@pytest.fixture
def peers(loop: EpollLoop, server: Server, resolver: Resolver) -> Iterator[Callable[[str], BrokerPeer]]:
    made: list[BrokerPeer] = []

    def peer(host: str) -> BrokerPeer:
        port, backoff = server.listener.port, Backoff(5, 20, seed=1)
        made.append(BrokerPeer(loop, host, port, "me", resolver=resolver, backoff=backoff, connect_timeout_ms=300))
        return made[-1]

    yield peer
    for one in made:
        one.close()


def ask(peer: BrokerPeer) -> list[str]:
    """What becomes of one request."""
    outcome: list[str] = []
    peer.send(
        ApiKey.FETCH,
        12,
        b"request",
        lambda view: outcome.append(bytes(view).decode()),
        outcome.append,
        10_000,
    )
    return outcome


def assert_answered(peer: BrokerPeer, until: Until) -> None:
    outcome = ask(peer)
    until(lambda: bool(outcome))
    assert outcome == ["REQUEST"]


def test_silent_name_servers_hold_up_the_peer_of_that_name_alone(
    servers: NameServers, peers: Callable[[str], BrokerPeer], until: Until
) -> None:
    began = time.monotonic()
    hung = ask(peers(NAME))
    until(lambda: servers.asked == 1)
    other = peers("127.0.0.1")
    for _ in range(20):
        assert_answered(other, until)
    assert hung == []
    assert time.monotonic() - began < QUICK_S
    until(lambda: bool(hung))
    assert hung[0].startswith(f"timeout: {NAME}")
    assert hung[0].endswith("no address in 300 ms")
    assert time.monotonic() - began < HUNG_S / 2


def test_peer_reaches_a_name_once_it_has_an_address(
    servers: NameServers, peers: Callable[[str], BrokerPeer], until: Until
) -> None:
    peer = peers(NAME)
    first = ask(peer)
    until(lambda: bool(first))
    assert first[0].startswith("timeout")
    second = ask(peer)
    until(lambda: servers.asked == 1)
    servers.answer.set()
    until(lambda: bool(second))
    assert second == ["REQUEST"]


def test_peer_comes_back_to_the_last_address_when_name_servers_are_silent(
    servers: NameServers, server: Server, peers: Callable[[str], BrokerPeer], until: Until
) -> None:
    servers.answer.set()
    peer = peers(NAME)
    first = ask(peer)
    until(lambda: first == ["REQUEST"])
    servers.answer.clear()
    (connection,) = server.connections
    connection.close()
    until(lambda: not peer.connected)
    began = time.monotonic()
    again = ask(peer)
    until(lambda: bool(again))
    assert again == ["REQUEST"]
    assert time.monotonic() - began < QUICK_S


def test_peer_whose_name_fails_says_why(servers: NameServers, peers: Callable[[str], BrokerPeer], until: Until) -> None:
    servers.fails = True
    servers.answer.set()
    outcome = ask(peers(NAME))
    until(lambda: bool(outcome))
    assert outcome[0].startswith(f"refused: {NAME}")
    assert "no server answers" in outcome[0]


def test_peer_that_was_closed_meanwhile_does_not_connect(
    servers: NameServers, server: Server, peers: Callable[[str], BrokerPeer], until: Until
) -> None:
    peer = peers(NAME)
    outcome = ask(peer)
    until(lambda: servers.asked == 1)
    peer.close()
    servers.answer.set()
    until(lambda: servers.done == 1)
    other = peers("127.0.0.1")
    for _ in range(5):
        assert_answered(other, until)
    assert outcome == ["closed: this peer was closed"]
    assert not peer.connected
    assert len(server.connections) == 1, "that of the other"
    assert len(server.listener.connections) == 1


@pytest.fixture
def links(
    loop: EpollLoop, server: Server, resolver: Resolver
) -> Iterator[Callable[[Callable[[LinkEvent], None]], Link]]:
    made: list[Link] = []

    def link(on_event: Callable[[LinkEvent], None]) -> Link:
        made.append(Link(loop, NAME, server.listener.port, on_event, resolver))
        return made[-1]

    yield link
    for one in made:
        one.close()


def test_link_waits_beside_the_loop_and_sees_a_silent_name_as_unreachable(
    servers: NameServers,
    peers: Callable[[str], BrokerPeer],
    links: Callable[[Callable[[LinkEvent], None]], Link],
    until: Until,
) -> None:
    events: list[LinkEvent] = []
    began = time.monotonic()
    links(events.append)
    until(lambda: servers.asked == 1)
    assert_answered(peers("127.0.0.1"), until)
    assert time.monotonic() - began < QUICK_S
    until(lambda: bool(events))
    assert events == [LinkEvent.UNREACHABLE]
    servers.answer.set()
    until(lambda: len(events) > 1)
    assert events[-1] is LinkEvent.CONNECTED


def test_link_that_was_closed_meanwhile_does_not_connect(
    servers: NameServers,
    server: Server,
    peers: Callable[[str], BrokerPeer],
    links: Callable[[Callable[[LinkEvent], None]], Link],
    until: Until,
) -> None:
    events: list[LinkEvent] = []
    link = links(events.append)
    until(lambda: servers.asked == 1)
    link.close()
    servers.answer.set()
    until(lambda: servers.done == 1)
    other = peers("127.0.0.1")
    for _ in range(5):
        assert_answered(other, until)
    assert events == []
    assert len(server.listener.connections) == 1, "that of the other"
