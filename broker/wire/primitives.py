"""Kafka's primitive types: how an int, a string, an array length, a UUID, a tag lies in bytes.

Knows no message and no version. Malformed bytes raise `MalformedFrame` and nothing else; a claimed length is checked
against the bytes that are there before anything is allocated for it.
Topic ids are `str` in Kafka's own text form (22 characters of URL-safe base64, as in the topic znode), and "" is
the zero id, which Kafka reserves for "none".
Source: Kafka's protocol guide; KIP-482 (flexible versions); org.apache.kafka.common.Uuid.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NoReturn

NO_TOPIC_ID: Final = ""
_ZERO_ID: Final = bytes(16)
_TAGS_PER_STRUCT_MAX: Final = 1024
STRING_BYTES_MAX: Final = 32767
"""Of UTF-8. The compact form could say more, which Kafka refuses too."""

ANY_NUMBER: Final = 1 << 62
ELEMENTS_MAX: Final = 200_000
"""Of a client's request: a frame of 100 MB could have 30 million, which would take four gigabytes, and a minute."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class MalformedFrame(Exception):
    """Bytes that no sender who speaks the protocol can have meant."""

    def __init__(self, field: str, offset: int, value: object, problem: str) -> None:
        super().__init__(f"malformed frame: {field} at byte {offset}: {problem} (got {value!r})")
        self.field = field
        self.offset = offset
        self.value = value
        self.problem = problem


def topic_id_from_bytes(raw: bytes | memoryview) -> str:
    """Text form of a 16-byte id; "" for the zero id."""
    return _topic_id_text(bytes(raw))


@lru_cache(maxsize=4096)
def _topic_id_text(raw: bytes) -> str:
    if raw == _ZERO_ID:
        return NO_TOPIC_ID
    return binascii.b2a_base64(raw, newline=False)[:22].replace(b"+", b"-").replace(b"/", b"_").decode("ascii")


@lru_cache(maxsize=4096)
def topic_id_to_bytes(text: str) -> bytes:
    """The 16 bytes of a topic id; raises ValueError for text that is not one."""
    if not text:
        return _ZERO_ID
    try:
        raw = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"topic id {text!r}: not 22 characters of URL-safe base64 ({error})") from error
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"topic id {text!r}: {len(raw)} bytes instead of 16")
    return raw


