"""A connection over real sockets on loopback: frames, the order of answers, bounds, idleness."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct

import pytest

from broker.net import connection as connection_module
from broker.net import receive as receive_module
from broker.net.connection import IN_FLIGHT_MAX, UNSENT_BYTES_MAX
from broker.net.loop import EpollLoop
from broker.net.send import OutputQueue
from broker.net.slot import Slot
from tests.integration.net.connections import Server, collect, framed, read_frames, shut
from tests.integration.net.until import Until

pytestmark = pytest.mark.guarantee("bounded-queues", "frame-lengths", "slow-consumer")


def asked(server: Server, until: Until, *frames: bytes) -> tuple[socket.socket, list[Slot]]:
    """A client that has sent these at once, and the slots that they got."""
    client = server.connect()
    client.send(framed(*frames))
    until(lambda: len(server.slots) == len(frames))
    return client, server.slots


def test_connection_pipelined_responses_leave_in_request_order_whatever_comes_first(
    server: Server, until: Until
) -> None:
    client, (a, b, c, d) = asked(server, until, b"a", b"b", b"c", b"d")
    d.fulfil([b"D"])
    b.fulfil([b"B1", b"B2"])
    got = bytearray()
    for _ in range(3):
        server.loop.run_once(timeout_ms_max=0)
    collect(client, got)
    assert got == b""
    a.fulfil([b"A"])
    c.fulfil_nothing()
    assert read_frames(client, 3, until) == [b"A", b"B1B2", b"D"]
    assert server.connection.in_flight == 0


def test_connection_tells_the_next_response_once_when_it_alone_keeps_later_ones_waiting(
    server: Server, until: Until
) -> None:
    client, (first, second, third, fourth) = asked(server, until, b"poll", b"poll", b"ask", b"ask")
    told: list[str] = []

    def patient(slot: Slot, name: str) -> None:
        def end() -> None:
            told.append(name)
            slot.fulfil([name.encode()])

        slot.when_overtaken(end)

    patient(first, "first")
    patient(second, "second")
    for _ in range(3):
        server.loop.run_once(timeout_ms_max=0)
    assert told == [], "nothing is ready behind them"
    fourth.fulfil([b"fourth"])
    until(lambda: told == ["first", "second"])
    third.when_overtaken(None)
    assert read_frames(client, 2, until) == [b"first", b"second"]
    third.fulfil([b"third"])
    assert read_frames(client, 2, until) == [b"third", b"fourth"]
    assert told == ["first", "second"]


def test_connection_tells_no_response_that_is_not_the_next(server: Server, until: Until) -> None:
    client, (before, poll, after) = asked(server, until, b"a", b"poll", b"b")
    told: list[str] = []
    poll.when_overtaken(lambda: told.append("poll"))
    after.fulfil([b"B"])
    for _ in range(3):
        server.loop.run_once(timeout_ms_max=0)
    assert told == [], "it keeps nobody waiting yet"
    before.fulfil([b"A"])
    assert read_frames(client, 1, until) == [b"A"]
    until(lambda: told == ["poll"])
    poll.fulfil([b"P"])
    assert read_frames(client, 2, until) == [b"P", b"B"]


def test_connection_one_turn_responds_with_one_send(
    server: Server, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.handler = lambda frame, slot: slot.fulfil([bytes(frame)])
    client = server.connect()
    until(lambda: len(server.listener.connections) == 1)
    sends = 0
    plain = OutputQueue.send

    def counted(queue: OutputQueue, sock: socket.socket) -> bool:
        nonlocal sends
        sends += 1
        return plain(queue, sock)

    monkeypatch.setattr(OutputQueue, "send", counted)
    client.send(framed(*[b"%d" % index for index in range(200)]))
    assert read_frames(client, 200, until) == [b"%d" % index for index in range(200)]
    assert sends <= 3


def test_connection_half_frames_are_joined(server: Server, until: Until) -> None:
    client = server.connect()
    data = framed(b"hello", b"x" * 5000)
    for at in range(12):
        client.send(data[at : at + 1])
        server.loop.run_once(timeout_ms_max=20)
    client.send(data[12:])
    until(lambda: len(server.frames) == 2)
    assert server.frames == [b"hello", b"x" * 5000]


@pytest.mark.parametrize("in_flight_max", [IN_FLIGHT_MAX, 8])
def test_connection_frames_of_one_turn_are_intact_and_writable_in_the_hooks(
    server: Server, until: Until, monkeypatch: pytest.MonkeyPatch, in_flight_max: int
) -> None:
    # With few in flight the connection stops and resumes all the time, and frames wait in the buffer.
    monkeypatch.setattr(connection_module, "IN_FLIGHT_MAX", in_flight_max)
    held: list[memoryview] = []
    written: list[bytes] = []

    def keep(frame: memoryview, slot: Slot) -> None:
        frame[:1] = b"!"
        held.append(frame)
        slot.fulfil_nothing()

    def hook() -> None:
        written.extend(bytes(frame) for frame in held)
        held.clear()

    server.handler = keep
    server.loop.add_before_send(hook)
    client = server.connect()
    sent = [b"%06d" % index + bytes(index % 700) for index in range(3000)]
    data = framed(*sent)

    def pump() -> bool:
        nonlocal data
        if data:
            with contextlib.suppress(BlockingIOError):
                data = data[client.send(data) :]
        return len(written) == len(sent)

    until(pump)
    assert written == [b"!" + frame[1:] for frame in sent]


@pytest.mark.parametrize("size", [-1, 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_connection_hostile_size_is_logged_once_and_closed(
    server: Server, until: Until, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.connect()
    client.send(struct.pack(">i", size) + b"rest")
    with caplog.at_level(logging.WARNING):
        until(lambda: len(server.closed) == 1)
    assert len([r for r in caplog.records if str(size) in r.getMessage()]) == 1
    assert server.frames == []
    assert not server.listener.connections


def test_connection_handler_that_raises_closes_only_its_own(
    server: Server, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(frame: memoryview, slot: Slot) -> None:
        if bytes(frame) == b"bad":
            raise RuntimeError("cannot handle that")
        slot.fulfil([b"ok"])

    server.handler = handler
    good, bad = server.connect(), server.connect()
    bad.send(framed(b"bad"))
    until(lambda: len(server.closed) == 1)
    good.send(framed(b"good"))
    assert read_frames(good, 1, until) == [b"ok"]
    assert "cannot handle that" in caplog.text


def test_connection_reset_by_the_client_closes_and_a_late_response_does_nothing(server: Server, until: Until) -> None:
    client = server.connect()
    client.send(framed(b"a"))
    until(lambda: len(server.slots) == 1)
    (slot,) = server.slots
    assert slot.open
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    until(lambda: len(server.closed) == 1)
    assert not slot.open
    slot.fulfil([b"late"])
    server.loop.run_once(timeout_ms_max=0)


def test_connection_in_flight_bound_stops_reading_until_half_have_responses(server: Server, until: Until) -> None:
    client = server.connect()
    client.send(framed(*[b"x"] * (IN_FLIGHT_MAX + 500)))
    until(lambda: len(server.slots) == IN_FLIGHT_MAX)
    for _ in range(5):
        server.loop.run_once(timeout_ms_max=0)
    assert len(server.slots) == IN_FLIGHT_MAX
    for slot in server.slots[: IN_FLIGHT_MAX // 2 - 1]:
        slot.fulfil([b"y"])
    for _ in range(3):
        server.loop.run_once(timeout_ms_max=0)
    assert len(server.slots) == IN_FLIGHT_MAX
    server.slots[IN_FLIGHT_MAX // 2 - 1].fulfil([b"y"])
    until(lambda: len(server.slots) == IN_FLIGHT_MAX + 500)
    for slot in server.slots[IN_FLIGHT_MAX // 2 :]:
        slot.fulfil([b"y"])
    assert len(read_frames(client, IN_FLIGHT_MAX + 500, until)) == IN_FLIGHT_MAX + 500


def test_connection_slow_reader_is_not_read_further_and_then_gets_everything(server: Server, until: Until) -> None:
    answer = os.urandom(256 * 1024)
    server.handler = lambda frame, slot: slot.fulfil([bytes(frame), answer])
    client = server.connect(receive_buffer=8192)
    requests = 200
    client.send(framed(*[b"%04d" % index for index in range(requests)]))
    seen = -1

    def settled() -> bool:
        nonlocal seen
        before, seen = seen, len(server.frames)
        return before == seen and seen > 0

    until(settled)
    connection = server.connection
    assert len(server.frames) < requests
    assert connection.unsent_bytes <= UNSENT_BYTES_MAX + len(answer) + 100
    assert read_frames(client, requests, until) == [b"%04d" % index + answer for index in range(requests)]
    assert connection.unsent_bytes == 0


def test_connection_full_buffer_at_the_stop_is_handed_out_after_it(
    server: Server, until: Until, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_module, "BUFFER_BYTES_MIN", 1024)
    monkeypatch.setattr(receive_module, "_BUFFER_BYTES_STEP", 1024)

    def later(frame: memoryview, slot: Slot) -> None:
        answer = [bytes(4 * UNSENT_BYTES_MAX)] if bytes(frame) == b"big" else [b"small"]
        server.loop.call_soon(lambda: slot.fulfil(answer))

    server.handler = later
    client = server.connect()
    client.send(framed(b"big"))
    until(lambda: bool(server.listener.connections) and server.connection.unsent_bytes > 0)
    client.send(framed(*[b"%020d" % index for index in range(500)]))
    until(lambda: server.connection.buffer_bytes > 0 and server.connection._paused)
    complete = 500
    assert len(read_frames(client, 1 + complete, until)) == 1 + complete
    assert server.frames[1:] == [b"%020d" % index for index in range(complete)]
    assert "failed" not in caplog.text


def test_connection_that_is_gone_holds_no_half_frame_for_the_request_that_still_waits(
    server: Server, until: Until
) -> None:
    client = server.connect()
    client.send(framed(b"a") + (1_000_000).to_bytes(4, "big") + bytes(100_000))
    until(lambda: len(server.slots) == 1 and server.connection.buffer_bytes >= 100_000)
    connection = server.connection
    client.close()
    until(lambda: not connection.open)
    assert not server.slots[0].open
    assert connection.buffer_bytes == 0


def test_connection_idle_is_closed_and_a_waiting_request_is_not_idleness(loop: EpollLoop, until: Until) -> None:
    server = Server(loop, idle_ms_max=60)
    idle, waiting = server.connect(), server.connect()
    waiting.send(framed(b"long poll"))
    got = bytearray()
    until(lambda: len(server.slots) == 1)
    until(lambda: collect(idle, got))
    start_ms = loop.now_ms()
    until(lambda: loop.now_ms() > start_ms + 100)
    assert server.slots[0].open
    server.slots[0].fulfil([b"done"])
    assert read_frames(waiting, 1, until) == [b"done"]
    shut(server)


def test_connection_is_never_too_idle_where_that_is_turned_off(loop: EpollLoop, until: Until) -> None:
    server = Server(loop, idle_ms_max=-1)
    client = server.connect()
    until(lambda: len(server.listener.connections) == 1)
    start_ms = loop.now_ms()
    while loop.now_ms() < start_ms + 50:
        loop.run_once(timeout_ms_max=10)
    assert len(server.listener.connections) == 1
    client.send(framed(b"late"))
    until(lambda: server.frames == [b"late"])
    shut(server)
