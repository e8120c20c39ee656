from __future__ import annotations

import socket
import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.net.receive import BUFFER_BYTES_MIN, POOLED_BYTES_MAX, BufferPool, FrameBuffer, FrameSizeError
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("frame-lengths")


class Stream:
    """Stands in for a socket: gives `sizes` bytes of `data` at a time."""

    def __init__(self, data: bytes, sizes: list[int] | None = None) -> None:
        self.data = data
        self.sizes = sizes or [len(data)]
        self.calls = 0

    def recv_into(self, view: memoryview) -> int:
        assert len(view) > 0, "an empty view would look like the stream's end"
        size = min(self.sizes[self.calls % len(self.sizes)], len(self.data), len(view))
        self.calls += 1
        view[:size] = self.data[:size]
        self.data = self.data[size:]
        return size


def receive(buffer: FrameBuffer, stream: Stream) -> int:
    return buffer.receive(cast(socket.socket, stream))


def next_frame(buffer: FrameBuffer) -> bytes:
    frame = buffer.next_frame()
    assert frame is not None
    return bytes(frame)


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@examples()
@given(
    st.lists(st.sampled_from([0, 1, 7, 500, 30_000, 70_000, 200_000]), min_size=1, max_size=8),
    st.lists(st.sampled_from([1000, 3, 4096, 65_536, 300_000]), min_size=1, max_size=4),
)
def test_frame_buffer_any_cutting_gives_the_same_frames(lengths: list[int], sizes: list[int]) -> None:
    frames = [bytes([index + 1]) * length for index, length in enumerate(lengths)]
    stream = Stream(framed(*frames), [max(size, 200) for size in sizes])
    buffer = FrameBuffer(1 << 20)
    found = []
    while stream.data:
        receive(buffer, stream)
        turn = []
        while (frame := buffer.next_frame()) is not None:
            turn.append(frame)
        # All frames of a turn are intact at its end, also the first.
        found += [bytes(frame) for frame in turn]
    assert found == frames


def test_frame_buffer_byte_by_byte_gives_the_frame() -> None:
    stream, buffer = Stream(framed(b"hello", b""), [1]), FrameBuffer(100)
    found = []
    while stream.data:
        receive(buffer, stream)
        while (frame := buffer.next_frame()) is not None:
            found.append(bytes(frame))
    assert found == [b"hello", b""]


def test_frame_buffer_frames_are_writable_in_place() -> None:
    buffer = FrameBuffer(100)
    receive(buffer, Stream(framed(b"abc", b"def")))
    first, second = buffer.next_frame(), buffer.next_frame()
    assert first is not None
    assert second is not None
    first[:] = b"xyz"
    assert (bytes(first), bytes(second)) == (b"xyz", b"def")


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_frame_buffer_hostile_size_is_refused_at_once(size: int) -> None:
    buffer = FrameBuffer(100)
    receive(buffer, Stream(struct.pack(">i", size)))
    with pytest.raises(FrameSizeError, match=str(size)) as caught:
        buffer.next_frame()
    assert "socket.request.max.bytes" in str(caught.value)
    assert buffer.capacity <= BUFFER_BYTES_MIN


def test_frame_buffer_complete_frame_above_the_limit_is_refused() -> None:
    buffer = FrameBuffer(4)
    receive(buffer, Stream(framed(b"12345")))
    with pytest.raises(FrameSizeError):
        buffer.next_frame()


def test_frame_buffer_half_open_frame_holds_about_what_was_sent() -> None:
    sent = 300_000
    stream = Stream(struct.pack(">i", 90_000_000) + bytes(sent), [50_000])
    buffer = FrameBuffer(100_000_000)
    while stream.data:
        receive(buffer, stream)
        assert buffer.next_frame() is None
    assert buffer.capacity < 2.5 * sent


