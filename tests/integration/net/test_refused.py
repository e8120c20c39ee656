"""A request is refused with the end of its connection: what was asked before it is answered, and what comes behind it
is read for its end alone.
"""

from __future__ import annotations

import contextlib
import socket

import pytest

from broker.net.loop import READABLE
from tests.integration.net.connections import Server, collect, framed, split
from tests.integration.net.until import Until

pytestmark = pytest.mark.guarantee("bounded-queues")


def test_refused_sends_earlier_responses_then_ends_the_stream(
    server: Server, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.connect(receive_buffer=8192)
    client.send(framed(b"a", b"b", b"c"))
    until(lambda: len(server.slots) == 3)
    a, b, c = server.slots
    b.close_connection("acks=0 failed")
    assert (a.open, c.open) == (True, False), "nobody needs to work for an answer behind the last one"
    c.fulfil([b"never"])
    server.loop.run_once(timeout_ms_max=0)
    assert server.connection.open
    # More input may not turn the close into a reset that overtakes the answer.
    client.send(framed(b"ignored"))
    answer = bytes(1_500_000)  # more than the client's kernel takes before it is read
    a.fulfil([answer])
    for _ in range(5):
        server.loop.run_once(timeout_ms_max=5)
    got = bytearray()
    until(lambda: collect(client, got))
    assert split(got) == [answer]
    assert len(server.frames) == 3
    client.close()
    until(lambda: len(server.closed) == 1)
    assert caplog.text.count("acks=0 failed") == 1


def test_refused_waits_for_no_earlier_response_once_the_client_is_gone(
    server: Server, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.connect()
    client.send(framed(b"a poll that waits for weeks", b"nonsense", b"c"))
    until(lambda: len(server.slots) == 3)
    poll, nonsense, _ = server.slots
    nonsense.close_connection("it makes no sense")
    for _ in range(3):
        server.loop.run_once(timeout_ms_max=0)
    assert server.connection.open
    client.shutdown(socket.SHUT_WR)
    until(lambda: len(server.closed) == 1)
    assert not poll.open
    assert caplog.text.count("it makes no sense") == 1
    assert collect(client, bytearray())


def test_refused_sees_the_client_go_behind_more_than_its_window(
    server: Server, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.connect()
    client.send(framed(b"a poll that waits for weeks", b"nonsense"))
    until(lambda: len(server.slots) == 2)
    server.slots[1].close_connection("it makes no sense")
    client.setblocking(False)
    left = memoryview(bytes(20_000_000))  # more than both kernels hold

    def all_sent() -> bool:
        nonlocal left
        with contextlib.suppress(BlockingIOError):
            left = left[client.send(left) :]
        return not left

    until(all_sent)
    assert server.connection.open
    client.close()
    until(lambda: len(server.closed) == 1)
    assert not server.slots[0].open
    assert (len(server.frames), caplog.text.count("it makes no sense")) == (2, 1)


def test_refused_leaves_the_last_responses_to_a_client_that_listens_only(server: Server, until: Until) -> None:
    client = server.connect(receive_buffer=8192)
    client.send(framed(b"a", b"b"))
    until(lambda: len(server.slots) == 2)
    a, b = server.slots
    answer = bytes(20_000_000)
    a.fulfil([answer])
    b.close_connection("")
    for _ in range(5):
        server.loop.run_once(timeout_ms_max=5)
    client.shutdown(socket.SHUT_WR)
    until(lambda: not server.connection._events & READABLE)
    got = bytearray()
    until(lambda: collect(client, got))
    assert split(got) == [answer]
    until(lambda: len(server.closed) == 1)


def test_refused_with_a_response_sends_it_before_the_end(
    server: Server, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.connect()
    client.send(framed(b"a", b"b", b"c"))
    until(lambda: len(server.slots) == 3)
    a, b, c = server.slots
    c.fulfil([b"never"])
    b.close_connection("", [b"go away"])
    a.fulfil([b"first"])
    got = bytearray()
    until(lambda: collect(client, got))
    assert split(got) == [b"first", b"go away"]
    client.close()
    until(lambda: len(server.closed) == 1)
    assert "closing connection" not in caplog.text
