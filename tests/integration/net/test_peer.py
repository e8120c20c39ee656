from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from broker.config.settings import Settings
from broker.model.backoff import Backoff
from broker.net import peer as peer_module
from broker.net.connection import Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.resolver import Resolver
from broker.net.slot import Slot
from broker.runtime.metadata.cache import Address
from broker.server.data_plane import FetchPeers
from broker.wire.api import ApiKey
from broker.wire.headers import decode_request_header, encode_response_header
from tests.integration.net.until import Until


class Outcomes:
    """What the callbacks said, by request."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.failures: dict[str, str] = {}

    def send(self, peer: BrokerPeer, name: str, timeout_ms: float = 5000) -> int:
        def answered(view: memoryview) -> None:
            assert name not in self.answers
            self.answers[name] = bytes(view)

        def failed(reason: str) -> None:
            assert name not in self.failures
            self.failures[name] = reason

        return peer.send(ApiKey.FETCH, 12, name.encode(), answered, failed, timeout_ms)

    def __len__(self) -> int:
        assert not set(self.answers) & set(self.failures), "exactly one callback per request"
        return len(self.answers) + len(self.failures)


class Broker:
    """Answers each request with its body, in upper case, when told to."""

    def __init__(self, loop: EpollLoop) -> None:
        self.requests: list[tuple[int, str | None, bytes]] = []
        self.slots: list[Slot] = []
        self.at_once = True
        self.listener = Listener(loop, "127.0.0.1", 0, self.on_frame)

    def on_frame(self, _: Connection, frame: memoryview, slot: Slot) -> None:
        header = decode_request_header(frame)
        self.requests.append((header.correlation_id, header.client_id, bytes(frame[header.body_start :])))
        self.slots.append(slot)
        if self.at_once:
            self.answer(len(self.slots) - 1)

    def answer(self, index: int) -> None:
        correlation_id, _, body = self.requests[index]
        self.slots[index].fulfil([encode_response_header(ApiKey.FETCH, 12, correlation_id), body.upper()])


@pytest.fixture
def broker(loop: EpollLoop) -> Iterator[Broker]:
    made = Broker(loop)
    yield made
    made.listener.close()


@pytest.fixture
def peer(loop: EpollLoop, broker: Broker) -> Iterator[BrokerPeer]:
    made = BrokerPeer(loop, "127.0.0.1", broker.listener.port, "broker-1", backoff=Backoff(5, 20, seed=1))
    yield made
    made.close()


@pytest.fixture
def clock_ms(loop: EpollLoop, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loop's time, which the test turns; for tests marked `patches`."""
    clock = [1000.0]
    monkeypatch.setattr(loop, "now_ms", lambda: clock[0])
    return clock


def test_peer_pipelines_and_gets_each_response_to_its_request(broker: Broker, peer: BrokerPeer, until: Until) -> None:
    outcomes = Outcomes()
    ids = [outcomes.send(peer, f"request {index}") for index in range(50)]
    assert len(set(ids)) == 50
    assert broker.requests == []
    until(lambda: len(outcomes) == 50)
    assert outcomes.answers == {f"request {index}": b"REQUEST %d" % index for index in range(50)}
    assert [request[0] for request in broker.requests] == ids
    assert {request[1] for request in broker.requests} == {"broker-1"}


def test_fetch_peer_reads_a_batch_of_any_size_that_its_leader_let_in(
    broker: Broker, loop: EpollLoop, until: Until
) -> None:
    own = Settings.parse({"broker.id": "1", "zookeeper.connect": "zk:2181", "log.dirs": "/none"})
    size = own.socket_request_max_bytes + 1
    peers = FetchPeers(
        loop, Resolver(loop), lambda _: Address("127.0.0.1", broker.listener.port), "broker-1-fetcher-00"
    )
    peer = peers(2)
    assert peer is not None
    broker.at_once = False
    lengths: list[int] = []
    failures: list[str] = []
    peer.send(ApiKey.FETCH, 12, b"fetch", lambda view: lengths.append(len(view)), failures.append, 5000)
    until(lambda: bool(broker.requests))
    correlation_id, _, _ = broker.requests[0]
    broker.slots[0].fulfil([encode_response_header(ApiKey.FETCH, 12, correlation_id), bytes(size)])
    until(lambda: bool(lengths or failures))
    assert (lengths, failures) == ([size], [])
    peer.close()


@pytest.mark.patches
def test_peer_bytes_leave_after_the_hooks_of_the_turn(
    broker: Broker, peer: BrokerPeer, loop: EpollLoop, until: Until
) -> None:
    outcomes = Outcomes()
    outcomes.send(peer, "first")
    until(lambda: len(outcomes) == 1)
    order: list[str] = []
    plain_flush = peer.flush_output

    def flush() -> None:
        order.append("send")
        plain_flush()

    peer.flush_output = flush  # type: ignore[method-assign]
    loop.add_before_send(lambda: order.append("hook"))

    def send() -> None:
        order.append("sent")
        outcomes.send(peer, "second")

    loop.call_soon(send)
    loop.run_once(timeout_ms_max=0)
    assert order == ["sent", "hook", "send"]


