"""One request's place in its connection's answer order, and what becomes of it when it comes to the front."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from broker.net.send import OutputQueue
from broker.wire.chunks import Chunk, FileSlice, chunks_length

_PREFIX_JOIN_BYTES_MAX: Final = 4096
_LENGTH = struct.Struct(">i")
_NOTHING: Final[tuple[Chunk, ...]] = ()


class SlotOwner(Protocol):
    """The connection, as its slots see it."""

    @property
    def answers_wanted(self) -> bool: ...

    def slot_fulfilled(self, slot: Slot) -> None: ...

    def stop_reading(self) -> None: ...


class Slot:
    """Satisfies runtime's ResponseSlot. chunks: None until fulfilled; length: their bytes."""

    __slots__ = ("_owner", "chunks", "close_reason", "length")

    def __init__(self, owner: SlotOwner) -> None:
        self._owner = owner
        self.chunks: Sequence[Chunk] | None = None
        self.length = 0
        self.close_reason: str | None = None

    def fulfil(self, chunks: Sequence[Chunk]) -> None:
        """chunks: the response after its length prefix.

        File slices must be valid until this turn's end; memory must stay unchanged until it is sent, so no frame of
        a receive buffer may be in it.
        """
        assert self.chunks is None, "a response slot is fulfilled once"
        self.chunks = chunks
        self.length = chunks_length(chunks)
        self._owner.slot_fulfilled(self)

    def fulfil_nothing(self) -> None:
        """This request has no answer (acks=0)."""
        assert self.chunks is None, "a response slot is fulfilled once"
        self.chunks = _NOTHING
        self._owner.slot_fulfilled(self)

    def close_connection(self, reason: str) -> None:
        """Answer what came before, then close; requests that came later are not served."""
        self.close_reason = reason
        self._owner.stop_reading()
        self.fulfil_nothing()

    @property
    def open(self) -> bool:
        """False once the connection is gone; a fulfil then does nothing."""
        return self._owner.answers_wanted


def take_fulfilled(slots: deque[Slot], output: OutputQueue) -> tuple[int, str | None]:
    """Move the answers at the front of `slots` to `output`, up to the first that is open or asks to close.

    Returns the bytes of the length prefixes that were added, and the reason when a slot asks to close.
    """
    prefix_bytes = 0
    while slots:
        slot = slots[0]
        if slot.chunks is None:
            break
        if slot.close_reason is not None:
            return prefix_bytes, slot.close_reason
        slots.popleft()
        if slot.length:
            prefix_bytes += _LENGTH.size
            _append_framed(output, slot.chunks, _LENGTH.pack(slot.length))
    return prefix_bytes, None


def _append_framed(output: OutputQueue, chunks: Sequence[Chunk], prefix: bytes) -> None:
    """prefix joins a short first chunk, so that a small answer is one buffer."""
    for chunk in chunks:
        size = chunk.length if isinstance(chunk, FileSlice) else len(chunk)
        if prefix and size <= _PREFIX_JOIN_BYTES_MAX and not isinstance(chunk, FileSlice):
            output.append(prefix + chunk, size + _LENGTH.size)
        elif prefix:
            output.append(prefix, _LENGTH.size)
            output.append(chunk, size)
        else:
            output.append(chunk, size)
        prefix = b""
