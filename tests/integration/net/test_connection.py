"""Real sockets on loopback against a listener whose loop the test turns."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.net import connection as connection_module
from broker.net import receive as receive_module
from broker.net.connection import IN_FLIGHT_MAX, UNSENT_BYTES_MAX, Connection
from broker.net.listener import Listener
from broker.net.loop import EpollLoop
from broker.net.send import FileFailure, OutputQueue, ShortRead
from broker.net.slot import Slot
from broker.wire.chunks import FileSlice

pytestmark = pytest.mark.guarantee("L5", "bounded-queues", "frame-lengths", "slow-consumer")

Until = Callable[[Callable[[], bool]], None]


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


@pytest.fixture
def server(loop: EpollLoop) -> Iterator[Server]:
    made = Server(loop)
    yield made
    shut(made)


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


def test_connection_pipelined_responses_leave_in_request_order_whatever_comes_first(
    server: Server, until: Until
) -> None:
    client = server.connect()
    client.send(framed(b"a", b"b", b"c", b"d"))
    until(lambda: len(server.slots) == 4)
    a, b, c, d = server.slots
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


def test_slot_close_connection_sends_earlier_responses_then_ends_the_stream(
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


def test_slot_close_connection_with_a_response_sends_it_before_the_end(
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


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[tuple[int, bytes, Path]]:
    data = os.urandom(6 * 1024 * 1024)
    path = tmp_path / "segment"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    yield fd, data, path
    os.close(fd)


def test_connection_file_slices_big_and_small_arrive_in_place(
    server: Server, until: Until, segment: tuple[int, bytes, Path]
) -> None:
    fd, data, _ = segment
    client = server.connect()
    client.send(framed(b"a", b"b"))
    until(lambda: len(server.slots) == 2)
    first, second = server.slots
    second.fulfil([b"tail", FileSlice(fd, 5, 100)])
    first.fulfil([b"head", FileSlice(fd, 1000, 5_000_000), b"middle", FileSlice(fd, 7, 65_536), FileSlice(fd, 0, 0)])
    assert read_frames(client, 2, until) == [
        b"head" + data[1000:5_001_000] + b"middle" + data[7 : 7 + 65_536],
        b"tail" + data[5:105],
    ]


def test_connection_slow_file_slice_survives_the_closing_and_reuse_of_its_descriptor(
    server: Server, until: Until, segment: tuple[int, bytes, Path], tmp_path: Path
) -> None:
    _, data, path = segment
    fd = os.open(path, os.O_RDONLY)
    client = server.connect(receive_buffer=8192)
    client.send(framed(b"a", b"b"))
    until(lambda: len(server.slots) == 2)
    server.slots[1].fulfil([FileSlice(fd, 0, 90_000)])  # waits behind the first
    server.slots[0].fulfil([FileSlice(fd, 0, 6_000_000), FileSlice(fd, 10, 70_000)])
    server.loop.run_once(timeout_ms_max=0)
    assert server.connection.unsent_bytes > 0
    (tmp_path / "other").write_bytes(bytes(7_000_000))
    os.close(fd)
    reused = os.open(tmp_path / "other", os.O_RDONLY)
    assert reused == fd
    open_before = len(os.listdir("/proc/self/fd"))
    assert read_frames(client, 2, until) == [data[:6_000_000] + data[10:70_010], data[:90_000]]
    os.close(reused)
    assert len(os.listdir("/proc/self/fd")) < open_before


def test_connection_file_slice_that_waits_behind_an_open_slot_survives_its_descriptor(
    server: Server, until: Until, segment: tuple[int, bytes, Path], tmp_path: Path
) -> None:
    _, data, path = segment
    fd = os.open(path, os.O_RDONLY)
    client = server.connect()
    client.send(framed(b"a", b"b"))
    until(lambda: len(server.slots) == 2)
    server.slots[1].fulfil([FileSlice(fd, 0, 100), FileSlice(fd, 0, 90_000)])
    server.loop.run_once(timeout_ms_max=0)
    (tmp_path / "other").write_bytes(bytes(90_000))
    os.close(fd)
    reused = os.open(tmp_path / "other", os.O_RDONLY)
    assert reused == fd
    server.slots[0].fulfil([b"A"])
    assert read_frames(client, 2, until) == [b"A", data[:100] + data[:90_000]]
    os.close(reused)


def test_connections_that_wait_for_the_same_file_hold_one_descriptor_together(
    server: Server, until: Until, segment: tuple[int, bytes, Path]
) -> None:
    fd, data, path = segment
    again = os.open(path, os.O_RDONLY)
    clients = [server.connect() for _ in range(3)]
    for client in clients:
        client.send(framed(*([b"first"] + [b"rest"] * 20)))
    until(lambda: len(server.slots) == 63)
    before = len(os.listdir("/proc/self/fd"))
    rest = [slot for slot, frame in zip(server.slots, server.frames, strict=True) if frame == b"rest"]
    for number, slot in enumerate(rest):
        slot.fulfil([FileSlice(again if number % 2 else fd, number, 10)])
    assert len(os.listdir("/proc/self/fd")) == before + 1
    os.close(again)
    gone = next(c for c in server.listener.connections if c.in_flight == 21)
    gone.close()
    server.loop.run_once(timeout_ms_max=0)
    for slot, frame in zip(server.slots, server.frames, strict=True):
        if frame == b"first" and slot.open:
            slot.fulfil([b"A"])
    answered = [client for client in clients if client.getsockname()[1] != int(gone.address.rpartition(":")[2])]
    got = [read_frames(client, 21, until)[1:] for client in answered]
    assert sorted(piece for pieces in got for piece in pieces) == sorted(
        data[number : number + 10] for number, slot in enumerate(rest) if slot._owner is not gone
    )
    assert len(os.listdir("/proc/self/fd")) == before - 2, "the shared one, the closed connection, and `again`"


def test_connection_closed_with_held_file_slices_gives_the_descriptors_back(
    server: Server, until: Until, segment: tuple[int, bytes, Path]
) -> None:
    fd, _, _ = segment
    client = server.connect()
    client.send(framed(b"a", b"b"))
    until(lambda: len(server.slots) == 2)
    before = len(os.listdir("/proc/self/fd"))
    server.slots[1].fulfil([FileSlice(fd, 0, 90_000)])
    assert len(os.listdir("/proc/self/fd")) == before + 1
    server.connection.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
    os.fstat(fd)


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


@pytest.mark.parametrize("length", [2_000_000, 60_000])
def test_connection_truncated_file_closes_with_a_reason(
    server: Server,
    until: Until,
    segment: tuple[int, bytes, Path],
    length: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fd, _, path = segment
    client = server.connect()
    client.send(framed(b"a"))
    until(lambda: len(server.slots) == 1)
    server.slots[0].fulfil([FileSlice(fd, 0, length)])
    os.truncate(path, length // 2)
    got = bytearray()
    until(lambda: collect(client, got))
    assert split(got) == []
    assert "truncated or closed" in caplog.text


@pytest.mark.patches
@pytest.mark.parametrize(("length", "call"), [(2_000_000, "sendfile"), (60_000, "pread")])
def test_connection_whose_file_cannot_be_read_closes_and_reports_the_file(
    loop: EpollLoop,
    until: Until,
    segment: tuple[int, bytes, Path],
    length: int,
    call: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[FileFailure] = []
    server = Server(loop, on_file_failure=failures.append)
    fd, content, _ = segment
    clients = [server.connect(), server.connect()]
    for client in clients:
        client.send(framed(b"a"))
    until(lambda: len(server.slots) == 2)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        server.slots[0].fulfil([FileSlice(fd, 0, length)])
        until(lambda: len(server.closed) == 1 and bool(failures))
    assert "cannot be read: [Errno 5]" in str(failures[0])
    assert "cannot be read" in caplog.text
    got = [bytearray(), bytearray()]
    server.slots[1].fulfil([FileSlice(fd, 0, length)])
    until(lambda: [collect(*each) for each in zip(clients, got, strict=True)].count(True) == 1 and any(map(split, got)))
    assert sorted(map(split, got)) == [[], [content[:length]]], "the other one is served"
    assert len(failures) == 1
    shut(server)


def test_connection_short_file_is_reported(loop: EpollLoop, until: Until, segment: tuple[int, bytes, Path]) -> None:
    failures: list[FileFailure] = []
    server = Server(loop, on_file_failure=failures.append)
    fd, _, path = segment
    client = server.connect()
    client.send(framed(b"a"))
    until(lambda: len(server.slots) == 1)
    os.truncate(path, 1000)
    server.slots[0].fulfil([FileSlice(fd, 0, 60_000)])
    until(lambda: bool(failures))
    assert isinstance(failures[0], ShortRead)
    shut(server)


@pytest.mark.patches
@pytest.mark.parametrize("code", [errno.EPIPE, errno.ECONNRESET, errno.ETIMEDOUT])
def test_connection_whose_socket_fails_says_nothing_of_the_file(
    loop: EpollLoop,
    until: Until,
    segment: tuple[int, bytes, Path],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[FileFailure] = []
    server = Server(loop, on_file_failure=failures.append)
    fd, _, _ = segment
    client = server.connect()
    client.send(framed(b"a"))
    until(lambda: len(server.slots) == 1)

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "sendfile", fail)
    server.slots[0].fulfil([FileSlice(fd, 0, 2_000_000)])
    until(lambda: len(server.closed) == 1)
    loop.run_once(timeout_ms_max=0)
    assert failures == []
    assert "answers lost" in caplog.text
    shut(server)


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