def test_frame_buffer_large_frame_is_whole_after_it_moved() -> None:
    # Longer than what moves at a time, and begun behind another one.
    sent = bytes(range(251)) * 20_000
    stream = Stream(framed(b"first", sent), [300_001])
    buffer = FrameBuffer(100_000_000)
    found = []
    while stream.data:
        receive(buffer, stream)
        while (frame := buffer.next_frame()) is not None:
            found.append(bytes(frame))
    assert found == [b"first", sent]


class Turns:
    """A loop's turn number, and the pool that counts by it."""

    def __init__(self) -> None:
        self.number = 0
        self.pool = BufferPool(lambda: self.number)


def test_frame_buffer_parked_holds_only_the_bytes_of_a_frame_that_has_begun() -> None:
    turns = Turns()
    buffer = FrameBuffer(100, turns.pool)
    receive(buffer, Stream(framed(b"abc") + b"\0"))
    assert buffer.next_frame() is not None
    assert buffer.next_frame() is None
    buffer.park()
    assert buffer.capacity == 1
    turns.number += 1
    receive(buffer, Stream(b"\0\0\0"))
    assert next_frame(buffer) == b""
    buffer.park()
    assert buffer.capacity == 0
    turns.number += 1
    receive(buffer, Stream(framed(b"again")))
    assert next_frame(buffer) == b"again"


def test_frame_buffer_parked_leaves_the_turns_frames_alone_and_is_shared_in_the_next() -> None:
    turns = Turns()
    first, second = FrameBuffer(1000, turns.pool), FrameBuffer(1000, turns.pool)
    receive(first, Stream(framed(b"first")))
    frame = first.next_frame()
    assert frame is not None
    first.park()
    receive(second, Stream(framed(b"other")))
    assert next_frame(second) == b"other"
    assert bytes(frame) == b"first"
    second.park()
    turns.number += 1
    receive(first, Stream(framed(b"third")))
    assert next_frame(first) == b"third"


def test_frame_buffer_with_much_of_the_next_frame_is_not_parked() -> None:
    turns = Turns()
    buffer = FrameBuffer(100_000, turns.pool)
    stream = Stream(struct.pack(">i", 50_000) + b"x" * 50_000, [20_000])
    receive(buffer, stream)
    assert buffer.next_frame() is None
    buffer.park()
    assert buffer.capacity >= 20_000
    turns.number += 1
    while stream.data:
        receive(buffer, stream)
    assert next_frame(buffer) == b"x" * 50_000


def test_buffer_pool_keeps_a_bounded_amount() -> None:
    turns = Turns()
    size = 6 * 1024 * 1024
    for _ in range(10):
        turns.pool.give(memoryview(bytearray(size)))
    turns.number += 1
    sizes = [len(turns.pool.take()) for _ in range(10)]
    assert sizes.count(size) == POOLED_BYTES_MAX // size


@examples()
@given(
    st.lists(st.sampled_from([0, 1, 7, 500, 30_000, 70_000]), min_size=1, max_size=8),
    st.lists(st.sampled_from([1, 3, 1000, 4096, 65_536]), min_size=1, max_size=4),
)
def test_frame_buffers_of_one_pool_do_not_mix(lengths: list[int], sizes: list[int]) -> None:
    turns = Turns()
    frames = [[bytes([16 * number + index + 1]) * length for index, length in enumerate(lengths)] for number in (0, 1)]
    streams = [Stream(framed(*own), [max(size, 200) for size in sizes]) for own in frames]
    buffers = [FrameBuffer(1 << 20, turns.pool) for _ in streams]
    found: list[list[bytes]] = [[], []]
    while any(stream.data for stream in streams):
        turns.number += 1
        turn: list[tuple[int, memoryview]] = []
        for number, (stream, buffer) in enumerate(zip(streams, buffers, strict=True)):
            if stream.data:
                receive(buffer, stream)
                while (frame := buffer.next_frame()) is not None:
                    turn.append((number, frame))
                buffer.park()
        for number, frame in turn:
            found[number].append(bytes(frame))
    assert found == frames