class Reader:
    """A position in a frame; every method reads one value named `field` and moves on."""

    __slots__ = ("elements_left", "end", "pos", "view")

    def __init__(self, view: memoryview | bytes | bytearray, pos: int = 0, elements_max: int = ANY_NUMBER) -> None:
        """elements_max: of all arrays together."""
        self.view = view if isinstance(view, memoryview) else memoryview(view)
        self.pos = pos
        self.elements_left = elements_max
        self.end = len(self.view)

    @property
    def remaining(self) -> int:
        return self.end - self.pos

    def fail(self, field: str, value: object, problem: str) -> NoReturn:
        raise MalformedFrame(field, self.pos, value, problem)

    def take(self, length: int, field: str) -> memoryview:
        """A view of the next `length` bytes."""
        start = self.pos
        if length < 0 or length > self.end - start:
            self.fail(field, length, f"length outside the {self.end - start} bytes left")
        self.pos = start + length
        return self.view[start : start + length]

    def unpack(self, layout: struct.Struct, field: str) -> tuple[int, ...]:
        """The values of a fixed layout."""
        start = self.pos
        if layout.size > self.end - start:
            self.fail(field, self.end - start, f"needs {layout.size} bytes, so many are left")
        self.pos = start + layout.size
        return layout.unpack_from(self.view, start)

    def boolean(self, field: str) -> bool:
        return self.int8(field) != 0

    def int8(self, field: str) -> int:
        start = self.pos
        if start >= self.end:
            self.fail(field, 0, "needs 1 byte, so many are left")
        self.pos = start + 1
        byte = self.view[start]
        return byte - 256 if byte > 127 else byte

    def int16(self, field: str) -> int:
        return self.unpack(_INT16, field)[0]

    def int32(self, field: str) -> int:
        return self.unpack(_INT32, field)[0]

    def int64(self, field: str) -> int:
        return self.unpack(_INT64, field)[0]

    def uvarint(self, field: str) -> int:
        """Unsigned, at most 32 bits."""
        pos = self.pos
        if pos < self.end and (byte := self.view[pos]) < 0x80:  # nearly always
            self.pos = pos + 1
            return byte
        return self._base128(field, 32)

    def varint(self, field: str) -> int:
        """Zigzag, 32 bits."""
        raw = self._base128(field, 32)
        return (raw >> 1) ^ -(raw & 1)

    def varlong(self, field: str) -> int:
        """Zigzag, 64 bits."""
        raw = self._base128(field, 64)
        return (raw >> 1) ^ -(raw & 1)

    def _base128(self, field: str, bits: int) -> int:
        pos, view, end = self.pos, self.view, self.end
        value = shift = 0
        while True:
            if pos >= end:
                self.fail(field, value, "variable-length number without an end")
            byte = view[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                self.fail(field, value, f"variable-length number of more than {bits} bits")
        if value >> bits:
            self.fail(field, value, f"variable-length number of more than {bits} bits")
        self.pos = pos
        return value

    def uuid(self, field: str) -> str:
        return topic_id_from_bytes(self.take(16, field))

    def nullable_length(self, field: str, compact: bool, wide: bool) -> int:
        """−1 for null, else a length that is ≥ 0. wide: the classic form has 32 bits, not 16."""
        start = self.pos
        if compact:
            return self.uvarint(field) - 1
        length = self.unpack(_INT32 if wide else _INT16, field)[0]
        if length < -1:
            self.pos = start
            self.fail(field, length, "negative length")
        return length

    def nullable_string(self, field: str, compact: bool) -> str | None:
        length = self.nullable_length(field, compact, wide=False)
        if length < 0:
            return None
        start = self.pos
        if length > STRING_BYTES_MAX:
            # No older version and no record of a coordinator could repeat it.
            self.fail(field, length, f"a string of more than {STRING_BYTES_MAX} bytes")
        raw = self.take(length, field)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedFrame(field, start, bytes(raw[:64]), f"not UTF-8: {error.reason}") from None

    def string(self, field: str, compact: bool) -> str:
        pos = self.pos
        if compact and pos < self.end:
            # The usual string, in one step: shorter than 127 bytes, whole, and ASCII or other good UTF-8.
            end = pos + self.view[pos]
            if pos < end <= self.end and end - pos < 0x80:
                try:
                    value = str(self.view[pos + 1 : end], "utf-8")
                except UnicodeDecodeError:
                    pass
                else:
                    self.pos = end
                    return value
        found = self.nullable_string(field, compact)
        if found is None:
            raise MalformedFrame(field, pos, None, "null where a string is required")
        return found

    def nullable_bytes(self, field: str, compact: bool) -> memoryview | None:
        length = self.nullable_length(field, compact, wide=True)
        return None if length < 0 else self.take(length, field)

    def nullable_count(self, field: str, compact: bool, element_size_min: int) -> int:
        """Array length, −1 for null; refused when so many elements cannot be in the bytes left."""
        start = self.pos
        count = self.nullable_length(field, compact, wide=True)
        if count * element_size_min > self.end - self.pos:
            left = self.end - self.pos
            raise MalformedFrame(field, start, count, f"more array elements than {left} bytes can hold")
        if count > 0:
            self._take_elements(count, field, start)
        return count

    def _take_elements(self, count: int, field: str, start: int) -> None:
        """An element of three bytes in a frame is a hundred in memory, and has to be looked at."""
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedFrame(field, start, count, "more array elements than a request may have in all")

    def count(self, field: str, compact: bool, element_size_min: int) -> int:
        start = self.pos
        if (
            compact
            and start < self.end
            and 0 < (byte := self.view[start]) < 0x80
            and (byte - 1) * element_size_min < self.end - start
        ):
            self.pos = start + 1
            self._take_elements(byte - 1, field, start)
            return byte - 1
        count = self.nullable_count(field, compact, element_size_min)
        if count < 0:
            raise MalformedFrame(field, start, None, "null where an array is required")
        return count

    def tags(self, field: str) -> list[tuple[int, memoryview]]:
        """(tag, its bytes) in the order sent."""
        start = self.pos
        count = self.uvarint(field)
        if count > _TAGS_PER_STRUCT_MAX or count * 2 > self.end - self.pos:
            raise MalformedFrame(field, start, count, "more tagged fields than can be meant")
        found: list[tuple[int, memoryview]] = []
        previous = -1
        for _ in range(count):
            tag = self.uvarint(field)
            if tag <= previous:
                self.fail(field, tag, f"tag after {previous}, tags must rise")
            previous = tag
            found.append((tag, self.take(self.uvarint(field), field)))
        return found

    def skip_tags(self, field: str) -> None:
        if self.pos < self.end and self.view[self.pos] == 0:
            self.pos += 1
        else:
            self.tags(field)

    def expect_end(self, field: str) -> None:
        """Bytes after the last field mean that the sender used another layout."""
        if self.pos != self.end:
            self.fail(field, self.end - self.pos, "bytes left over after the last field")


class Writer:
    """Bytes being built; the mirror of `Reader`."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        self.buffer += data

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def int8(self, value: int) -> None:
        if not -128 <= value <= 127:
            raise ValueError(f"{value} is no int8")
        self.buffer.append(value & 0xFF)

    def int16(self, value: int) -> None:
        self.buffer += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += _INT64.pack(value)

    def uvarint(self, value: int) -> None:
        if not 0 <= value <= 0xFFFFFFFF:
            raise ValueError(f"{value} is no unsigned 32-bit number")
        self._base128(value)

    def varint(self, value: int) -> None:
        if not -0x80000000 <= value <= 0x7FFFFFFF:
            raise ValueError(f"{value} is no 32-bit number")
        self._base128((value << 1) ^ (value >> 31))

    def varlong(self, value: int) -> None:
        if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
            raise ValueError(f"{value} is no 64-bit number")
        self._base128((value << 1) ^ (value >> 63))

    def _base128(self, value: int) -> None:
        buffer = self.buffer
        while value > 0x7F:
            buffer.append((value & 0x7F) | 0x80)
            value >>= 7
        buffer.append(value)

    def uuid(self, value: str) -> None:
        self.buffer += topic_id_to_bytes(value)

    def length(self, value: int, compact: bool, wide: bool) -> None:
        """value: −1 for null. wide: the classic form has 32 bits, not 16."""
        if compact:
            self.uvarint(value + 1)
        elif wide:
            self.int32(value)
        else:
            if value > 0x7FFF:
                raise ValueError(f"a string of {value} bytes is longer than the 32767 that fit")
            self.int16(value)

    def nullable_string(self, value: str | None, compact: bool) -> None:
        if value is None:
            self.length(-1, compact, wide=False)
        else:
            self.string(value, compact)

    def string(self, value: str, compact: bool) -> None:
        data = value.encode("utf-8")
        self.length(len(data), compact, wide=False)
        self.buffer += data

    def nullable_bytes(self, value: bytes | bytearray | memoryview | None, compact: bool) -> None:
        if value is None:
            self.length(-1, compact, wide=True)
        else:
            self.length(len(value), compact, wide=True)
            self.buffer += value

    def tags(self, fields: Sequence[tuple[int, bytes | bytearray]]) -> None:
        """fields: (tag, its bytes) with rising tags."""
        self.uvarint(len(fields))
        for tag, data in fields:
            self.uvarint(tag)
            self.uvarint(len(data))
            self.buffer += data


def encode_uvarint(value: int) -> bytes:
    """value as an unsigned base-128 number."""
    if 0 <= value < 0x80:
        return bytes((value,))
    writer = Writer()
    writer.uvarint(value)
    return bytes(writer.buffer)
