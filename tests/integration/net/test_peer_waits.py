"""How long a peer waits: between connections, for a connection, for an answer."""

from __future__ import annotations

import socket
import struct

import pytest

from broker.model.backoff import Backoff
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.wire.api import ApiKey
from broker.wire.headers import encode_response_header
from tests.integration.net.peers import Broker, Outcomes
from tests.integration.net.until import Until


@pytest.fixture
def clock_ms(loop: EpollLoop, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loop's time, which the test turns; for tests marked `patches`."""
    clock = [1000.0]
    monkeypatch.setattr(loop, "now_ms", lambda: clock[0])
    return clock


def test_peer_response_resets_the_backoff(broker: Broker, loop: EpollLoop, until: Until) -> None:
    backoff = Backoff(50, 10_000, seed=1)
    for _ in range(6):
        backoff.next_ms()
    peer = BrokerPeer(loop, "127.0.0.1", broker.listener.port, "me", backoff=backoff)
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: len(outcomes) == 1)
    assert backoff.next_ms() <= 60
    peer.close()


def test_peer_waits_for_the_backoff_before_it_connects_again(loop: EpollLoop, until: Until) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    peer = BrokerPeer(loop, "127.0.0.1", port, "me", backoff=Backoff(100, 100, seed=1))
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: len(outcomes) == 1)
    start_ms = loop.now_ms()
    outcomes.send(peer, "b")
    until(lambda: len(outcomes) == 2)
    assert loop.now_ms() - start_ms > 60
    peer.close()


@pytest.mark.patches
def test_peer_timeout_fails_its_request_closes_and_fails_the_rest(
    broker: Broker, peer: BrokerPeer, loop: EpollLoop, until: Until, clock_ms: list[float]
) -> None:
    broker.at_once = False
    outcomes = Outcomes()
    outcomes.send(peer, "slow", timeout_ms=30)
    outcomes.send(peer, "behind")
    until(lambda: peer.in_flight == 2)
    clock_ms[0] += 30
    until(lambda: len(outcomes) == 2)
    assert outcomes.failures["slow"].startswith("timeout")
    assert outcomes.failures["behind"].startswith("closed")
    assert not peer.connected
    broker.at_once = True
    clock_ms[0] += 20  # the longest that the peer may wait before it connects again
    outcomes.send(peer, "again")
    until(lambda: len(outcomes) == 3)
    assert outcomes.answers == {"again": b"AGAIN"}


@pytest.mark.patches
def test_peer_response_that_trickles_in_does_not_time_out_and_one_that_stops_does(
    loop: EpollLoop, until: Until, clock_ms: list[float]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = BrokerPeer(loop, "127.0.0.1", server.getsockname()[1], "me", backoff=Backoff(5, 20, seed=1))
        outcomes = Outcomes()
        first = outcomes.send(peer, "slow", timeout_ms=100)
        outcomes.send(peer, "cut off", timeout_ms=100)
        until(lambda: peer.connected)
        until(lambda: peer.in_flight == 2)
        with server.accept()[0] as connection:
            body = encode_response_header(ApiKey.FETCH, 12, first) + b"SLOW"
            frame = struct.pack(">i", len(body)) + body
            for byte in frame:
                connection.sendall(bytes([byte]))
                clock_ms[0] += 60
                loop.run_once(timeout_ms_max=1000)
            assert outcomes.answers == {"slow": b"SLOW"}
            assert not outcomes.failures
            clock_ms[0] += 101
            until(lambda: len(outcomes) == 2)
            assert outcomes.failures["cut off"].startswith("timeout")
    peer.close()


def test_peer_connect_that_hangs_times_out(loop: EpollLoop, until: Until) -> None:
    # A backlog of one that is full: the kernel drops further SYNs, as a dead host would.
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(server.getsockname())
    peer = BrokerPeer(
        loop, "127.0.0.1", server.getsockname()[1], "me", backoff=Backoff(5, 20, seed=1), connect_timeout_ms=40
    )
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: len(outcomes) == 1)
    assert outcomes.failures["a"].startswith("timeout"), outcomes.failures
    peer.close()
    for sock in [server, *fillers]:
        sock.close()


def test_peer_request_times_out_while_it_waits_for_a_connection(loop: EpollLoop, until: Until) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    peer = BrokerPeer(loop, "127.0.0.1", port, "me", backoff=Backoff(60_000, 60_000))
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: len(outcomes) == 1)
    outcomes.send(peer, "b", timeout_ms=20)
    until(lambda: len(outcomes) == 2)
    assert outcomes.failures["b"].startswith("timeout")
    peer.close()


@pytest.mark.patches
def test_peer_that_gives_a_connection_up_takes_back_what_was_not_delivered(
    loop: EpollLoop, until: Until, clock_ms: list[float]
) -> None:
    # A receiver that is behind: its buffers are full, so the rest of the request is still with the sender.
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen()
        peer = BrokerPeer(loop, "127.0.0.1", server.getsockname()[1], "me", backoff=Backoff(5, 20, seed=1))
        outcomes = Outcomes()
        outcomes.send(peer, "x" * 50_000_000, timeout_ms=200)
        until(lambda: peer.in_flight == 1)
        clock_ms[0] += 200
        until(lambda: len(outcomes) == 1)
        peer.close()
        accepted, _ = server.accept()
        received = bytearray()

        def receive_to_the_end() -> None:
            while data := accepted.recv(1 << 20):
                received.extend(data)

        with accepted:
            accepted.settimeout(5)
            with pytest.raises(ConnectionResetError):
                receive_to_the_end()
    assert len(received) < 50_000_000
