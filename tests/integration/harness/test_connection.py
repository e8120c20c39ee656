from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.wire.api import ApiKey
from broker.wire.headers import RequestHeader, encode_response_header
from harness.clients.connection import Address, ClientError, Connection
from harness.clients.requests import metadata, produce_one
from tests.integration.harness.fake_broker import FakeBroker
from tests.support.wait import eventually

SECOND = 10**9


def soon(seconds: float = 5.0) -> int:
    return time.monotonic_ns() + int(seconds * SECOND)


@pytest.fixture
def connection(broker: FakeBroker) -> Iterator[Connection]:
    made = Connection(Address("127.0.0.1", broker.port), "test")
    made.connect(soon())
    yield made
    made.close()


@contextmanager
def failing(error: str) -> Iterator[None]:
    with pytest.raises(ClientError) as caught:
        yield
    assert caught.value.error == error


def send(connection: Connection, deadline_ns: int) -> None:
    produce_one(connection, "hw", 0, [1], acks=-1, record_bytes=10, timeout_ms=1000, deadline_ns=deadline_ns)


def test_connect_nobody_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with failing("connection-refused"):
        Connection(Address("127.0.0.1", port), "test").connect(soon())


def test_connect_no_response_in_time_is_not_connected() -> None:
    # A full backlog: the kernel drops further handshakes.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = Address(*server.getsockname())
        blockers = [socket.socket() for _ in range(4)]
        try:
            for blocker in blockers:
                blocker.setblocking(False)
                blocker.connect_ex(address)
            with failing("not-connected"):
                Connection(address, "test").connect(soon(0.2))
        finally:
            for blocker in blockers:
                blocker.close()


def test_connect_after_the_deadline_is_not_connected(broker: FakeBroker) -> None:
    with failing("not-connected"):
        Connection(Address("127.0.0.1", broker.port), "test").connect(time.monotonic_ns())


def test_exchange_without_connect_sends_nothing(broker: FakeBroker) -> None:
    with failing("not-connected"):
        send(Connection(Address("127.0.0.1", broker.port), "test"), soon())
    assert broker.asked(ApiKey.PRODUCE) == 0


def test_exchange_response_never_comes_is_timeout_and_closes(broker: FakeBroker, connection: Connection) -> None:
    broker.next(ApiKey.PRODUCE, lambda _header: b"")
    with failing("timeout"):
        send(connection, soon(0.2))
    assert not connection.open
    # It was sent, but on a busy machine the broker reads it after the client has given up.
    eventually(lambda: broker.asked(ApiKey.PRODUCE) > 0, "the request")
    assert broker.asked(ApiKey.PRODUCE) == 1


def test_exchange_half_a_response_is_timeout(broker: FakeBroker, connection: Connection) -> None:
    broker.next(ApiKey.PRODUCE, lambda _header: struct.pack(">i", 100) + b"half")
    with failing("timeout"):
        send(connection, soon(0.2))


def test_exchange_closed_by_the_node_is_reset_and_not_sent_again(broker: FakeBroker, connection: Connection) -> None:
    broker.next(ApiKey.PRODUCE, lambda _header: None)
    with failing("connection-reset"):
        send(connection, soon())
    assert not connection.open
    assert broker.asked(ApiKey.PRODUCE) == 1


def wrong_correlation_id(header: RequestHeader) -> bytes:
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id + 1)
    return struct.pack(">i", len(head)) + head


def garbage_body(header: RequestHeader) -> bytes:
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return struct.pack(">i", len(head) + 3) + head + b"\xff\xff\xff"


@pytest.mark.parametrize(
    "answer",
    [wrong_correlation_id, garbage_body, lambda _header: struct.pack(">i", -5), lambda _header: b"\x7f\xff\xff\xff"],
    ids=["correlation id", "body", "negative length", "length of 2 GB"],
)
def test_exchange_response_that_cannot_be_read_is_malformed_and_closes(
    broker: FakeBroker, connection: Connection, answer: object
) -> None:
    broker.next(ApiKey.PRODUCE, answer)  # type: ignore[arg-type]
    with failing("malformed"):
        send(connection, soon())
    assert not connection.open


def test_connect_again_after_the_node_closed_makes_a_new_connection(broker: FakeBroker, connection: Connection) -> None:
    assert metadata(connection, "hw", soon()).controller == 1
    broker.drop_connections()
    end = soon()
    while time.monotonic_ns() < end:
        # The end of the old stream may take a moment to arrive; `connect` sees it once it has.
        connection.connect(soon())
        try:
            assert metadata(connection, "hw", soon()).controller == 1
            return
        except ClientError:
            continue
    pytest.fail("no new connection")


def test_produce_acks_0_waits_for_no_response(broker: FakeBroker, connection: Connection) -> None:
    sent = produce_one(connection, "hw", 0, [7], acks=0, record_bytes=10, timeout_ms=1000, deadline_ns=soon())
    assert (sent.error, sent.base_offset) == (None, -1)
    # The answer to the next request is not mistaken for one to the send.
    assert metadata(connection, "hw", soon()).controller == 1
    assert broker.partitions[0].leo == 1


def test_produce_error_of_the_broker_is_its_name(broker: FakeBroker, connection: Connection) -> None:
    broker.partitions[0].produce_error = 19
    sent = produce_one(connection, "hw", 0, [7], acks=-1, record_bytes=10, timeout_ms=1000, deadline_ns=soon())
    assert (sent.error, sent.base_offset) == ("NOT_ENOUGH_REPLICAS", -1)
