"""Answers whose bytes lie in files: descriptors, full sockets, files that fail or are too short."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.net.loop import EpollLoop
from broker.net.send import FileFailure, ShortRead
from broker.wire.chunks import FileSlice
from tests.integration.net.connections import Server, collect, framed, read_frames, shut, split
from tests.integration.net.until import Until

pytestmark = pytest.mark.guarantee("L5", "slow-consumer")


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
    assert "responses lost" in caplog.text
    shut(server)
