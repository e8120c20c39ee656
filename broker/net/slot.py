"""One request's place in its connection's order of responses, and what happens when it comes to the front."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from broker.net.send import OutputQueue
from broker.wire.chunks import Chunk, FileSlice, chunk_length

_JOIN_BYTES_MAX: Final = 4096
_LENGTH = struct.Struct(">i")
_PREFIX_BYTES: Final = _LENGTH.size
_NOTHING: Final[tuple[Chunk, ...]] = ()


class SlotOwner(Protocol):
    """The connection, as its slots see it."""

    @property
    def responses_wanted(self) -> bool:
        """False once the client is gone, or gets no more responses: work for them may be dropped."""
        ...

    def slot_fulfilled(self, slot: Slot) -> None:
        """The slot has its response, which is sent once those before it are."""
        ...

    def close_after(self, slot: Slot) -> None:
        """Close the connection once this slot's response is sent; requests behind it get none."""
        ...


class _NoOwner:
    """Of slots behind one that closes their connection."""

    @property
    def responses_wanted(self) -> bool:
        return False

    def slot_fulfilled(self, slot: Slot) -> None:
        """It goes nowhere."""

    def close_after(self, slot: Slot) -> None:
        """The connection closes anyway."""


_NO_OWNER: Final = _NoOwner()


class Slot:
    """Satisfies runtime's ResponseSlot. chunks: None until fulfilled; length: their bytes; files: slices among them.
    overtaken: see `when_overtaken`.
    """

    __slots__ = ("_owner", "chunks", "close_reason", "files", "length", "overtaken")

    def __init__(self, owner: SlotOwner) -> None:
        self._owner: SlotOwner = owner
        self.chunks: Sequence[Chunk] | None = None
        self.length = 0
        self.files = False
        self.close_reason: str | None = None
        self.overtaken: Callable[[], None] | None = None

    def when_overtaken(self, call: Callable[[], None] | None) -> None:
        """call: once, in a later turn, where this response is the next to be sent, and a later one that is there waits
        for it.
        """
        self.overtaken = call

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        """chunks: the response after its length prefix.

        File slices must be valid until this turn's end; memory must stay unchanged until it is sent, so no frame of
        a receive buffer may be in it.
        """
        assert self.chunks is None, "a response slot is fulfilled once"
        self.chunks = chunks
        self.overtaken = None
        length = 0
        for chunk in chunks:
            if isinstance(chunk, FileSlice):
                self.files = True
                length += chunk.length
            else:
                length += len(chunk)
        self.length = length
        self._owner.slot_fulfilled(self)

    def fulfil_nothing(self) -> None:
        """This request has no response (acks=0)."""
        assert self.chunks is None, "a response slot is fulfilled once"
        self.chunks = _NOTHING
        self.overtaken = None
        self._owner.slot_fulfilled(self)

    def close_connection(self, reason: str, response: Sequence[Chunk] = _NOTHING) -> None:
        """Send the responses to earlier requests, and to this one if it has any, then close. Later ones get none."""
        assert self.chunks is None, "a response slot is fulfilled once"
        self.close_reason = reason
        self._owner.close_after(self)
        self.fulfil(response)

    def abandon(self) -> None:
        """The connection closes before it comes to this slot."""
        self._owner = _NO_OWNER

    @property
    def open(self) -> bool:
        """False once the connection is gone, or closes before it comes to this slot; a fulfil then does nothing."""
        return self._owner.responses_wanted

    @property
    def done(self) -> bool:
        """Fulfilled."""
        return self.chunks is not None


def take_fulfilled(slots: deque[Slot], output: OutputQueue) -> tuple[int, str | None]:
    """Move the responses at the front of `slots` to `output`, up to the first that is open, or that closes all.
    Neighbouring small responses are joined. Returns the bytes of the length prefixes that were added, and the reason
    when a slot asks to close.
    """
    prefix_bytes = 0
    close_reason: str | None = None
    joined: list[bytes | bytearray | memoryview] = []
    joined_bytes = 0
    pack = _LENGTH.pack
    while slots:
        slot = slots[0]
        chunks = slot.chunks
        if chunks is None:
            break
        slots.popleft()
        close_reason = slot.close_reason
        length = slot.length
        if not length:
            if close_reason is None:
                continue
            break
        prefix_bytes += _PREFIX_BYTES
        joined.append(pack(length))
        joined_bytes += _PREFIX_BYTES
        for chunk in chunks:
            if not isinstance(chunk, FileSlice) and (size := len(chunk)) <= _JOIN_BYTES_MAX:
                joined.append(chunk)
                joined_bytes += size
                continue
            output.append(b"".join(joined), joined_bytes)
            joined.clear()
            joined_bytes = 0
            output.append(chunk, chunk_length(chunk))
        if close_reason is not None:
            break
    if joined:
        output.append(b"".join(joined), joined_bytes)
    return prefix_bytes, close_reason
