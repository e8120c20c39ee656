"""A peer over real sockets on loopback: pipelined requests, lost connections, bad answers, bounds."""

from __future__ import annotations

import socket
import struct

import pytest

from broker.config.settings import Settings
from broker.model.backoff import Backoff
from broker.net import peer as peer_module
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from broker.net.resolver import Resolver
from broker.runtime.metadata.cache import Address
from broker.server.data_plane import BrokerPeers
from broker.wire.api import ApiKey
from broker.wire.headers import encode_response_header
from tests.integration.net.peers import Broker, Outcomes
from tests.integration.net.until import Until


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
    peers = BrokerPeers(
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