def test_peer_refused_fails_what_waits_then_connects_when_the_broker_is_back(loop: EpollLoop, until: Until) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    peer = BrokerPeer(loop, "127.0.0.1", port, "me", backoff=Backoff(5, 20, seed=1))
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    outcomes.send(peer, "b")
    until(lambda: len(outcomes) == 2)
    assert all(reason.startswith("refused") for reason in outcomes.failures.values())
    back = Listener(loop, "127.0.0.1", port, lambda _c, _f, slot: slot.fulfil([struct.pack(">iB", 3, 0), b"hi"]))
    outcomes.send(peer, "c")
    until(lambda: len(outcomes) == 3)
    assert outcomes.answers == {"c": b"hi"}
    peer.close()
    back.close()


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


def test_peer_reset_fails_everything_in_flight(loop: EpollLoop, until: Until) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    peer = BrokerPeer(loop, "127.0.0.1", server.getsockname()[1], "me", backoff=Backoff(5, 20, seed=1))
    outcomes, accepted = Outcomes(), list[socket.socket]()
    for name in "abc":
        outcomes.send(peer, name)

    def got_bytes() -> bool:
        if not accepted:
            try:
                accepted.append(server.accept()[0])
            except BlockingIOError:
                return False
        accepted[0].setblocking(False)
        try:
            return bool(accepted[0].recv(10))
        except BlockingIOError:
            return False

    until(got_bytes)
    accepted[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted[0].close()
    until(lambda: len(outcomes) == 3)
    assert all(reason.startswith("reset") for reason in outcomes.failures.values()), outcomes.failures
    peer.close()
    server.close()


def test_peer_closed_by_the_other_end_fails_as_closed(
    broker: Broker, peer: BrokerPeer, loop: EpollLoop, until: Until
) -> None:
    broker.at_once = False
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: len(broker.slots) == 1)
    broker.slots[0].close_connection("test")
    until(lambda: len(outcomes) == 1)
    assert outcomes.failures["a"].startswith("closed")


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


def test_peer_close_fails_what_waits_and_later_sends(
    broker: Broker, peer: BrokerPeer, loop: EpollLoop, until: Until
) -> None:
    broker.at_once = False
    outcomes = Outcomes()
    outcomes.send(peer, "in flight")
    until(lambda: len(broker.slots) == 1)
    outcomes.send(peer, "queued")
    peer.close()
    outcomes.send(peer, "late")
    assert len(outcomes) == 0  # never from inside a call
    until(lambda: len(outcomes) == 3)
    assert {reason.split(":")[0] for reason in outcomes.failures.values()} == {"closed"}


@pytest.mark.parametrize("answer", [b"\0\0\0\7\0\0\0\x63\0zz", b"\xff\xff\xff\xff", b"\0\0\0\2zz"])
def test_peer_response_out_of_order_or_malformed_closes(loop: EpollLoop, until: Until, answer: bytes) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    peer = BrokerPeer(loop, "127.0.0.1", server.getsockname()[1], "me", backoff=Backoff(5, 20, seed=1))
    outcomes = Outcomes()
    outcomes.send(peer, "a")
    until(lambda: peer.connected)
    accepted, _ = server.accept()
    loop.run_once(timeout_ms_max=0)
    accepted.sendall(answer)
    until(lambda: len(outcomes) == 1)
    assert outcomes.failures["a"].startswith("closed")
    peer.close()
    accepted.close()
    server.close()


@pytest.mark.guarantee("bounded-queues")
@pytest.mark.patches
def test_peer_queue_is_bounded(loop: EpollLoop, until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "QUEUED_MAX", 3)
    peer = BrokerPeer(loop, "127.0.0.1", 9, "me")
    outcomes = Outcomes()
    for name in "abcd":
        outcomes.send(peer, name)
    loop.run_once(timeout_ms_max=0)
    loop.run_once(timeout_ms_max=0)
    assert outcomes.failures["d"].startswith("closed")
    assert "wait" in outcomes.failures["d"]
    peer.close()
    until(lambda: len(outcomes) == 4)


def test_peer_big_request_to_a_slow_broker_arrives_whole(broker: Broker, peer: BrokerPeer, until: Until) -> None:
    outcomes = Outcomes()
    outcomes.send(peer, "x" * 8_000_000)
    outcomes.send(peer, "small")
    until(lambda: len(outcomes) == 2)
    assert len(outcomes.answers["x" * 8_000_000]) == 8_000_000


def test_peer_callback_that_raises_does_not_hurt_the_next(
    broker: Broker, peer: BrokerPeer, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(_: object) -> None:
        raise RuntimeError("bad callback")

    outcomes = Outcomes()
    peer.send(ApiKey.FETCH, 12, b"a", breaks, breaks, 5000)
    outcomes.send(peer, "b")
    until(lambda: len(outcomes) == 1)
    assert outcomes.answers == {"b": b"B"}
    assert "bad callback" in caplog.text


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
